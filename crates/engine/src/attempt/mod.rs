//! Attempts under way: how they begin, what workers report under their lease, and how they end.

pub mod start;
pub mod under_lease;
