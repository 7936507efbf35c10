//! Bounded concurrency, shared out: so many at once, and of these at most so many of one owner. What an owner has beyond
//! its share waits without a place in the common queue, so that nobody else waits behind it.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Owners that may be remembered before those who hold nothing are let go of.
const IDLE_OWNERS_MAX: usize = 1_024;

#[derive(Debug)]
pub struct Turns<K> {
    all: Arc<Semaphore>,
    share: usize,
    owners: Mutex<HashMap<K, Arc<Semaphore>>>,
}

thread_local! {
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Behind the usual 0: beside a thread that others wait for, such a thread gets a quarter of a processor.
#[cfg(target_os = "linux")]
const BEHIND: i32 = 5;

/// Of a thread that works for one caller at a time: those that everybody waits for go before it from here on.
pub fn give_way() {
    if GAVE_WAY.replace(true) {
        return;
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, BEHIND) {
        tracing::debug!(%error, "a thread takes turns with the others");
    }
}

/// One place; given back when it is dropped.
#[derive(Debug)]
pub struct Turn {
    _of_all: OwnedSemaphorePermit,
    _of_owner: OwnedSemaphorePermit,
}

impl<K: Hash + Eq + Clone> Turns<K> {
    pub fn new(all: usize, share: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), share, owners: Mutex::default() }
    }

    /// Waits for a place; None once they are closed.
    pub async fn take(&self, owner: &K) -> Option<Turn> {
        // The owner's own first: who waits for that is in nobody's way.
        let of_owner = self.of_owner(owner).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(Turn { _of_all: of_all, _of_owner: of_owner })
    }

    /// Nobody gets a place any more.
    pub fn close(&self) {
        self.all.close();
    }

    fn of_owner(&self, owner: &K) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = owners.get(owner) {
            return known.clone();
        }
        if owners.len() >= IDLE_OWNERS_MAX {
            // Whoever holds a place, or waits for one, holds the semaphore too.
            owners.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let new = Arc::new(Semaphore::new(self.share));
        owners.insert(owner.clone(), new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Whether it gets a place without waiting.
    async fn at_once<F: Future<Output = Option<Turn>>>(take: F) -> Option<Turn> {
        let mut take = pin!(take);
        std::future::poll_fn(|cx| match take.as_mut().poll(cx) {
            Poll::Ready(turn) => Poll::Ready(turn),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    async fn is_waiting<F: Future + Unpin>(take: &mut F) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *take).poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn one_owner_leaves_places_to_others() {
        let turns = Turns::new(4, 2);
        let held = [at_once(turns.take(&"a")).await, at_once(turns.take(&"a")).await];
        assert!(held.iter().all(Option::is_some));
        assert!(at_once(turns.take(&"a")).await.is_none(), "its share is used");
        assert!(at_once(turns.take(&"b")).await.is_some());
        drop(held);
        assert!(at_once(turns.take(&"a")).await.is_some());
    }

    #[tokio::test]
    async fn nobody_waits_behind_what_exceeds_a_share() {
        let turns = Turns::new(2, 1);
        let held = (turns.take(&"a").await, turns.take(&"b").await);
        let mut greedy: Vec<_> = (0..9).map(|_| Box::pin(turns.take(&"a"))).collect();
        for more in &mut greedy {
            assert!(is_waiting(more).await);
        }
        let mut other = Box::pin(turns.take(&"c"));
        assert!(is_waiting(&mut other).await);
        drop(held);
        // One of the greedy got a's place; the other place is c's.
        assert!(at_once(other).await.is_some());
    }

    #[tokio::test]
    async fn owners_that_hold_nothing_are_forgotten() {
        let turns = Turns::new(1, 1);
        let held = turns.take(&0).await;
        for owner in 1..10 * IDLE_OWNERS_MAX {
            assert!(at_once(turns.take(&owner)).await.is_none());
        }
        assert!(turns.owners.lock().unwrap().len() <= IDLE_OWNERS_MAX);
        assert!(at_once(turns.take(&0)).await.is_none(), "who holds a place is remembered");
        drop(held);
    }

    #[tokio::test]
    async fn closed_turns_are_given_to_nobody() {
        let turns = Turns::new(1, 1);
        turns.close();
        assert!(turns.take(&"a").await.is_none());
    }
}
