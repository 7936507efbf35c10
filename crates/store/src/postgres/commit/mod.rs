//! The writers: commands folded into transactions, and what a batch reads before and writes at its end.

pub(crate) mod committer;
pub(crate) mod counter_deltas;
pub(crate) mod due_watermarks;
pub(crate) mod fold;
pub(crate) mod prefetch;
pub(crate) mod unit_of_work;
pub(crate) mod write_out;
pub(crate) mod writer;
pub(crate) mod writer_connection;
