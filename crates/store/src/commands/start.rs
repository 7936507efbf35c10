//! A run begins: started under a lease at once, or queued for whoever leases it.

use redrive_core::ids::{OrderKey, QueueName};
use redrive_core::lifecycle::{Begin, Event, Refused, reject_unleasable};
use redrive_core::policy::{Policy, RetryBy};
use redrive_core::run::{Due, Scheduled, State};
use redrive_core::text::Label;
use redrive_core::verdict::Told;
use redrive_core::wire::{StartAnswer, Versions};

use crate::commands::batch::Batch;
use crate::commands::breakers::{Gate, Probes};
use crate::commands::run_row::RunRow;
use crate::commands::{handing_out, rejected};
use crate::error::{Error, Result};
use crate::model::{Digest, Fit, HourlyKind, LeaseToken, NewRun, PayloadKind, Start, StartHow, Started};

/// What the committer knows of a start; the recorded steps, a changed payload or an output are read afterwards.
pub(crate) struct Begun {
    pub(crate) run: i64,
    pub(crate) answer: StartAnswer,
    /// What the attempt under way runs with.
    pub(crate) versions: Versions,
    pub(crate) created: bool,
    /// The payload is not the one that was sent.
    pub(crate) payload_differs: bool,
    /// It is over: its output belongs to the answer.
    pub(crate) closed: bool,
    pub(crate) queue: QueueName,
    /// Of the last lease.
    pub(crate) epoch: u64,
    /// Whoever asks may know how the run stands, and nothing of what it holds.
    pub(crate) only_state: bool,
}

impl Begun {
    pub(crate) fn into_started(self) -> Started {
        let Self { answer, created, queue, payload_differs, .. } = self;
        Started { answer, created, queue, to_prepare: false, payload_differs }
    }

    fn only_state(mut self) -> Self {
        (self.answer.lease, self.answer.lease_expires_at) = (None, None);
        self.answer.changes.clear();
        Self { only_state: true, payload_differs: false, ..self }
    }

    /// Nothing has to be read to complete it.
    pub(crate) fn is_whole(&self) -> bool {
        self.only_state || (self.created && self.answer.changes.is_empty())
    }
}

/// `POST /v1/runs`.
pub(crate) fn start(batch: &mut Batch<'_>, start: &Start) -> Result<Begun> {
    let tenant = batch.tenant(&start.run.tenant)?;
    match batch.find_run_of(tenant, &start.run.run_id)? {
        Some(row) => known(batch, row, start),
        None => unknown(batch, tenant, start),
    }
}

fn unknown(batch: &mut Batch<'_>, tenant: i64, start: &Start) -> Result<Begun> {
    let queue = batch.queue_to_start_in(tenant, &start.run.queue)?;
    let policy = batch.policy(&queue, tenant)?;
    let mut row = batch.new_run(&start.run, tenant, queue.id)?;
    row.run.idle_ms = start.idle_ms;
    row.run.deadline_ms = start.deadline_ms;
    match &start.fit {
        Fit::AsItIs => {}
        Fit::With(changes) => row.run.changes.clone_from(changes),
        Fit::Never { rule, why } => return rejected::never_fits(batch, row, &policy, start, rule, why),
    }
    match &start.how {
        StartHow::Start { start_id, lease_ms } => {
            order_key_is_free(batch, &row, start.run.order_key.as_ref())?;
            let probes = batch.gate_as_advice(&row, &policy)?;
            begin(batch, &mut row, &policy, start_id.as_ref(), *lease_ms, &start.versions)?;
            batch.begun(&mut row, probes, &policy)?;
        }
        StartHow::Enqueue { due_at } => {
            let due = due_at.unwrap_or(batch.now).max(batch.now);
            row.run.state = State::Scheduled(Scheduled { due: Due::At(due), replay: false });
            batch.wake = true;
        }
    }
    let before = row.clone();
    let rejected = reject_unleasable(&mut row.run, &policy);
    batch.insert_run(&row, &start.run)?;
    if rejected {
        batch.note_rejected(&before, &row)?;
    }
    answer(batch, &row, true, false)
}

