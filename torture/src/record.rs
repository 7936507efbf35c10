//! What the clients did and were told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An acknowledged failure.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) run: String,
    pub(crate) attempt: u64,
    pub(crate) mark: String,
    /// The payload as its first report had it.
    pub(crate) payload: Option<String>,
}

/// One thing outside that must not happen twice. Whoever holds it is the only one who looks or acts.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    pub(crate) done: u64,
    pub(crate) acknowledged: bool,
    pub(crate) offered_again: bool,
}

#[derive(Default)]
pub(crate) struct Record {
    pub(crate) acknowledged: Mutex<Vec<Acknowledged>>,
    /// Runs whose success was acknowledged, and that nobody opened again.
    pub(crate) succeeded: Mutex<Vec<String>>,
    pub(crate) outside: Mutex<BTreeMap<String, Arc<Mutex<Outside>>>>,
    pub(crate) operations: Mutex<Vec<String>>,
    /// Broken promises that a client saw at once.
    pub(crate) seen: Mutex<Vec<String>>,
    pub(crate) calls: AtomicU64,
    pub(crate) maybes: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// The disk is full or the database away, and how many were refused while it was.
    pub(crate) starving: AtomicBool,
    pub(crate) starved: AtomicU64,
}

pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Record {
    pub(crate) fn outside(&self, key: &str) -> Arc<Mutex<Outside>> {
        held(&self.outside).entry(key.to_owned()).or_default().clone()
    }

    pub(crate) fn saw(&self, what: String) {
        held(&self.seen).push(what);
    }

    pub(crate) fn print(&self) {
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        println!(
            "{} calls ({} without an answer, {} refused for now, {} of these while the disk was full or the database away), {} failures and {} successes acknowledged, {} effects done, {} operations",
            of(&self.calls),
            of(&self.maybes),
            of(&self.refused),
            of(&self.starved),
            held(&self.acknowledged).len(),
            held(&self.succeeded).len(),
            held(&self.outside).values().filter(|one| held(one).done > 0).count(),
            held(&self.operations).len(),
        );
    }
}
