//! The actors of a run.

pub mod chaos;
pub mod operator;
pub mod producer;
pub mod worker;
