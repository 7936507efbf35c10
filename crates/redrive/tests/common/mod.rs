//! Shared by the suites over the real binary: a plain client that can misbehave, direct reads of the store's file, and
//! randomness from a printed seed.
#![allow(dead_code, reason = "each suite uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test that can't go on should say where"
)]

pub mod http;
pub mod inside;
#[path = "../../../store/tests/model/lot.rs"]
pub mod lot;

use std::path::Path;

use redrive_core::time::Timestamp;
use redrive_engine::{Clock as _, SystemClock};

use crate::support::{Server, new_key, wait_for};

/// A failed attempt of tenant acme, by an operator's key.
pub fn failure(run_id: &str, payload: &str) -> String {
    format!(
        r#"{{"tenant":"acme","run_id":"{run_id}","attempt":1,"payload":{payload},"error":{{"message":"Request timed out"}}}}"#
    )
}

pub fn now() -> Timestamp {
    SystemClock.now()
}

pub fn wait_until(what: &str, then: Timestamp) {
    wait_for(what, || (now() > then).then_some(()));
}

/// A key for one tenant, once the server knows it.
pub fn key_for(folder: &Path, server: &Server, role: &str, tenant: &str) -> String {
    let key = new_key(folder, &["--role", role, "--tenant", tenant])["key"].as_str().unwrap().to_owned();
    let mut client = http::Http::new(&server.url, &key);
    wait_for("the new key", || (client.get("/v1/limits").unwrap().status == 200).then_some(()));
    key
}
