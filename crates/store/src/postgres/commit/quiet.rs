//! Breakers that have seen nothing but successes. They have no row, so that a success beside successes locks nothing;
//! what each has seen stays with its replica until a failure makes a row of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use redrive_core::breaker::{Breaker, Key};

/// Beyond this many the memory starts anew.
const KNOWN_MAX: usize = 20_000;

#[derive(Default)]
pub(crate) struct Quiet {
    all: Mutex<HashMap<Key, Breaker>>,
    /// The last generation when this replica first looked.
    since: OnceLock<u64>,
}

impl Quiet {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Breaker>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What began before this replica remembers says nothing of a breaker that it does not know.
    pub(crate) fn since(&self, last: u64) -> u64 {
        *self.since.get_or_init(|| last)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Breaker> {
        self.all().get(key).cloned()
    }

    /// What a batch that is committed has seen.
    pub(crate) fn keep(&self, seen: Vec<(Key, Option<Breaker>)>) {
        if seen.is_empty() {
            return;
        }
        let mut all = self.all();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        for (key, breaker) in seen {
            match breaker {
                Some(breaker) => drop(all.insert(key, breaker)),
                None => drop(all.remove(&key)),
            }
        }
    }
}
