//! SQLite behind the trait: one thread writes, a few connections read.

mod around;
mod attempt_list;
mod attempts;
mod batch;
mod breakers;
mod by_state;
mod changes;
mod columns;
mod command;
mod committer;
mod connection;
mod counts;
mod detail;
#[cfg(test)]
mod detail_tests;
mod due;
mod duplicates;
mod effects;
mod failpoint;
mod figures;
#[cfg(test)]
mod figures_tests;
mod filter;
#[cfg(test)]
mod fixture;
mod folder;
mod handing_out;
mod history_list;
mod hours;
mod keys;
mod lanes;
mod lease;
mod ledger;
mod limits;
mod list;
#[cfg(test)]
mod list_tests;
mod lookup;
mod merges;
mod migrate;
mod operation_freeze;
mod operation_guard;
mod operation_list;
mod operation_make;
mod operation_move;
mod operation_patch;
mod operation_row;
mod operation_settle;
mod operation_steer;
mod operation_work;
mod output_schemas;
mod pattern_clock;
mod pattern_detail;
mod pattern_events;
mod pattern_list;
#[cfg(test)]
mod pattern_tests;
mod pattern_triage;
mod patterns;
mod pieces;
mod plans;
mod predicate;
mod queue_list;
mod readers;
mod received;
mod refuse;
mod rejected;
mod replay;
mod report;
mod reviews;
mod revisions;
mod rows;
mod scan;
mod sent;
mod spend;
mod start;
mod steps;
mod store;
mod summary;
mod sweep;
mod tally;
mod triage;
mod under_lease;
mod versions;
mod visit;
mod words;

use crate::commands::{fingerprints, life, policy_shelf};
use crate::kept::cursor;

pub use store::{Options, SqliteStore};
pub use visit::{Setup, Visit};
