//! The writer: commands folded into durable transactions, and the checkpoints beside it.

pub(crate) mod checkpointer;
pub(crate) mod committer;
