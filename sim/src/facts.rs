//! What clients were told, and which effects happened. Answers are checked against it as they arrive (D, L, R): one owner
//! per lease (L1), late owners refused (L2). `check` compares the store's state.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::time::Timestamp;
use redrive_engine::LeaseToken;

use crate::net::Heard;
use crate::runs::order_key;
use crate::world::World;

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
    /// Cancels that are on their way, and when the last of the others was through: the answer does not say which lease they ended.
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

pub const DEADLINE_MS: u64 = 3_600_000;

pub fn epoch(token: &str) -> u64 {
    token.parse::<LeaseToken>().map_or(0, |token| token.epoch)
}

impl Grant {
    /// Whether it had surely not ended at that time.
    pub fn lives_at(&self, at: Timestamp) -> bool {
        !self.end_asked && self.granted_at <= at && at < self.expires_at && at < self.granted_at.plus_ms(DEADLINE_MS)
    }
}

impl World {
    /// Somebody was given a lease.
    pub fn granted(&self, key: &Key, mut new: Grant) {
        let (number, mut broken) = (epoch(&new.token), None);
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        new.end_asked |= run.cancels > 0 || run.cancelled_until.is_some_and(|until| new.granted_at <= until);
        for (before, held) in &run.grants {
            if *before == number
                && (held.token != new.token || held.start_id.is_none() || held.start_id != new.start_id)
            {
                broken = Some(format!("{key:?}: {} was granted twice", new.token));
            } else if *before > number && held.granted_at < new.granted_at {
                broken = Some(format!("{key:?}: {} came after {}", new.token, held.token));
            } else if *before < number && held.lives_at(new.granted_at) {
                broken = Some(format!("{key:?}: {} was granted while {} was live", new.token, held.token));
            }
        }
        let in_line = order_key(&key.1).filter(|_| new.automatic);
        for (other, run) in
            facts.runs.iter().filter(|(other, _)| in_line.is_some() && other.0 == key.0 && *other != key)
        {
            let live = run.grants.values().find(|held| held.automatic && held.lives_at(new.granted_at));
            if let Some(live) = live.filter(|_| order_key(&other.1) == in_line) {
                broken =
                    Some(format!("{key:?} was handed out while {other:?} of its line was out under {}", live.token));
            }
        }
        let run = facts.run(key);
        let outlived = run.last_word().filter(|epoch| *epoch < number);
        let outlived = outlived.map(|epoch| format!("{key:?} succeeded under {epoch}, and {} was granted", new.token));
        run.grants.entry(number).or_insert(new);
        drop(facts);
        for (promise, how) in [("L1", broken), ("L4", outlived)] {
            if let Some(how) = how {
                self.broken(promise, how);
            }
        }
    }

    /// Its success was accepted. It is the last word, unless somebody has set out to open the run again since `before`:
    /// the commit may be older than its answer, and a failure that was reported in between is a new one.
    pub fn succeeded(&self, key: &Key, token: &str, before: Option<u32>) {
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        run.sealed_by = before.filter(|_| run.quiet_since() == before).map(|_| epoch(token));
        let newest = run.grants.keys().next_back().copied().unwrap_or(0);
        let outlived = run.last_word().is_some_and(|epoch| epoch < newest);
        drop(facts);
        if outlived {
            self.broken("L4", format_args!("{key:?} succeeded under {token}, and epoch {newest} was granted"));
        }
    }

    /// The newest lease that anybody was told of.
    pub fn newest_grant(&self, key: &Key) -> u64 {
        self.facts.borrow_mut().run(key).grants.keys().next_back().copied().unwrap_or(0)
    }

    /// A word under a lease was accepted, though a newer one was known before it was said.
    pub fn fenced(&self, key: &Key, token: &str, newest_before: u64, what: &str, heard: &Heard) {
        if heard.is_ok() && newest_before > epoch(token) {
            self.broken("L2", format_args!("{key:?}: {what} under {token} counted, after epoch {newest_before}"));
        }
    }

    pub fn prolonged(&self, key: &Key, token: &str, until: Timestamp) {
        if let Some(grant) = self.facts.borrow_mut().run(key).grants.get_mut(&epoch(token)) {
            grant.expires_at = grant.expires_at.max(until);
        }
    }

    /// From here on nobody can be sure that it is live.
    pub fn end_asked(&self, key: &Key, token: &str) {
        if let Some(grant) = self.facts.borrow_mut().run(key).grants.get_mut(&epoch(token)) {
            grant.end_asked = true;
        }
    }

    /// Somebody ends whatever lease is live, also one whose owner has not heard of it yet.
    pub fn cancel_asked(&self, key: &Key) {
        let mut facts = self.facts.borrow_mut();
        let run = facts.run(key);
        run.cancels += 1;
        run.grants.values_mut().for_each(|grant| grant.end_asked = true);
    }

    pub fn cancel_over(&self, key: &Key) {
        let (now, mut facts) = (self.now(), self.facts.borrow_mut());
        let run = facts.run(key);
        run.cancels = run.cancels.saturating_sub(1);
        run.cancelled_until = run.cancelled_until.max(Some(now));
    }
}
