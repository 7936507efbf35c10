//! `cargo xtask test`: set up, run every suite, sum up.

mod command;
pub(crate) mod needs;
mod report;
mod stream;
mod tally;

pub(crate) use command::run;
