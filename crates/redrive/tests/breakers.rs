//! Breakers from the command line: listed, opened, closed and reset, per tenant and shared.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on should say where")]

#[path = "common/mod.rs"]
mod common;
mod support;

use common::http::Http;
use support::{Server, folder, json, refusal, text};

#[test]
fn breakers_are_worked_by_hand() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let run = |args: &[&str]| text(&server.cli(&key, args));
    let none = "every breaker is closed, and none has seen a failure lately\n";
    assert_eq!(run(&["breakers"]), none);

    let outage = ["--provider", "openai", "--model", "gpt-5", "--reason", "outage"];
    let opened = run(&[&["breakers", "open"], &outage[..]].concat());
    assert_eq!(opened, "breaker:everywhere/production/openai/gpt-5 is open by hand\n");
    let shown = json(&server.cli(&key, &["breakers", "--json"]));
    assert_eq!(
        (&shown["breakers"][0]["scope"], &shown["breakers"][0]["by_hand"]),
        (&"everywhere".into(), &true.into())
    );
    let reset = run(&[&["breakers", "reset"], &outage[..]].concat());
    assert_eq!(reset, "breaker:everywhere/production/openai/gpt-5 is closed\n");
    assert_eq!(run(&["breakers"]), none);

    let (_, said) = refusal(&server.cli(&key, &["tenants", "breaker", "open", "acme", "--reason", "freeze"]));
    assert!(said.contains("tenant"), "nobody makes a tenant by freezing it: {said}");
    let report = r#"{"tenant":"acme","run_id":"r1","error":{"message":"boom"}}"#;
    assert_eq!(Http::new(&server.url, &key).post("/v1/failures", report).unwrap().status, 201);
    assert_eq!(
        run(&["tenants", "breaker", "open", "acme", "--reason", "freeze"]),
        "breaker:tenant/production/acme is open by hand\n"
    );
    assert_eq!(
        run(&["breakers", "reset", "--tenant", "acme", "--reason", "over"]),
        "breaker:tenant/production/acme is closed\n"
    );
    let told = run(&["tenants", "breaker", "show", "acme"]);
    assert!(told.contains("reset by admin") && told.contains(": over") && told.contains("opened by admin"), "{told}");
}
