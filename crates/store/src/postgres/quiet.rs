//! Breakers that have seen nothing but successes. They have no row, so that a success beside successes locks nothing;
//! what each has seen stays with its replica until a failure makes a row of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::breaker::{Breaker, Key};

/// Beyond this many the memory starts anew.
const KNOWN_MAX: usize = 20_000;

#[derive(Default)]
pub(super) struct Quiet(Mutex<HashMap<Key, Breaker>>);

impl Quiet {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Breaker> {
        self.all().get(key).cloned()
    }

    /// What a batch that is committed has seen.
    pub(super) fn keep(&self, seen: Vec<(Key, Option<Breaker>)>) {
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
