//! The store's clock is the database's. Every transaction reads it; between reads it advances by the monotonic clock, so that
//! setting this machine's clock does not change it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redrive_core::time::Timestamp;

use crate::numbers::signed;
use redrive_engine::clock::{Clock, SystemClock};

/// What the clock of the database says, in milliseconds.
pub(crate) const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

#[derive(Clone)]
pub(crate) enum Time {
    /// The database's time minus this process's elapsed time; this machine's clock before the first read.
    Database { base_ms: Arc<AtomicI64> },
    /// The clock of a test.
    Given(Arc<dyn Clock>),
}

impl Time {
    pub(crate) fn of(given: Option<Arc<dyn Clock>>) -> Self {
        given.map_or_else(
            || {
                let base_ms = SystemClock.now().as_millis().saturating_sub(elapsed_ms());
                Self::Database { base_ms: Arc::new(AtomicI64::new(base_ms)) }
            },
            Self::Given,
        )
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Database { base_ms } => {
                Timestamp::from_millis(base_ms.load(Ordering::Relaxed).saturating_add(elapsed_ms()))
            }
            Self::Given(clock) => clock.now(),
        }
    }

    /// Sets the clock to the database's time; returns the time of the transaction.
    pub(crate) fn read(&self, now_ms: i64) -> Timestamp {
        match self {
            Self::Database { base_ms } => {
                base_ms.store(now_ms.saturating_sub(elapsed_ms()), Ordering::Relaxed);
                Timestamp::from_millis(now_ms)
            }
            Self::Given(clock) => clock.now(),
        }
    }
}

fn elapsed_ms() -> i64 {
    signed(SystemClock.elapsed().as_millis())
}
