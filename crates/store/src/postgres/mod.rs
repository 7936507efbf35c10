//! PostgreSQL behind the trait.
#![allow(dead_code, reason = "reads come before the store that asks them")]

mod address;
mod attempt_list;
mod by_state;
mod changes;
mod columns;
mod connection;
mod counts;
mod detail;
mod due;
mod duplicates;
mod failure;
mod figures;
mod filter;
pub(crate) mod fold;
mod history_list;
mod hours;
mod keys;
mod lanes;
mod list;
mod look;
mod lookup;
mod migrate;
mod operation_find;
mod operation_list;
mod params;
mod pattern_detail;
mod pattern_list;
mod pieces;
mod place;
mod predicate;
mod queue_list;
mod readers;
mod received;
mod revisions;
mod scan;
mod sent;
mod steps;
mod summary;
mod tls;

pub(crate) use place::{PgPlace, is_half_copied};
