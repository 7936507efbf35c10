//! SQLite behind the trait: one thread writes, a few connections read.

mod attempts;
mod batch;
mod committer;
mod connection;
mod lease;
mod ledger;
mod life;
mod migrate;
mod patterns;
mod report;
mod rows;
mod start;
mod steps;
mod sweep;
mod tally;
mod triage;
mod under_lease;
