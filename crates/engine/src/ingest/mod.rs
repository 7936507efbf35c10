//! Failures reported without a lease.

pub mod fingerprints;
pub mod rejected;
pub mod report;
