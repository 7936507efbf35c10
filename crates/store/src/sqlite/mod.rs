//! SQLite behind the trait.

mod attempt_list;
mod columns;
mod detail;
mod fingerprints;
mod history_list;
mod keys;
mod life;
mod lookup;
mod pieces;
mod readers;
mod summary;
