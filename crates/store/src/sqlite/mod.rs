//! SQLite behind the trait: one thread writes, a few connections read.

mod attempt_list;
mod attempts;
mod batch;
mod columns;
mod committer;
mod connection;
mod counts;
mod cursor;
mod detail;
mod due;
mod filter;
mod fingerprints;
#[cfg(test)]
mod fixture;
mod history_list;
mod keys;
mod lanes;
mod lease;
mod ledger;
mod life;
mod list;
#[cfg(test)]
mod list_tests;
mod lookup;
mod migrate;
mod patterns;
mod pieces;
mod predicate;
mod readers;
mod received;
mod report;
mod rows;
mod scan;
mod start;
mod steps;
mod summary;
mod sweep;
mod tally;
mod triage;
mod under_lease;
mod words;
