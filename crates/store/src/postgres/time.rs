//! The store's clock is the database's: read in every transaction that decides by it, and between them as far as this
//! machine's clock was off the last time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redrive_core::time::Timestamp;

use crate::clock::{Clock, SystemClock};

/// What the clock of the database says, in milliseconds.
pub(super) const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

#[derive(Clone)]
pub(super) enum Time {
    Database {
        ahead_ms: Arc<AtomicI64>,
    },
    /// A test's own.
    Given(Arc<dyn Clock>),
}

impl Time {
    pub(super) fn of(given: Option<Arc<dyn Clock>>) -> Self {
        given.map_or_else(|| Self::Database { ahead_ms: Arc::default() }, Self::Given)
    }

    pub(super) fn now(&self) -> Timestamp {
        match self {
            Self::Database { ahead_ms } => {
                let ahead = ahead_ms.load(Ordering::Relaxed);
                Timestamp::from_millis(SystemClock.now().as_millis().saturating_add(ahead))
            }
            Self::Given(clock) => clock.now(),
        }
    }

    /// The instant of a transaction in which the database said `now_ms`.
    pub(super) fn read(&self, now_ms: i64) -> Timestamp {
        match self {
            Self::Database { ahead_ms } => {
                ahead_ms.store(now_ms.saturating_sub(SystemClock.now().as_millis()), Ordering::Relaxed);
                Timestamp::from_millis(now_ms)
            }
            Self::Given(clock) => clock.now(),
        }
    }
}