fn known(batch: &mut Batch<'_>, mut row: RunRow, start: &Start) -> Result<Begun> {
    let (_, policy) = batch.rules_of(&row)?;
    let differs = payload_differs(batch, &row, &start.run)?;
    let StartHow::Start { start_id, lease_ms } = &start.how else {
        // Whoever enqueues owns nothing, also where somebody is at work.
        return Ok(answer(batch, &row, false, differs)?.only_state());
    };
    match &row.run.state {
        State::Scheduled(_) => {
            let before = row.clone();
            row.touch(start.run.by);
            let due = row.run.due_at().is_some_and(|due| due <= batch.now);
            if due || policy.retry_by == RetryBy::Caller {
                let own = batch.rows.own_of(row.id)?.ok_or(Error::NotFound("run"))?;
                order_key_is_free(batch, &row, own.order_key.as_ref())?;
            }
            let probes = may_begin(batch, &row, &policy)?;
            begin(batch, &mut row, &policy, start_id.as_ref(), *lease_ms, &start.versions)?;
            batch.begun(&mut row, probes, &policy)?;
            batch.save(&before, &row)?;
            answer(batch, &row, false, differs)
        }
        State::Running(_) if start_id.is_some() && row.start_id == *start_id => answer(batch, &row, false, differs),
        State::Running(_) => Err(Refused::InFlight.into()),
        State::Dead { .. } | State::Review(_) => {
            let last = batch.rows.last_attempt(row.id, row.run.attempt)?;
            let verdict = last.map(|kept| kept.verdict()).transpose()?.flatten().map(Told::into_verdict);
            Err(Error::DeadLettered(Box::new(verdict)))
        }
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {
            let over = answer(batch, &row, false, false)?;
            let has_work = start.run.payload.kind != PayloadKind::None;
            Ok(if has_work || row.may_be_read_by(start.run.by) { over } else { over.only_state() })
        }
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone()).into()),
    }
}

/// Of an order key one run is under way at a time, however it begins.
fn order_key_is_free(batch: &mut Batch<'_>, row: &RunRow, order_key: Option<&OrderKey>) -> Result<()> {
    match order_key {
        Some(key) if !batch.rows.claim_order_key(row.tenant, key, row.id)? => {
            Err(Refused::Held(format!("order_key:{key}")).into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether a run that is due may begin. One that a breaker holds is held from now on; to a caller that is advice.
fn may_begin(batch: &mut Batch<'_>, row: &RunRow, policy: &Policy) -> Result<Probes> {
    if policy.retry_by == RetryBy::Caller {
        return batch.gate_as_advice(row, policy);
    }
    let due = row.run.due_at().is_some_and(|due| due <= batch.now);
    match batch.gate(row)? {
        Gate::Held(by) if due => {
            batch.hold(row.clone(), by.clone())?;
            Err(Refused::Held(by.to_string()).into())
        }
        // What is not due, or held already, is refused for that.
        Gate::Held(_) => Ok(Probes::default()),
        Gate::Open(probes) => Ok(probes),
    }
}

/// Begins the next attempt of `row` under a lease of its own.
fn begin(
    batch: &mut Batch<'_>,
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
    let moved = row.ask(&Event::Begin(begin), policy, batch.now)?;
    row.run = moved.run;
    row.ensure_lease_secret(batch.dice);
    row.start_id = start_id.cloned();
    row.worker = None;
    row.request = None;
    row.versions.clone_from(versions);
    batch.see_versions(row.tenant, versions)?;
    batch.tally.happened(batch.now, row.tenant, row.queue, HourlyKind::Started, None);
    Ok(())
}

/// A start may bring the payload as first captured, or as it now is; any other belongs to another run. One without a
/// payload asks for whatever is there.
fn payload_differs(batch: &mut Batch<'_>, row: &RunRow, sent: &NewRun) -> Result<bool> {
    if sent.payload.kind == PayloadKind::None {
        return Ok(batch.rows.payload_digest(row.id, row.run.revision)?.is_some());
    }
    let is = |stored: Option<Vec<u8>>, digest: &Digest| stored.is_none_or(|stored| stored == digest.as_slice());
    if is(batch.rows.payload_digest(row.id, row.run.revision)?, &sent.payload.digest) {
        return Ok(false);
    }
    if row.run.revision > 1 && is(batch.rows.payload_digest(row.id, 1)?, &sent.payload.digest) {
        return Ok(true);
    }
    Err(Error::RunConflict)
}

pub(crate) fn answer(batch: &mut Batch<'_>, row: &RunRow, created: bool, payload_differs: bool) -> Result<Begun> {
    let held = row.run.lease();
    let answer = StartAnswer {
        run_id: row.run_id.clone(),
        tenant: batch.tenant_name(row.tenant)?,
        state: row.run.state.name(),
        attempt: row.run.attempt,
        revision: row.run.revision,
        replay: held.is_some_and(|lease| lease.replay),
        lease: held.and_then(|_| token(row)).map(|token| token.to_string()),
        lease_expires_at: held.map(|lease| lease.expires_at),
        changes: handing_out::wanted(row),
        steps: Vec::new(),
        versions_changed: Vec::new(),
        payload: None,
        payload_base64: None,
        preflight: None,
        output: None,
    };
    let (queue, versions) = (batch.queue_by_id(row.queue)?, row.versions.clone());
    let (closed, epoch) = (row.run.state.name().is_closed(), row.run.epoch);
    let (run, queue) = (row.id, queue.name);
    Ok(Begun { run, answer, versions, created, payload_differs, closed, queue, epoch, only_state: false })
}

/// The lease of the attempt under way.
pub(crate) fn token(row: &RunRow) -> Option<LeaseToken> {
    row.lease_of(row.run.attempt, row.run.epoch)
}
