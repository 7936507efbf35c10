//! Everybody on the stage.

pub mod bulk;
pub mod chaos;
pub mod engine;
pub mod operator;
pub mod producer;
pub mod session;
pub mod worker;
