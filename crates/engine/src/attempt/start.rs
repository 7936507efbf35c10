//! `POST /v1/runs`: starts a run under a lease at once, or queues it for workers.

use redrive_core::ids::{OrderKey, QueueName};
use redrive_core::lifecycle::{Begin, Event, Refused, reject_unleasable};
use redrive_core::policy::{Policy, RetryBy};
use redrive_core::run::{Due, Scheduled, State};
use redrive_core::text::Label;
use redrive_core::verdict::StoredVerdict;
use redrive_core::wire::{StartAnswer, Versions};

use crate::breakers::gate;
use crate::breakers::{GateDecision, Probes};
use crate::error::{Error, Result};
use crate::ingest::rejected;
use crate::lease::contents;
use crate::model::{Digest, Fit, HourlyKind, LeaseToken, NewRun, PayloadKind, Start, StartHow, Started};
use crate::names::tenant_names;
use crate::names::versions;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::sweeps;
use crate::tx::Tx;

/// A committed start. Recorded steps, a changed payload and an output are read after the commit.
pub struct CommittedStart {
    pub run: i64,
    pub answer: StartAnswer,
    /// Of the attempt under way.
    pub versions: Versions,
    pub created: bool,
    /// The run's payload is not the one in the request.
    pub payload_differs: bool,
    /// The answer includes the output.
    pub closed: bool,
    pub queue: QueueName,
    /// Of the last lease.
    pub epoch: u64,
    /// The caller may see the state of the run, but not its contents.
    pub only_state: bool,
}

impl CommittedStart {
    pub fn into_started(self) -> Started {
        let Self { answer, created, queue, payload_differs, .. } = self;
        Started { answer, created, queue, to_prepare: false, payload_differs }
    }

    fn only_state(mut self) -> Self {
        (self.answer.lease, self.answer.lease_expires_at) = (None, None);
        self.answer.changes.clear();
        Self { only_state: true, payload_differs: false, ..self }
    }

    /// Whether the answer needs no read after the commit.
    pub fn is_complete(&self) -> bool {
        self.only_state || (self.created && self.answer.changes.is_empty())
    }
}

/// `POST /v1/runs`.
pub fn start(tx: &mut Tx<'_>, start: &Start) -> Result<CommittedStart> {
    let tenant = tx.tenant(&start.run.tenant)?;
    match run_row::find_run_of(tx, tenant, &start.run.run_id)? {
        Some(row) => start_known(tx, row, start),
        None => start_new(tx, tenant, start),
    }
}

fn start_new(tx: &mut Tx<'_>, tenant: i64, start: &Start) -> Result<CommittedStart> {
    let queue = tenant_names::queue_to_start_in(tx, tenant, &start.run.queue)?;
    let policy = tx.policy(&queue, tenant)?;
    let mut row = run_row::new_run(tx, &start.run, tenant, queue.id)?;
    row.run.idle_ms = start.idle_ms;
    row.run.deadline_ms = start.deadline_ms;
    match &start.fit {
        Fit::AsItIs => {}
        Fit::With(changes) => row.run.changes.clone_from(changes),
        Fit::Never { rule, why } => return rejected::never_fits(tx, row, &policy, start, rule, why),
    }
    match &start.how {
        StartHow::Start { start_id, lease_ms } => {
            order_key_is_free(tx, &row, start.run.order_key.as_ref())?;
            let probes = gate::gate_as_advice(tx, &row, &policy)?;
            begin(tx, &mut row, &policy, start_id.as_ref(), *lease_ms, &start.versions)?;
            gate::begun(tx, &mut row, probes, &policy)?;
        }
        StartHow::Enqueue { due_at } => {
            let due = due_at.unwrap_or(tx.now).max(tx.now);
            row.run.state = State::Scheduled(Scheduled { due: Due::At(due), replay: false });
            tx.wake = true;
        }
    }
    let before = row.clone();
    let rejected = reject_unleasable(&mut row.run, &policy);
    run_row::insert_run(tx, &row, &start.run)?;
    if rejected {
        sweeps::note_rejected(tx, &before, &row)?;
    }
    answer(tx, &row, true, false)
}

fn start_known(tx: &mut Tx<'_>, mut row: RunRow, start: &Start) -> Result<CommittedStart> {
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let differs = payload_differs(tx, &row, &start.run)?;
    let StartHow::Start { start_id, lease_ms } = &start.how else {
        // An enqueue gives no lease, whoever works on the run.
        return Ok(answer(tx, &row, false, differs)?.only_state());
    };
    match &row.run.state {
        State::Scheduled(_) => {
            let before = row.clone();
            row.touch(start.run.by);
            let due = row.run.due_at().is_some_and(|due| due <= tx.now);
            if due || policy.retry_by == RetryBy::Caller {
                let own = tx.rows.own_of(row.id)?.ok_or(Error::NotFound("run"))?;
                order_key_is_free(tx, &row, own.order_key.as_ref())?;
            }
            let probes = may_begin(tx, &row, &policy)?;
            begin(tx, &mut row, &policy, start_id.as_ref(), *lease_ms, &start.versions)?;
            gate::begun(tx, &mut row, probes, &policy)?;
            run_row::save(tx, &before, &row)?;
            answer(tx, &row, false, differs)
        }
        State::Running(_) if start_id.is_some() && row.start_id == *start_id => answer(tx, &row, false, differs),
        State::Running(_) => Err(Refused::InFlight.into()),
        State::Dead { .. } | State::Review(_) => {
            let last = tx.rows.last_attempt(row.id, row.run.attempt)?;
            let verdict = last.map(|stored| stored.verdict()).transpose()?.flatten().map(StoredVerdict::into_verdict);
            Err(Error::DeadLettered(Box::new(verdict)))
        }
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {
            let over = answer(tx, &row, false, false)?;
            let has_work = start.run.payload.kind != PayloadKind::None;
            Ok(if has_work || row.may_be_read_by(start.run.by) { over } else { over.only_state() })
        }
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone()).into()),
    }
}

