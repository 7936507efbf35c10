//! Heartbeats of every attempt that a client and its clones hold: one task, and one call for all that are due.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redrive_core::wire::{HeartbeatsAnswer, HeartbeatsRequest, LeaseBeat};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::client::Client;

/// So many heartbeats fit into a lease: two may get lost.
const BEATS_PER_LEASE: u32 = 3;
/// What the server takes in one call.
const LEASES_MAX: usize = 1_000;
/// A beat that is due within this part of its interval goes with those that are due now.
const EARLY_PART: u32 = 4;
const ANSWER_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Ends its task when the last client and the last attempt are gone.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    held: Arc<Held>,
    task: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct Held {
    leases: Mutex<Leases>,
    /// A lease has come that may be due before all others.
    added: Notify,
}

#[derive(Debug, Default)]
struct Leases {
    last: u64,
    by_number: BTreeMap<u64, HeldLease>,
}

#[derive(Debug)]
struct HeldLease {
    beat: LeaseBeat,
    every: Duration,
    due: Instant,
    lost: watch::Sender<bool>,
}

/// A lease that is kept alive; dropping it ends its heartbeats.
#[derive(Debug)]
pub(crate) struct Kept {
    held: Arc<Held>,
    number: u64,
    pub(crate) lost: watch::Receiver<bool>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        lock(&self.held.leases).by_number.remove(&self.number);
    }
}

impl Beats {
    /// `client` is whoever sends the heartbeats; it must not hold these beats, or they would never end.
    pub(crate) fn keep(&self, client: Client, beat: LeaseBeat, lease_ms: u64) -> Kept {
        let every = (Duration::from_millis(lease_ms) / BEATS_PER_LEASE).max(Duration::from_millis(1));
        let (tell, lost) = watch::channel(false);
        let number = {
            let mut leases = lock(&self.held.leases);
            leases.last += 1;
            let number = leases.last;
            leases.by_number.insert(number, HeldLease { beat, every, due: Instant::now() + every, lost: tell });
            number
        };
        self.held.added.notify_one();
        let mut task = lock(&self.task);
        // A task that ended did so with its runtime.
        while task.try_join_next().is_some() {}
        if task.is_empty() {
            task.spawn(send_beats(client, Arc::downgrade(&self.held)));
        }
        Kept { held: self.held.clone(), number, lost }
    }
}

/// Nothing that panics runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn send_beats(client: Client, held: Weak<Held>) {
    let mut calls = JoinSet::new();
    while let Some(held) = held.upgrade() {
        let next = lock(&held.leases).by_number.values().map(|lease| lease.due).min();
        tokio::select! {
            () = held.added.notified() => continue,
            () = until(next) => {}
        }
        // A slow answer holds nobody else's heartbeat up.
        while calls.try_join_next().is_some() {}
        for batch in held.due(Instant::now()) {
            calls.spawn(send(client.clone(), Arc::downgrade(&held), batch));
        }
    }
}

async fn until(next: Option<Instant>) {
    match next {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

struct Batch {
    numbers: Vec<u64>,
    leases: Vec<LeaseBeat>,
    timeout: Duration,
}

impl Held {
    /// What is due, in calls that the server takes; each is due again one interval later.
    fn due(&self, now: Instant) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for (number, lease) in &mut lock(&self.leases).by_number {
            if lease.due > now + lease.every / EARLY_PART {
                continue;
            }
            lease.due = now + lease.every;
            if batches.last().is_none_or(|batch| batch.leases.len() == LEASES_MAX) {
                batches.push(Batch { numbers: Vec::new(), leases: Vec::new(), timeout: ANSWER_TIMEOUT_MIN });
            }
            if let Some(batch) = batches.last_mut() {
                batch.numbers.push(*number);
                batch.leases.push(lease.beat.clone());
                batch.timeout = batch.timeout.max(lease.every);
            }
        }
        batches
    }

    fn answered(&self, numbers: &[u64], answer: &HeartbeatsAnswer) {
        let mut leases = lock(&self.leases);
        for (number, said) in numbers.iter().zip(&answer.leases) {
            if matches!(said.code.as_deref(), Some("lease_lost" | "cancelled"))
                && let Some(lease) = leases.by_number.remove(number)
            {
                let _ = lease.lost.send(true);
            }
        }
    }
}

/// A server that is away for a beat may be back for the next one; only a lease that is over ends it.
async fn send(client: Client, held: Weak<Held>, batch: Batch) {
    let request = HeartbeatsRequest { leases: batch.leases };
    let answer = client.heartbeats(&request).timeout(batch.timeout).await;
    if let (Ok(answer), Some(held)) = (answer, held.upgrade()) {
        held.answered(&batch.numbers, &answer);
    }
}
