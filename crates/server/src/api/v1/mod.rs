//! `/v1`.

pub(crate) mod breakers;
pub(crate) mod effects;
pub(crate) mod failures;
pub(crate) mod keys;
pub(crate) mod leases;
pub(crate) mod operations;
pub(crate) mod patterns;
pub(crate) mod preflight;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod status;
pub(crate) mod tenants;
