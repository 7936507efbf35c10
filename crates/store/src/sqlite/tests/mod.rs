//! Tests of the reads, over rows put in by hand.

pub(crate) mod detail;
pub(crate) mod effect;
pub(crate) mod figures;
pub(crate) mod fixture;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod pattern;
