//! SQLite behind the trait.

mod attempt_list;
mod by_state;
mod changes;
mod columns;
mod counts;
mod cursor;
mod detail;
mod due;
mod figures;
mod filter;
mod fingerprints;
mod history_list;
mod hours;
mod keys;
mod lanes;
mod life;
mod list;
mod lookup;
mod pattern_list;
mod pieces;
mod predicate;
mod queue_list;
mod readers;
mod received;
mod scan;
mod summary;
mod words;

#[cfg(test)]
mod detail_tests;
#[cfg(test)]
mod figures_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod pattern_tests;
