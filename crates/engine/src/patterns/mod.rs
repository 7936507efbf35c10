//! Patterns: counting failures by fingerprint, and actions on the groups.

pub mod sightings;
pub mod verbs;
