//! The ports that a store implements.

pub mod backend;
pub mod rows;
