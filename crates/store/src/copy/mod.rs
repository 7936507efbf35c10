//! A store copied into another of any kind. The schemas are twins, so a copy is table by table, in the order of each
//! table's key, a piece at a time; how far it is lies in the target and commits with each piece, so that a copy that was
//! killed goes on where it was. Nobody may serve either store meanwhile.

mod postgres;
mod progress;
mod sqlite;
mod tables;
mod value;

pub use progress::{Copied, Progress};
