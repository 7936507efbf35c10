//! The whole API over a real store, with a clock that only the case moves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test's helpers may give up as loudly as the test itself"
)]

mod admin;
mod approvals;
mod attempts;
mod bad_input;
mod batches;
mod bounds;
mod breakers;
mod changes;
mod desk;
mod detectors;
mod dlq;
mod effects;
mod figures;
mod fixes;
mod isolation;
mod leases;
mod lists;
mod operations;
mod overflows;
mod pages;
mod patterns;
mod preflight;
mod races;
mod readers;
mod reroutes;
mod rules;
mod secrets;
mod serving;
mod shared_breakers;
mod silence;
mod spending;
mod starts;
mod steps;
mod strategies;
mod telemetry;
mod triage;
mod unread;
mod world;
