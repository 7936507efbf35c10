//! Patterns: what failures have in common, and what people do about them.

pub mod sightings;
pub mod verbs;
