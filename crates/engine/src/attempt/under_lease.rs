//! Reports of a worker under its lease: heartbeat, step, success, failure, release. Every call is fenced by the epoch
//! first.

use redrive_core::breaker::BreakerStateName;
use redrive_core::lifecycle::{Event, LeaseCheck, Moved, Outcome, Refused, Verb, check_lease, next_attempt};
use redrive_core::policy::RetryBy;
use redrive_core::run::{Ended, State, StateName};
use redrive_core::time::Timestamp;
use redrive_core::verdict::{DeadBecause, StoredVerdict};
use redrive_core::wire::{FailureAnswer, StateAnswer, StepView, SucceedAnswer};

use crate::breakers::ended;
use crate::counters;
use crate::error::{Error, Result};
use crate::ingest::report;
use crate::ledger::record;
use crate::ledger::steps;
use crate::model::{Digest, FailedAttempt, HourlyKind, LeaseToken, NewSentPayload, NewStep, Success, UnderLease};
use crate::runs::attempts::{AttemptEnd, AttemptRecord, StoredAttempt};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::sweeps;
use crate::triage::refuse;
use crate::triage::verbs;
use crate::tx::Tx;

/// The run of a lease, and whether the lease still counts.
fn fenced(tx: &mut Tx<'_>, under: &UnderLease, verb: Verb) -> Result<(RunRow, LeaseCheck)> {
    let row = run_row::require_leased(tx, &under.at, under.lease)?;
    let check =
        if is_ours(&row, under.lease) { check_lease(&row.run, under.lease.epoch, verb) } else { LeaseCheck::Lost };
    Ok((row, check))
}

/// Whether this store granted the lease. An earlier run of the same name had another secret.
fn is_ours(row: &RunRow, lease: LeaseToken) -> bool {
    row.lease_of(lease.attempt, lease.epoch) == Some(lease)
}

/// The error of a call after its lease has ended.
fn over(row: &RunRow, recorded: bool) -> Error {
    if row.run.ended == Some(Ended::Cancelled) { Error::Cancelled { recorded } } else { Error::LeaseLost { recorded } }
}

fn lost(row: &RunRow, check: LeaseCheck) -> Error {
    match check {
        LeaseCheck::Cancelled => over(row, false),
        LeaseCheck::Live | LeaseCheck::Again | LeaseCheck::LateSuccess | LeaseCheck::LateFailure | LeaseCheck::Lost => {
            Error::LeaseLost { recorded: false }
        }
    }
}

/// The run of a live lease; refuses any other lease.
fn require_live(tx: &mut Tx<'_>, under: &UnderLease, verb: Verb) -> Result<RunRow> {
    let (row, check) = fenced(tx, under, verb)?;
    if check == LeaseCheck::Live { Ok(row) } else { Err(lost(&row, check)) }
}

/// Stores the payload that an attempt is about to get, before it is handed out. Refused once the lease is over.
pub fn keep_sent(tx: &mut Tx<'_>, under: &UnderLease, sent: &NewSentPayload) -> Result<()> {
    let row = require_live(tx, under, Verb::Heartbeat)?;
    Ok(tx.rows.put_sent(row.id, under.lease.attempt, under.lease.epoch, sent)?)
}

pub fn heartbeat(tx: &mut Tx<'_>, under: &UnderLease) -> Result<Timestamp> {
    let (mut row, check) = fenced(tx, under, Verb::Heartbeat)?;
    if check != LeaseCheck::Live {
        return Err(lost(&row, check));
    }
    let (_, policy) = run_row::rules_of(tx, &row)?;
    row.run = row.ask(&Event::Heartbeat, &policy, tx.now)?.run;
    run_row::save_life(tx, &row)?;
    row.run.lease().map(|lease| lease.expires_at).ok_or_else(|| Refused::NotRunning.into())
}

pub fn step(tx: &mut Tx<'_>, under: &UnderLease, step: &NewStep) -> Result<StepView> {
    let (mut row, check) = fenced(tx, under, Verb::Step)?;
    if check != LeaseCheck::Live {
        return match late_outcomes(tx, &mut row, under, std::slice::from_ref(step))? {
            true => Err(over(&row, true)),
            false => Err(lost(&row, check)),
        };
    }
    let (_, policy) = run_row::rules_of(tx, &row)?;
    row.run = row.ask(&Event::Progress, &policy, tx.now)?.run;
    let attempt = row.run.attempt;
    let view = record::record(tx, &mut row, step, attempt, under.lease.epoch)?;
    run_row::save_life(tx, &row)?;
    Ok(view)
}

/// Records outcomes of effects after the lease has ended. True if any was recorded.
fn late_outcomes(tx: &mut Tx<'_>, row: &mut RunRow, under: &UnderLease, steps: &[NewStep]) -> Result<bool> {
    if is_ours(row, under.lease) { record::record_late(tx, row, under, steps) } else { Ok(false) }
}

