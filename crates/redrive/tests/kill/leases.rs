//! L6, L3: a death of ours spends nobody's attempt, and silence is still a failure afterwards.

use redrive_core::time::Timestamp;

use crate::common::http::Http;
use crate::common::{now, wait_until};
use crate::support::{Server, folder, wait_for};

/// Longer than the gap after which we know that none of us was there.
const AWAY_MS: u64 = 4_000;

#[test]
fn a_lease_that_ran_out_while_we_were_dead_is_extended_once_and_spends_no_attempt() {
    let folder = folder();
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let mut http = Http::new(&server.url, &key);
    let mut begin = |run_id: &str| {
        let body = format!(r#"{{"tenant":"acme","run_id":"{run_id}","mode":"start","lease_ms":2500}}"#);
        let begun = http.post("/v1/runs", body).unwrap().json();
        (begun["lease"].as_str().unwrap().to_owned(), begun["lease_expires_at"].as_str().unwrap().parse().unwrap())
    };
    let (alive, _): (String, Timestamp) = begin("alive");
    let (_, expires): (String, Timestamp) = begin("quiet");
    server.kill();
    wait_until("the lease to have run out while nobody was there", expires.max(now().plus_ms(AWAY_MS)));

    let server = Server::start(folder.path());
    let mut http = Http::new(&server.url, &key);
    let done = http.post("/v1/runs/alive/succeed?tenant=acme", format!(r#"{{"lease":"{alive}"}}"#)).unwrap();
    assert_eq!((done.short(), done.json()["late"].clone()), ((200, "succeeded".into()), false.into()));

    let quiet = wait_for("a verdict on the one that stayed quiet", || {
        let shown = http.get("/v1/runs/quiet?tenant=acme").unwrap().json();
        (shown["state"] != "running").then_some(shown)
    });
    assert_eq!((&quiet["state"], &quiet["reason"]), (&"scheduled".into(), &"silent".into()));
    let failed: Timestamp = quiet["attempts"][0]["recorded_at"].as_str().unwrap().parse().unwrap();
    assert!(failed > expires.plus_ms(AWAY_MS - 2_500), "its lease was extended first");
    assert_eq!((quiet["attempt"].as_u64(), quiet["attempts"].as_array().unwrap().len()), (Some(1), 1));
}
