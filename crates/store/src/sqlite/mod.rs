//! SQLite behind the trait: one thread writes, a few connections read.

mod attempt_list;
mod attempt_rows;
mod backend;
mod breaker_rows;
mod by_state;
mod changes;
mod checkpointer;
mod columns;
mod committer;
mod connection;
mod counts;
mod detail;
#[cfg(test)]
mod detail_tests;
mod due;
mod duplicates;
#[cfg(test)]
mod effect_tests;
mod engine_rows;
mod figures;
#[cfg(test)]
mod figures_tests;
mod filter;
#[cfg(test)]
mod fixture;
mod folder;
mod history_list;
mod hours;
mod keys;
mod lanes;
mod lease_contents;
#[cfg(test)]
mod lease_tests;
mod ledger_rows;
mod list;
#[cfg(test)]
mod list_tests;
mod lookup;
mod migrate;
mod names;
mod operation_find;
mod operation_list;
mod operation_rows;
mod pattern_clock;
mod pattern_detail;
mod pattern_events;
mod pattern_list;
mod pattern_rows;
#[cfg(test)]
mod pattern_tests;
mod pieces;
mod place;
mod predicate;
mod queue_list;
mod readers;
mod received;
mod review_rows;
mod revisions;
mod rows;
mod run_rows;
mod scan;
mod sent;
mod store;
mod summary;
mod visit;
mod waiting_rows;
mod words;

use crate::shared::cursor;
use redrive_engine::ingest::fingerprints;

pub(crate) use connection::classify;
pub(crate) use place::FolderPlace;
pub use store::{Options, SqliteStore};
pub use visit::{Setup, Visit};
