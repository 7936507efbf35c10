//! What commands share: a small runtime, and the time.

use anyhow::Context;
use redrive_core::time::Timestamp;
use redrive_store::{Clock, SystemClock};

/// Runs a command that waits for a server: one thread is enough for that.
pub(crate) fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?.block_on(command)
}

/// Only for saying how long ago something was; the server's clock decides everything else.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