/// Runs that share an order key execute one at a time.
fn order_key_is_free(tx: &mut Tx<'_>, row: &RunRow, order_key: Option<&OrderKey>) -> Result<()> {
    match order_key {
        Some(key) if !tx.rows.claim_order_key(row.tenant, key, row.id)? => {
            Err(Refused::Held(format!("order_key:{key}")).into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether breakers let the run begin. A due run that a breaker holds is put on hold; callers that retry by themselves are
/// only advised.
fn may_begin(tx: &mut Tx<'_>, row: &RunRow, policy: &Policy) -> Result<Probes> {
    if policy.retry_by == RetryBy::Caller {
        return gate::gate_as_advice(tx, row, policy);
    }
    let due = row.run.due_at().is_some_and(|due| due <= tx.now);
    match gate::gate(tx, row)? {
        GateDecision::Held(by) if due => {
            gate::hold(tx, row.clone(), by.clone())?;
            Err(Refused::Held(by.to_string()).into())
        }
        // The transition table refuses a run that is not due or is held already.
        GateDecision::Held(_) => Ok(Probes::default()),
        GateDecision::Open(probes) => Ok(probes),
    }
}

/// Begins the next attempt under a new lease.
fn begin(
    tx: &mut Tx<'_>,
    row: &mut RunRow,
    policy: &Policy,
    start_id: Option<&Label>,
    lease_ms: Option<u64>,
    versions: &Versions,
) -> Result<()> {
    let begin = Begin {
        lease_ms: lease_ms.unwrap_or(policy.lease_ms),
        by_caller: policy.retry_by == RetryBy::Caller,
        ..Begin::default()
    };
    let moved = row.ask(&Event::Begin(begin), policy, tx.now)?;
    row.run = moved.run;
    row.ensure_lease_secret(tx.dice);
    row.start_id = start_id.cloned();
    row.worker = None;
    row.request = None;
    row.versions.clone_from(versions);
    versions::see_versions(tx, row.tenant, versions)?;
    tx.counters.happened(tx.now, row.tenant, row.queue, HourlyKind::Started, None);
    Ok(())
}

/// Whether the run's current payload differs from the request's. A request may carry the first or the current revision, or
/// none; any other payload is a conflict.
fn payload_differs(tx: &mut Tx<'_>, row: &RunRow, sent: &NewRun) -> Result<bool> {
    if sent.payload.kind == PayloadKind::None {
        return Ok(tx.rows.payload_digest(row.id, row.run.revision)?.is_some());
    }
    let is = |stored: Option<Vec<u8>>, digest: &Digest| stored.is_none_or(|stored| stored == digest.as_slice());
    if is(tx.rows.payload_digest(row.id, row.run.revision)?, &sent.payload.digest) {
        return Ok(false);
    }
    if row.run.revision > 1 && is(tx.rows.payload_digest(row.id, 1)?, &sent.payload.digest) {
        return Ok(true);
    }
    Err(Error::RunConflict)
}

pub fn answer(tx: &mut Tx<'_>, row: &RunRow, created: bool, payload_differs: bool) -> Result<CommittedStart> {
    let held = row.run.lease();
    let answer = StartAnswer {
        run_id: row.run_id.clone(),
        tenant: tx.tenant_name(row.tenant)?,
        state: row.run.state.name(),
        attempt: row.run.attempt,
        revision: row.run.revision,
        replay: held.is_some_and(|lease| lease.replay),
        lease: held.and_then(|_| token(row)).map(|token| token.to_string()),
        lease_expires_at: held.map(|lease| lease.expires_at),
        changes: contents::wanted(row),
        steps: Vec::new(),
        versions_changed: Vec::new(),
        payload: None,
        payload_base64: None,
        preflight: None,
        output: None,
    };
    let (queue, versions) = (tx.queue_by_id(row.queue)?, row.versions.clone());
    let (closed, epoch) = (row.run.state.name().is_closed(), row.run.epoch);
    let (run, queue) = (row.id, queue.name);
    Ok(CommittedStart { run, answer, versions, created, payload_differs, closed, queue, epoch, only_state: false })
}

/// The lease of the attempt under way.
pub fn token(row: &RunRow) -> Option<LeaseToken> {
    row.lease_of(row.run.attempt, row.run.epoch)
}
