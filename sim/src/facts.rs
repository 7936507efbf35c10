//! What everybody has been told, and what happened outside. Answers are held against it as they come (D, L, R), the
//! store's own state by `check`.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::time::Timestamp;

/// Tenant and run.
pub type Key = (usize, String);

/// A lease that somebody was given.
#[derive(Debug, Clone)]
pub struct Grant {
    pub token: String,
    pub granted_at: Timestamp,
    /// At least: a heartbeat whose answer was lost may have moved it.
    pub expires_at: Timestamp,
    /// By `/v1/leases`, and not as a replay: breakers have a say.
    pub automatic: bool,
    /// Somebody has asked for its end; whether that arrived is another question.
    pub end_asked: bool,
    pub start_id: Option<String>,
}

#[derive(Debug, Default)]
pub struct RunFacts {
    /// Attempt to the mark in the report that was acknowledged.
    pub acknowledged: BTreeMap<u32, String>,
    /// Late failures that were said to be recorded.
    pub recorded_late: BTreeSet<(u32, String)>,
    pub grants: BTreeMap<u64, Grant>,
    /// Cancels that are on their way, and when the last of the others was through: which lease they ended nobody is told.
    pub cancels: u32,
    pub cancelled_until: Option<Timestamp>,
    /// Calls that could still open it again.
    pub loose_ends: u32,
    /// How often somebody has set out to open it again.
    pub reopenings: u32,
    /// The epoch under which it was acknowledged as succeeded, with nothing since that could open it again.
    pub sealed_by: Option<u64>,
    /// Runs that somebody wanted merged into this one.
    pub sources: BTreeSet<String>,
}

/// One thing outside that must not happen twice.
#[derive(Debug, Default)]
pub struct Outside {
    pub done: u32,
    /// The ledger has said that it knows.
    pub acknowledged: bool,
    /// Workers that were told to do it and have not said how it went.
    pub intents: BTreeSet<u64>,
}

#[derive(Debug, Default)]
pub struct OperationFacts {
    /// The set as it was previewed, in order.
    pub previewed: Option<Vec<String>>,
    /// What was moved when its cancel was answered.
    pub cancelled_at: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Facts {
    pub runs: BTreeMap<Key, RunFacts>,
    /// By tenant and the effect's key, or the run and the step's key.
    pub outside: BTreeMap<(usize, String), Outside>,
    pub operations: BTreeMap<String, OperationFacts>,
    /// The newest run of each tenant.
    pub newest: [u64; 3],
    pub marks: u64,
    pub workers: u64,
}

impl RunFacts {
    pub fn may_reopen(&mut self) {
        self.sealed_by = None;
        self.loose_ends += 1;
        self.reopenings += 1;
    }

    /// Nothing is under way that could open it again; the same figure later: and nothing was meanwhile.
    pub fn quiet_since(&self) -> Option<u32> {
        (self.loose_ends == 0).then_some(self.reopenings)
    }

    /// The epoch of the success that must stay.
    pub fn last_word(&self) -> Option<u64> {
        self.sealed_by.filter(|_| self.loose_ends == 0)
    }
}

impl Facts {
    pub fn run(&mut self, key: &Key) -> &mut RunFacts {
        self.runs.entry(key.clone()).or_default()
    }

    /// A word that nobody has used before.
    pub fn mark(&mut self) -> String {
        self.marks += 1;
        format!("mark-{}", self.marks)
    }

    /// A worker asks for leave to do it. True where the ledger knows already that it is done.
    pub fn intends(&mut self, outside: &(usize, String), worker: u64) -> bool {
        let one = self.outside.entry(outside.clone()).or_default();
        one.intents.insert(worker);
        one.acknowledged
    }

    /// Whether another worker may still be about to do it.
    pub fn is_anybody_at(&self, outside: &(usize, String), but: Option<u64>) -> bool {
        self.outside.get(outside).is_some_and(|one| one.intents.iter().any(|worker| Some(*worker) != but))
    }

    pub fn forget_worker(&mut self, worker: u64) {
        for outside in self.outside.values_mut() {
            outside.intents.remove(&worker);
        }
    }

    /// Something is on its way that may open a run again, also as the target of merges.
    pub fn may_reopen(&mut self, key: &Key) {
        let targets: Vec<Key> = self
            .runs
            .iter()
            .filter(|(of, run)| of.0 == key.0 && run.sources.contains(&key.1))
            .map(|(of, _)| of.clone())
            .collect();
        for target in targets {
            // It may come again through any of them, at any time.
            self.run(&target).may_reopen();
        }
        self.run(key).may_reopen();
    }

    pub fn settled(&mut self, key: &Key) {
        let run = self.run(key);
        run.loose_ends = run.loose_ends.saturating_sub(1);
    }
}
