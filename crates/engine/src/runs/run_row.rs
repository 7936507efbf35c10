//! A run as commands know it: found by name, changed as a whole, counted as it changes.

use std::sync::Arc;

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::lifecycle::{self, Event, Moved, Refused};
use redrive_core::policy::Policy;
use redrive_core::reason::{Category, Reason};
use redrive_core::run::{Run, State, StateName};
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Versions;
use sha2::{Digest as _, Sha256};

use crate::clock::Dice;
use crate::counters::{CountKey, CountedRun};
use crate::error::{Error, Result};
use crate::model::{KeyMark, LeaseToken, NewRun, PayloadKind, RunRef};
use crate::ports::rows::ChangedColumns;
use crate::runs::document::{RunDocument, StateColumns, position};
use crate::tx::{QueueRow, Tx};

/// A run as its row holds it.
#[derive(Debug, Clone)]
pub struct RunRow {
    pub id: i64,
    pub tenant: i64,
    pub queue: i64,
    pub run_id: RunId,
    pub run: Run,
    /// Of the last failure; empty before the first.
    pub reason: Arc<str>,
    pub category: i64,
    pub pattern: Option<i64>,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub tool: Option<Label>,
    pub step: Option<Label>,
    /// Who began the attempt under way, and with which request.
    pub worker: Option<Label>,
    pub start_id: Option<Label>,
    /// Under way: the lease call that handed it out, with its scope.
    pub request: Option<Label>,
    /// What the attempt under way runs with, as its worker said.
    pub versions: Versions,
    pub environment: Label,
    /// When the attempt under way began, as breakers count it.
    pub generation: u64,
    /// How long the payload of its revision is; none where that has to be looked up.
    pub payload_bytes: Option<usize>,
    /// The workers' keys that began or reported it, the newest last: they may read it.
    pub keys: Vec<KeyMark>,
    /// What the outputs of its steps come to: a lease carries them too.
    pub step_bytes: usize,
    /// What its leases are proved by; none before its first one.
    pub lease_secret: Option<u64>,
    /// How many steps it has on record.
    pub step_count: usize,
}

/// A run that more keys than this have worked on forgets the oldest.
const KEYS_MAX: usize = 16;

impl RunRow {
    /// What it is part of.
    pub fn merged_into(&self) -> Option<&RunId> {
        match &self.run.state {
            State::Merged(merged) => Some(&merged.into),
            State::Scheduled(_)
            | State::Running(_)
            | State::Dead { .. }
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded => None,
        }
    }

    pub fn counted(&self) -> CountedRun {
        let state = self.run.state.name();
        let key = CountKey {
            state: position(StateName::ALL, &state),
            tenant: self.tenant,
            queue: self.queue,
            reason: self.reason.clone(),
            detail: StateColumns::of(&self.run).detail,
        };
        CountedRun { key, open_pattern: self.pattern.filter(|_| !state.is_closed()) }
    }

    /// What only the transition table reads, as the row keeps it.
    pub fn life(&self) -> Result<String> {
        let mut life = RunDocument::of(&self.run, self.worker.clone(), self.start_id.clone());
        life.payload_bytes = self.payload_bytes;
        life.keys.clone_from(&self.keys);
        life.step_bytes = self.step_bytes;
        life.lease_secret = self.lease_secret;
        life.step_count = self.step_count;
        if self.run.state.name() == StateName::Running {
            life.versions.clone_from(&self.versions);
            life.request.clone_from(&self.request);
            life.generation = self.generation;
        }
        serde_json::to_string(&life).map_err(|e| Error::Unexpected(e.to_string()))
    }

    /// The lease of an epoch that this run has had; none before its first one.
    pub fn lease_of(&self, attempt: u32, epoch: u64) -> Option<LeaseToken> {
        self.lease_secret.map(|secret| LeaseToken::granted(secret, self.id, attempt, epoch))
    }

    /// From its first lease on a run has a secret.
    pub fn ensure_lease_secret(&mut self, dice: &dyn Dice) {
        self.lease_secret.get_or_insert_with(|| {
            let mut secret = [0; 8];
            dice.fill(&mut secret);
            u64::from_le_bytes(secret)
        });
    }

    /// Remembers the worker's key that began or reported an attempt.
    pub fn touch(&mut self, by: Option<KeyMark>) {
        let Some(by) = by.filter(|by| !self.keys.contains(by)) else { return };
        if self.keys.len() >= KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push(by);
    }

    /// Whether a worker's key has begun or reported it. Whoever comes without a mark is no worker, and reads all.
    pub fn may_be_read_by(&self, by: Option<KeyMark>) -> bool {
        by.is_none_or(|by| self.keys.contains(&by))
    }

