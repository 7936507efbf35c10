//! Failures that arrive in one call: which attempt it is, its verdict, its pattern.

pub mod fingerprints;
pub mod rejected;
pub mod report;
