//! `/v1`.

pub(crate) mod breakers;
pub(crate) mod changes;
pub(crate) mod effects;
pub(crate) mod failures;
pub(crate) mod health;
pub(crate) mod heartbeats;
pub(crate) mod keys;
pub(crate) mod leases;
pub(crate) mod limits;
pub(crate) mod operations;
pub(crate) mod patterns;
pub(crate) mod preflight;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod stats;
pub(crate) mod tenants;
