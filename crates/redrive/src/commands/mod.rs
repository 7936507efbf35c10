//! One file for each command: what it takes, and what it does.

pub(crate) mod breakers;
pub(crate) mod classify;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod direct;
pub(crate) mod doctor;
pub(crate) mod effects;
pub(crate) mod generate;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod operations;
pub(crate) mod patterns;
pub(crate) mod preflight;
pub(crate) mod queues;
mod reference;
pub(crate) mod runs;
mod runtime;
pub(crate) mod serve;
pub(crate) mod spool;
pub(crate) mod store;
pub(crate) mod tenants;

pub(crate) use runtime::{block_on, now};
