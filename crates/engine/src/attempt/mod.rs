//! Attempts: start, reports under a lease, end.

pub mod start;
pub mod under_lease;
