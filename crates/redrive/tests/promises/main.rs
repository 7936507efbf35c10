//! Promises kept by the real server over HTTP: races, hang-ups, a full disk, silence, stopping, secrets, bad input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on should say where, and one that can should say how far it went"
)]

mod clients;
#[path = "../common/mod.rs"]
mod common;
mod lifecycle;
mod secrets;
mod storage;
#[path = "../support/mod.rs"]
mod support;