    /// The lease call that handed it out, while the attempt is under way.
    pub fn request(&self) -> Option<&str> {
        self.request.as_ref().filter(|_| self.run.lease().is_some()).map(Label::as_str)
    }

    /// What only a failure changes.
    fn failure_columns(&self) -> (&str, i64, Option<i64>, [&Option<Label>; 4]) {
        (&self.reason, self.category, self.pattern, [&self.model, &self.provider, &self.tool, &self.step])
    }

    pub fn failed_with(&mut self, reason: &Reason, category: Category) {
        self.reason = Arc::from(reason.as_str());
        self.category = position(&Category::ALL, &category);
    }

    /// Asks the transition table.
    pub fn ask(&self, event: &Event<'_>, policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
        lifecycle::apply(&self.run, event, policy, now)
    }
}

pub fn find_run(tx: &mut Tx<'_>, tenant: &Tenant, run_id: &RunId) -> Result<Option<RunRow>> {
    let Some(tenant) = tx.find_tenant(tenant)? else { return Ok(None) };
    find_run_of(tx, tenant, run_id)
}

pub fn find_run_of(tx: &mut Tx<'_>, tenant: i64, run_id: &RunId) -> Result<Option<RunRow>> {
    Ok(tx.rows.find_run(tenant, run_id)?)
}

pub fn require_run(tx: &mut Tx<'_>, at: &RunRef) -> Result<RunRow> {
    find_run(tx, &at.tenant, &at.run_id)?.ok_or(Error::NotFound("run"))
}

/// The run that a call under a lease names.
pub fn require_leased(tx: &mut Tx<'_>, at: &RunRef, lease: LeaseToken) -> Result<RunRow> {
    let Some(tenant) = tx.find_tenant(&at.tenant)? else { return Err(Error::NotFound("run")) };
    tx.rows.find_leased(tenant, &at.run_id, lease.run)?.ok_or(Error::NotFound("run"))
}

/// What `runs.key_hash` holds: finds a run by its name.
pub fn key_hash(tenant: i64, run_id: &str) -> i64 {
    let hash = Sha256::new().chain_update(tenant.to_le_bytes()).chain_update(run_id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}

/// A run that is not in the store yet: numbered now, written once it stands where its first move leaves it.
pub fn new_run(tx: &mut Tx<'_>, new: &NewRun, tenant: i64, queue: i64) -> Result<RunRow> {
    let run = Run {
        resumable: new.resumable.unwrap_or(false),
        replayable: new.payload.kind != PayloadKind::Omitted,
        ..Run::new(tx.now)
    };
    Ok(RunRow {
        id: tx.rows.next_run_number()?,
        tenant,
        queue,
        run_id: new.run_id.clone(),
        run,
        reason: Arc::from(""),
        category: -1,
        pattern: None,
        model: new.model.clone(),
        provider: new.provider.clone(),
        tool: None,
        step: None,
        worker: None,
        start_id: None,
        request: None,
        versions: Versions::new(),
        environment: new.environment.clone(),
        generation: 0,
        payload_bytes: Some(new.payload.bytes()),
        keys: new.by.into_iter().collect(),
        step_bytes: 0,
        lease_secret: None,
        step_count: 0,
    })
}

/// Writes a row that was read as `before`, and counts what changed.
pub fn save(tx: &mut Tx<'_>, before: &RunRow, row: &RunRow) -> Result<()> {
    let same = before.failure_columns() == row.failure_columns();
    tx.rows.update_run(row, if same { ChangedColumns::ByMove } else { ChangedColumns::ByFailure }, tx.now)?;
    tx.counters.moved(row.id, Some(&before.counted()), &row.counted());
    Ok(())
}

/// Writes a new run with its payload.
pub fn insert_run(tx: &mut Tx<'_>, row: &RunRow, new: &NewRun) -> Result<()> {
    tx.rows.insert_run(row, new, tx.now)?;
    tx.counters.moved(row.id, None, &row.counted());
    Ok(())
}

/// Keeps a lease's new times and a run's effect counts: no state changes, so no counter does and no list index is
/// touched.
pub fn save_life(tx: &mut Tx<'_>, row: &RunRow) -> Result<()> {
    Ok(tx.rows.update_run(row, ChangedColumns::RunDocument, tx.now)?)
}

pub fn names_of(tx: &mut Tx<'_>, row: &RunRow) -> Result<(Tenant, QueueName)> {
    Ok((tx.tenant_name(row.tenant)?, tx.queue_by_id(row.queue)?.name))
}

/// A run's queue, with the policy that holds for it there.
pub fn rules_of(tx: &mut Tx<'_>, row: &RunRow) -> Result<(QueueRow, std::sync::Arc<Policy>)> {
    let queue = tx.queue_by_id(row.queue)?;
    let policy = tx.policy(&queue, row.tenant)?;
    Ok((queue, policy))
}
