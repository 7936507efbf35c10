//! `redrive effects` against a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on should say where")]

#[path = "common/mod.rs"]
mod common;
mod support;

use common::http::Http;
use support::{Server, folder, json, refusal, text};

/// A dead run of tenant acme, two of its effects in doubt: one by its own key, one without.
fn in_doubt() -> (tempfile::TempDir, Server, String) {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let report = r#"{"tenant":"acme","run_id":"task-1","error":{"message":"boom"},"steps":[
        {"name":"charge","key":"task-1:charge","status":"started","check":"ask\u001b[31m the bank"},
        {"name":"send mail","status":"started"}]}"#;
    assert_eq!(Http::new(&server.url, &key).post("/v1/failures", report).unwrap().short(), (201, "dead".into()));
    (folder, server, key)
}

#[test]
fn unknown_effect_is_shown_and_reconciled() {
    let (_folder, server, key) = in_doubt();
    let cli = |args: &[&str]| server.cli(&key, &[args, &["--tenant", "acme"]].concat());
    let shown = text(&cli(&["effects", "show", "task-1:charge"]));
    assert!(shown.starts_with("task-1:charge  unknown\n"), "{shown}");
    assert!(shown.contains("task-1, attempt 1, tenant acme") && !shown.contains('\u{1b}'), "{shown}");

    let settled = text(&cli(&["effects", "reconcile", "task-1:charge", "--outcome", "not_done", "--reason", "asked"]));
    assert!(settled.starts_with("task-1:charge  reconciled as not_done\n"), "{settled}");
    let still = refusal(&cli(&["runs", "replay", "task-1"]));
    assert!(still.1.contains("no known outcome"), "the mail is in doubt as well: {}", still.1);

    let done = ["effects", "reconcile", "step:send@20mail", "--run", "task-1", "--outcome", "committed"];
    let done = json(&cli(&[&done[..], &["--output", r#"{"id": 7}"#, "--json"]].concat()));
    assert_eq!((&done["status"], &done["output"]["id"]), (&"reconciled".into(), &7.into()));
    let other = refusal(&cli(&["effects", "reconcile", "task-1:charge", "--outcome", "committed"]));
    assert!(other.1.contains("already reconciled"), "{}", other.1);
    let page = text(&cli(&["runs", "show", "task-1"]));
    assert!(page.contains("reconciled  charge (key task-1:charge, attempt 1, an effect, not_done)"), "{page}");
}

#[test]
fn what_never_happened_has_no_output() {
    let (_folder, server, key) = in_doubt();
    let args = ["effects", "reconcile", "task-1:charge", "--tenant", "acme", "--outcome", "not_done", "--output", "1"];
    let (code, said) = refusal(&server.cli(&key, &args));
    assert_eq!(code, Some(2), "{said}");
}
