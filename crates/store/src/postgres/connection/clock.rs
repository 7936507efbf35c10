//! The store's clock is the database's: read in every transaction that decides by it, and carried on between them by what
//! has elapsed since, so that nobody who sets this machine's clock changes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redrive_core::time::Timestamp;

use crate::numbers::signed;
use redrive_engine::clock::{Clock, SystemClock};

/// What the clock of the database says, in milliseconds.
pub(crate) const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

#[derive(Clone)]
pub(crate) enum Time {
    /// What the database said last, without what had elapsed here then; none yet: this machine's clock.
    Database { base_ms: Arc<AtomicI64> },
    /// A test's own.
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

    /// The instant of a transaction in which the database said `now_ms`.
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
