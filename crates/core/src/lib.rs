//! The product as pure functions: no I/O, no clock, no randomness of its own.
//! Time, jitter and ids are arguments; every answer is data for the store and the server to act on.

pub mod classify;
pub mod pattern;
pub mod reason;