pub fn fail(tx: &mut Tx<'_>, under: &UnderLease, failed: &FailedAttempt) -> Result<FailureAnswer> {
    let (mut row, check) = fenced(tx, under, Verb::Fail)?;
    match check {
        LeaseCheck::Live => {
            let before = row.clone();
            let ended = AttemptEnd { number: row.run.attempt, epoch: Some(under.lease.epoch) };
            row.touch(failed.by);
            report::record(tx, &before, row, failed, ended, None)
        }
        LeaseCheck::Again => {
            let stored = tx.rows.attempt(row.id, under.lease.attempt)?;
            let stored = stored.filter(|stored| stored.outcome == Outcome::Failed);
            let stored = stored.ok_or(Error::LeaseLost { recorded: false })?;
            same_end(&stored, failed.digest.as_ref())?;
            stored.failure_answer(tx, &row)
        }
        LeaseCheck::LateFailure => {
            keep_late_failure(tx, &row, under.lease.attempt, under.lease.epoch, &failed.body)?;
            late_outcomes(tx, &mut row, under, &failed.steps)?;
            Err(over(&row, true))
        }
        LeaseCheck::LateSuccess | LeaseCheck::Cancelled | LeaseCheck::Lost => Err(lost(&row, check)),
    }
}

/// An attempt ends once. Equal content means that the answer was lost; other content is a conflict.
fn same_end(stored: &StoredAttempt, digest: Option<&Digest>) -> Result<()> {
    match digest.is_some_and(|digest| stored.is(digest)) {
        true => Ok(()),
        false => Err(Error::AttemptConflict { attempt: stored.attempt }),
    }
}

fn keep_late_failure(tx: &mut Tx<'_>, row: &RunRow, attempt: u32, epoch: u64, body: &[u8]) -> Result<()> {
    Ok(tx.rows.insert_late_failure(row.id, attempt, epoch, body)?)
}

pub fn release(tx: &mut Tx<'_>, under: &UnderLease) -> Result<StateAnswer> {
    let (mut row, check) = fenced(tx, under, Verb::Release)?;
    match check {
        LeaseCheck::Live => {
            let before = row.clone();
            let (_, policy) = run_row::rules_of(tx, &row)?;
            run_row::load_tenant_surroundings(tx, &mut row, &policy)?;
            let moved = row.ask(&Event::Release { jitter: tx.dice.jitter() }, &policy, tx.now)?;
            if moved.verdict.is_some() {
                return release_as_failure(tx, &before, row, moved);
            }
            steps::carry_out(tx, &row, &moved.effects)?;
            row.run = moved.run;
            row.worker = None;
            row.start_id = None;
            run_row::save(tx, &before, &row)?;
            if matches!(row.run.state, State::Dead { because: DeadBecause::Rejected }) {
                sweeps::note_rejected(tx, &before, &row)?;
            }
        }
        LeaseCheck::Again => {}
        LeaseCheck::LateSuccess | LeaseCheck::LateFailure | LeaseCheck::Cancelled | LeaseCheck::Lost => {
            return Err(lost(&row, check));
        }
    }
    state_answer(tx, &row, row.run.state.name())
}

fn release_as_failure(tx: &mut Tx<'_>, before: &RunRow, row: RunRow, moved: Moved) -> Result<StateAnswer> {
    let answer = sweeps::settle_found(tx, before, row, moved)?;
    Ok(StateAnswer { run_id: answer.run_id, tenant: answer.tenant, state: answer.state })
}

pub fn state_answer(tx: &mut Tx<'_>, row: &RunRow, state: StateName) -> Result<StateAnswer> {
    Ok(StateAnswer { run_id: row.run_id.clone(), tenant: tx.tenant_name(row.tenant)?, state })
}

/// `POST …/succeed`, under a lease or by a caller that retries by itself.
pub fn succeed(tx: &mut Tx<'_>, success: &Success) -> Result<SucceedAnswer> {
    let Some(lease) = success.lease else { return succeed_by_caller(tx, success) };
    let under = UnderLease { at: success.at.clone(), lease };
    let ended = AttemptEnd { number: lease.attempt, epoch: Some(lease.epoch) };
    let (mut row, check) = fenced(tx, &under, Verb::Succeed)?;
    match check {
        LeaseCheck::Live => record_success(tx, row, success, ended, false),
        LeaseCheck::LateSuccess => match tx.rows.attempt(row.id, lease.attempt)? {
            // A detector has refused the same report.
            Some(stored) if stored.outcome == Outcome::Failed && stored.is(&success.digest) => refused_before(&stored),
            // A late success that is sent again.
            Some(stored) if stored.outcome == Outcome::Succeeded => {
                same_end(&stored, Some(&success.digest))?;
                Ok(SucceedAnswer { state: stored.state, late: true, verdict: None })
            }
            Some(_) | None => record_success(tx, row, success, ended, true),
        },
        LeaseCheck::Again => {
            let stored = tx.rows.attempt(row.id, lease.attempt)?.ok_or(Error::LeaseLost { recorded: false })?;
            same_end(&stored, Some(&success.digest))?;
            Ok(SucceedAnswer { state: stored.state, late: false, verdict: None })
        }
        LeaseCheck::LateFailure | LeaseCheck::Cancelled | LeaseCheck::Lost => {
            match late_outcomes(tx, &mut row, &under, &success.steps)? {
                true => Err(over(&row, true)),
                false => Err(lost(&row, check)),
            }
        }
    }
}

