//! The domain as pure functions: no I/O, no clock, no randomness. Time, jitter and ids are arguments; every answer is data
//! that the store and the server act on.

mod hash;
mod words;

pub mod absence;
pub mod breaker;
pub mod classify;
pub mod detect;
pub mod guard;
pub mod ids;
pub mod json;
pub mod ledger;
pub mod lifecycle;
pub mod models;
pub mod money;
pub mod operation;
pub mod patch;
pub mod pattern;
pub mod plan;
pub mod policy;
pub mod preflight;
pub mod reason;
pub mod receipt;
pub mod rewrite;
pub mod run;
pub mod strategy;
pub mod text;
pub mod time;
pub mod verdict;
pub mod wire;
pub mod wording;
