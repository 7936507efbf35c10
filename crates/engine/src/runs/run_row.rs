//! A run's row: lookup, changes, the counters that follow them, and the context of a decision about it.

use std::sync::Arc;

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::lifecycle::{self, Event, Moved, Refused};
use redrive_core::policy::Policy;
use redrive_core::reason::{Category, Reason};
use redrive_core::run::{Run, State, StateName};
use redrive_core::strategy::Failure;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Target;
use redrive_core::wire::Versions;
use sha2::{Digest as _, Sha256};

use crate::breakers::gate;
use crate::clock::Dice;
use crate::counters::{self, CountKey, CountedRun};
use crate::error::{Error, Result};
use crate::model::{KeyMark, LeaseToken, NewRun, PayloadKind, RunRef};
use crate::names::tenant_names;
use crate::ports::rows::ChangedColumns;
use crate::runs::document::{RunDocument, StateColumns, position};
use crate::tx::{QueueRow, Tx};

/// A row of runs.
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
    /// The worker of the attempt under way, and the start request.
    pub worker: Option<Label>,
    pub start_id: Option<Label>,
    /// The lease call of the attempt under way, with its scope.
    pub request: Option<Label>,
    /// Of the worker of the attempt under way.
    pub versions: Versions,
    pub environment: Label,
    /// The breaker generation in which the attempt under way began.
    pub generation: u64,
    /// The size of the current payload; none in rows of older versions.
    pub payload_bytes: Option<usize>,
    /// Keys of workers that began or reported it, newest last. They may read it.
    pub keys: Vec<KeyMark>,
    /// The size of its step outputs, which a lease carries.
    pub step_bytes: usize,
    /// Proves its leases; none before the first one.
    pub lease_secret: Option<u64>,
    /// The number of recorded steps.
    pub step_count: usize,
}

/// Beyond this many keys the oldest is dropped.
const KEYS_MAX: usize = 16;

impl RunRow {
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

    /// The JSON document with what no query filters by.
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

    /// The token of the lease with this epoch; none before the first lease.
    pub fn lease_of(&self, attempt: u32, epoch: u64) -> Option<LeaseToken> {
        self.lease_secret.map(|secret| LeaseToken::granted(secret, self.id, attempt, epoch))
    }

    /// Draws the secret at the first lease.
    pub fn ensure_lease_secret(&mut self, dice: &dyn Dice) {
        self.lease_secret.get_or_insert_with(|| {
            let mut secret = [0; 8];
            dice.fill(&mut secret);
            u64::from_le_bytes(secret)
        });
    }

    /// Adds the key of a worker that began or reported an attempt.
    pub fn touch(&mut self, by: Option<KeyMark>) {
        let Some(by) = by.filter(|by| !self.keys.contains(by)) else { return };
        if self.keys.len() >= KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push(by);
    }

    /// Whether the caller may read the run: a worker that began or reported it, or another role, which has no mark.
    pub fn may_be_read_by(&self, by: Option<KeyMark>) -> bool {
        by.is_none_or(|by| self.keys.contains(&by))
    }

    /// The lease call of the attempt under way.
    pub fn request(&self) -> Option<&str> {
        self.request.as_ref().filter(|_| self.run.lease().is_some()).map(Label::as_str)
    }

    /// The columns that only a failure changes.
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

/// The run of a call under a lease.
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

/// A new run with a number. It is written after its first transition.
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

/// Updates a row that was read as `before`, and the counters.
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

/// Updates only the document (lease times, effect counts): no state, counter or index changes.
pub fn save_life(tx: &mut Tx<'_>, row: &RunRow) -> Result<()> {
    Ok(tx.rows.update_run(row, ChangedColumns::RunDocument, tx.now)?)
}

pub fn names_of(tx: &mut Tx<'_>, row: &RunRow) -> Result<(Tenant, QueueName)> {
    Ok((tx.tenant_name(row.tenant)?, tx.queue_by_id(row.queue)?.name))
}

/// The run's queue and its policy there.
pub fn rules_of(tx: &mut Tx<'_>, row: &RunRow) -> Result<(QueueRow, std::sync::Arc<Policy>)> {
    let queue = tx.queue_by_id(row.queue)?;
    let policy = tx.policy(&queue, row.tenant)?;
    Ok((queue, policy))
}

// The context of a decision. Loaded only where the policy needs it, so that an ordinary failure costs no extra reads.

/// Loads what the policy needs to decide on `failure`; `new` is set for a run that is not in the store yet.
pub fn load_surroundings(
    tx: &mut Tx<'_>,
    row: &mut RunRow,
    (queue, policy): (&QueueRow, &Policy),
    failure: &Failure,
    new: Option<&NewRun>,
) -> Result<()> {
    load_tenant_surroundings(tx, row, policy)?;
    let routed = !policy.ladder.is_empty() || policy.fallback_queue.is_some() || !policy.agents.is_empty();
    let changed = failure.category != Category::Transient || policy.strategies.contains_key(&failure.reason);
    if !changed || !(routed || failure.reason == Reason::ContextOverflow) {
        return Ok(());
    }
    let around = &mut row.run.around;
    around.model.clone_from(&row.model);
    if !routed {
        return Ok(());
    }
    around.queue = Some(queue.name.clone());
    (around.agent, around.task_type) = match new {
        Some(new) => (new.agent.clone(), new.task_type.clone()),
        None => tx.rows.own_of(row.id)?.map(|own| (own.agent, own.task_type)).unwrap_or_default(),
    };
    Ok(())
}

/// Loads the tenant's spend, where a budget limits it, and the breakers that hold its retries.
pub fn load_tenant_surroundings(tx: &mut Tx<'_>, row: &mut RunRow, policy: &Policy) -> Result<()> {
    if policy.budget.look_at_the_tenant() {
        row.run.around.tenant_spent = counters::spent_today(tx, row.tenant)?;
    }
    gate::load_holds(tx, row, policy)
}

/// Applies the target of a verdict or a replay to the row.
pub fn redirect(tx: &mut Tx<'_>, row: &mut RunRow, target: &Target) -> Result<()> {
    if target.model.is_some() {
        row.model.clone_from(&target.model);
    }
    if let Some(queue) = &target.queue {
        let to = tenant_names::queue_sent_to(tx, row.tenant, queue)?.id;
        if to != row.queue {
            let from = tx.queue_by_id(row.queue)?.name;
            row.run.leave_queue(&from);
            row.queue = to;
        }
    }
    Ok(())
}

/// Writes the agent and queue of a target, which other updates leave out.
pub fn keep_place(tx: &mut Tx<'_>, row: &RunRow, target: &Target) -> Result<()> {
    if target.agent.is_none() && target.queue.is_none() {
        return Ok(());
    }
    Ok(tx.rows.set_place(row.id, target.agent.as_ref(), row.queue)?)
}
