//! A semaphore with a share per owner: a total number of permits, and a smaller number that one owner may hold. An owner
//! beyond its share waits outside the common queue, so that no other owner waits behind it.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Beyond this many owners, those without a permit are dropped.
const IDLE_OWNERS_MAX: usize = 1_024;

#[derive(Debug)]
pub struct FairSemaphore<K> {
    all: Arc<Semaphore>,
    share: usize,
    owners: Mutex<HashMap<K, Arc<Semaphore>>>,
}

thread_local! {
    static PRIORITY_LOWERED: Cell<bool> = const { Cell::new(false) };
}

/// A niceness of 5 leaves such a thread a quarter of a processor beside a thread of the usual 0.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

/// Lowers the priority of the calling thread for good. For threads that serve one caller each: the committer and the
/// runtime, which everybody waits for, go first.
pub fn lower_thread_priority() {
    if PRIORITY_LOWERED.replace(true) {
        return;
    }
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "thread priority not lowered");
    }
}

/// Released when it is dropped.
#[derive(Debug)]
pub struct FairPermit {
    _of_all: OwnedSemaphorePermit,
    _of_owner: OwnedSemaphorePermit,
}

impl<K: Hash + Eq + Clone> FairSemaphore<K> {
    pub fn new(all: usize, share: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), share, owners: Mutex::default() }
    }

    /// Waits for a permit; none once the semaphore is closed.
    pub async fn acquire(&self, owner: &K) -> Option<FairPermit> {
        // The owner's share comes first: waiting for it blocks no other owner.
        let of_owner = self.of_owner(owner).acquire_owned().await.ok()?;
        let of_all = self.all.clone().acquire_owned().await.ok()?;
        Some(FairPermit { _of_all: of_all, _of_owner: of_owner })
    }

    /// Waiting and later calls get no permit.
    pub fn close(&self) {
        self.all.close();
    }

    fn of_owner(&self, owner: &K) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = owners.get(owner) {
            return semaphore.clone();
        }
        if owners.len() >= IDLE_OWNERS_MAX {
            // An owner with a permit, or waiting for one, holds a reference.
            owners.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = Arc::new(Semaphore::new(self.share));
        owners.insert(owner.clone(), semaphore.clone());
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// The permit, if it needs no waiting.
    async fn at_once<F: Future<Output = Option<FairPermit>>>(acquire: F) -> Option<FairPermit> {
        let mut acquire = pin!(acquire);
        std::future::poll_fn(|cx| match acquire.as_mut().poll(cx) {
            Poll::Ready(permit) => Poll::Ready(permit),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    async fn is_waiting<F: Future + Unpin>(acquire: &mut F) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *acquire).poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn one_owner_leaves_permits_to_others() {
        let semaphore = FairSemaphore::new(4, 2);
        let held = [at_once(semaphore.acquire(&"a")).await, at_once(semaphore.acquire(&"a")).await];
        assert!(held.iter().all(Option::is_some));
        assert!(at_once(semaphore.acquire(&"a")).await.is_none(), "its share is used");
        assert!(at_once(semaphore.acquire(&"b")).await.is_some());
        drop(held);
        assert!(at_once(semaphore.acquire(&"a")).await.is_some());
    }

    #[tokio::test]
    async fn no_owner_waits_behind_anothers_excess() {
        let semaphore = FairSemaphore::new(2, 1);
        let held = (semaphore.acquire(&"a").await, semaphore.acquire(&"b").await);
        let mut greedy: Vec<_> = (0..9).map(|_| Box::pin(semaphore.acquire(&"a"))).collect();
        for more in &mut greedy {
            assert!(is_waiting(more).await);
        }
        let mut other = Box::pin(semaphore.acquire(&"c"));
        assert!(is_waiting(&mut other).await);
        drop(held);
        // One waiter of `a` gets its permit; the other permit goes to `c`.
        assert!(at_once(other).await.is_some());
    }

    #[tokio::test]
    async fn owners_without_permits_are_dropped() {
        let semaphore = FairSemaphore::new(1, 1);
        let held = semaphore.acquire(&0).await;
        for owner in 1..10 * IDLE_OWNERS_MAX {
            assert!(at_once(semaphore.acquire(&owner)).await.is_none());
        }
        assert!(semaphore.owners.lock().unwrap().len() <= IDLE_OWNERS_MAX);
        assert!(at_once(semaphore.acquire(&0)).await.is_none(), "an owner with a permit stays");
        drop(held);
    }

    #[tokio::test]
    async fn a_closed_semaphore_grants_nothing() {
        let semaphore = FairSemaphore::new(1, 1);
        semaphore.close();
        assert!(semaphore.acquire(&"a").await.is_none());
    }
}
