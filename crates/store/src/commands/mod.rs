//! What commands and rows share, whatever the store.

pub(crate) mod fingerprints;
pub(crate) mod life;
pub(crate) mod numbers;
pub(crate) mod policy_shelf;
