//! Copies a store into a new one, of the same kind or the other. Both have the same tables, so a copy goes table by table
//! in key order. Each batch commits with its progress in the target, so an interrupted copy resumes. No server may run on
//! either store meanwhile.

mod cell;
mod postgres;
mod progress;
mod run;
mod sqlite;
mod store;
mod tables;
#[cfg(test)]
mod tests;

pub use progress::{Copied, Progress};
pub use run::copy;
pub use store::StoreAddress;

pub(crate) use progress::half_copied;
pub(crate) use store::is_half_copied;
