//! The real binary under `kill -9`: at random moments, and at named points in the committer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on should say where, and one that can should say how far it went"
)]

mod breakers;
#[path = "../common/mod.rs"]
mod common;
mod freezes;
mod operations;
mod replays;
mod reports;
#[path = "../support/mod.rs"]
mod support;
mod workers;