fn succeed_by_caller(tx: &mut Tx<'_>, success: &Success) -> Result<SucceedAnswer> {
    let row = run_row::require_run(tx, &success.at)?;
    let (queue, _) = run_row::rules_of(tx, &row)?;
    if queue.settings.retry_by != RetryBy::Caller {
        return Err(Error::LeaseNeeded);
    }
    if row.run.lease().is_some() {
        return Err(Refused::InFlight.into());
    }
    let asked = success.attempt.unwrap_or(row.run.attempt);
    if let Some(stored) = tx.rows.attempt(row.id, asked)? {
        if stored.outcome == Outcome::Succeeded && stored.is(&success.digest) {
            return Ok(SucceedAnswer { state: stored.state, late: false, verdict: None });
        }
        // Without a number, the same refused output may also be that of the next attempt, once it is due.
        let same = stored.outcome == Outcome::Failed && stored.is(&success.digest);
        if same && (success.attempt.is_some() || report::is_resend(tx, &stored)?) {
            return refused_before(&stored);
        }
        if success.attempt.is_some() {
            return Err(Error::AttemptConflict { attempt: asked });
        }
    }
    let attempt = success.attempt.map_or_else(|| next_attempt(&row.run), Ok)?;
    if attempt <= row.run.attempt {
        return Err(Error::AttemptConflict { attempt });
    }
    record_success(tx, row, success, AttemptEnd::unleased(attempt), false)
}

/// The stored answer to a success that a detector refused.
fn refused_before(stored: &StoredAttempt) -> Result<SucceedAnswer> {
    Ok(SucceedAnswer { state: stored.state, late: false, verdict: stored.verdict()?.map(StoredVerdict::into_verdict) })
}

fn record_success(
    tx: &mut Tx<'_>,
    mut row: RunRow,
    success: &Success,
    ended: AttemptEnd,
    late: bool,
) -> Result<SucceedAnswer> {
    row.touch(success.by);
    let (_, policy) = run_row::rules_of(tx, &row)?;
    if let Some(objection) = refuse::objection(tx, &row, success, &policy)? {
        if !late {
            return refuse::refuse(tx, row, success, &objection, ended);
        }
        // A late failure is stored as evidence and does not move the run.
        let body = refuse::body_with_error(success, &objection)?;
        keep_late_failure(tx, &row, ended.number, ended.epoch.unwrap_or(0), &body)?;
        if let Some(lease) = success.lease {
            late_outcomes(tx, &mut row, &UnderLease { at: success.at.clone(), lease }, &success.steps)?;
        }
        return Err(over(&row, true));
    }
    let before = row.clone();
    // A late success was counted as silent already.
    ended::attempt_ended(tx, &row, ended.epoch.filter(|_| !late), None, &policy)?;
    record::keep_steps(tx, &mut row, ended, &before.versions, &success.steps)?;
    let moved = row.ask(&Event::Succeed { attempt: ended.number }, &policy, tx.now)?;
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    row.worker = None;
    row.start_id = None;
    let state = row.run.state.name();
    if late {
        // The attempt's record replaces that of the silence; the history keeps the fact.
        verbs::note_move(tx, &before, &row, "worker", "late_success", None)?;
    }
    let record = AttemptRecord {
        late,
        digest: Some(&success.digest),
        ..AttemptRecord::new(&before, &row, ended, Outcome::Succeeded, BreakerStateName::Closed, &success.body)?
    };
    tx.rows.put_attempt(&record, tx.now)?;
    run_row::save(tx, &before, &row)?;
    if before.run.state.name() != state {
        let kind = if state == StateName::Recovered { HourlyKind::Recovered } else { HourlyKind::Succeeded };
        tx.counters.happened(tx.now, row.tenant, row.queue, kind, None);
        if row.run.was_retry() {
            counters::add_spend(tx, row.tenant, success.observed.spent);
        }
    }
    Ok(SucceedAnswer { state, late, verdict: None })
}
