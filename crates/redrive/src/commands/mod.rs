//! One module per command: its arguments and what it does.

use anyhow::Context;
use redrive_core::time::Timestamp;
use redrive_engine::{Clock, SystemClock};

pub(crate) mod breakers;
pub(crate) mod classify;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod effects;
pub(crate) mod generate;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod offline;
pub(crate) mod operations;
pub(crate) mod patterns;
pub(crate) mod preflight;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod spool;
pub(crate) mod store;
pub(crate) mod tenants;

/// Runs a command that waits for a server: one thread is enough for that.
pub(crate) fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?.block_on(command)
}

/// Only for saying how long ago something was; the server's clock decides everything else.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
