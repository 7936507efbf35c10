//! Telling waiting lease calls that a run may have fallen due: those of this replica at once, those of others by a notice at
//! most every so often. A hint and no more: whoever waits also looks by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, watch};

/// The channel of notices.
pub(crate) const CHANNEL: &str = "redrive_due";

#[derive(Clone)]
pub(crate) struct Wakeups {
    wake: Arc<watch::Sender<u64>>,
    /// Somebody has to be told.
    pub(crate) to_tell: Arc<Notify>,
    any: Arc<AtomicBool>,
}

impl Wakeups {
    pub(crate) fn new() -> Self {
        Self { wake: Arc::new(watch::channel(0).0), to_tell: Arc::default(), any: Arc::default() }
    }

    pub(crate) fn waiting(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    /// A commit of this replica made a run due.
    pub(crate) fn due(&self) {
        self.heard();
        if !self.any.swap(true, Ordering::SeqCst) {
            self.to_tell.notify_one();
        }
    }

    /// Another replica's did.
    pub(crate) fn heard(&self) {
        self.wake.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Whether there is something to tell since the last time.
    pub(crate) fn take(&self) -> bool {
        self.any.swap(false, Ordering::SeqCst)
    }
}
