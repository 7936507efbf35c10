//! Reads, written once for both databases, and how rows become records. No driver is used here: [`reader`] is the
//! interface that the adapters implement.

pub(crate) mod attempts;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod columns;
pub(crate) mod counters;
pub(crate) mod cursor;
pub(crate) mod detail;
pub(crate) mod duplicates;
pub(crate) mod figures;
pub(crate) mod filter;
pub(crate) mod history;
pub(crate) mod hours;
pub(crate) mod keys;
pub(crate) mod lease_contents;
pub(crate) mod lookup;
pub(crate) mod migrations;
pub(crate) mod operation_work;
pub(crate) mod operations;
pub(crate) mod pages;
pub(crate) mod patterns;
pub(crate) mod payloads;
pub(crate) mod queues;
pub(crate) mod reader;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod scan;
