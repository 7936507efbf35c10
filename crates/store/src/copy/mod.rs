//! A store copied into another of any kind. The schemas are twins, so a copy is table by table, in the order of each
//! table's key, a piece at a time; how far it is lies in the target and commits with each piece, so that a copy that was
//! killed goes on where it was. Nobody may serve either store meanwhile.

mod ends;
mod postgres;
mod progress;
mod run;
mod sqlite;
mod tables;
#[cfg(test)]
mod tests;
mod value;

pub use ends::Place;
pub use progress::{Copied, Progress};
pub use run::copy;

pub(crate) use ends::is_half_copied;
pub(crate) use progress::half_copied;
