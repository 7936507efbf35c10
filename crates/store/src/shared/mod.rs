//! What every store keeps the same way: how a run's life, names and pages lie in columns, and how rows become what
//! people and programs read. Pure: no store's driver is known here.

pub(crate) mod attempts;
pub(crate) mod by_state;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod columns;
pub(crate) mod counts;
pub(crate) mod cursor;
pub(crate) mod detail;
pub(crate) mod duplicates;
pub(crate) mod figures;
pub(crate) mod filter;
pub(crate) mod history;
pub(crate) mod hours;
pub(crate) mod keys;
pub(crate) mod lookup;
pub(crate) mod migrations;
pub(crate) mod operations;
pub(crate) mod pages;
pub(crate) mod patterns;
pub(crate) mod queues;
pub(crate) mod records;
pub(crate) mod summary;
pub(crate) mod words;
