//! SQLite behind the trait.

mod attempt_list;
mod columns;
mod counts;
mod cursor;
mod detail;
mod due;
mod filter;
mod fingerprints;
mod history_list;
mod keys;
mod lanes;
mod life;
mod list;
mod lookup;
mod pieces;
mod predicate;
mod readers;
mod received;
mod scan;
mod summary;
mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod list_tests;
