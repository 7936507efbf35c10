//! What a worker reports of the attempt it holds. Every call is fenced by its lease's epoch first.

use redrive_core::breaker::StateName as BreakerState;
use redrive_core::lifecycle::{Event, LeaseCheck, Outcome, Refused, Verb, check_lease, next_attempt};
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
use crate::runs::attempts;
use crate::runs::attempts::{Ending, StoredAttempt};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::surroundings;
use crate::sweeps;
use crate::triage::refuse;
use crate::triage::verbs;
use crate::tx::Tx;

/// The run that a lease names, and how a call under it stands.
fn fenced(tx: &mut Tx<'_>, under: &UnderLease, verb: Verb) -> Result<(RunRow, LeaseCheck)> {
    let row = run_row::require_leased(tx, &under.at, under.lease)?;
    let stands =
        if is_ours(&row, under.lease) { check_lease(&row.run, under.lease.epoch, verb) } else { LeaseCheck::Lost };
    Ok((row, stands))
}

/// Whether we granted this lease. A run of the same name that was there before had another secret.
fn is_ours(row: &RunRow, lease: LeaseToken) -> bool {
    row.lease_of(lease.attempt, lease.epoch) == Some(lease)
}

/// How a call is refused whose lease is over.
fn over(row: &RunRow, recorded: bool) -> Error {
    if row.run.ended == Some(Ended::Cancelled) { Error::Cancelled { recorded } } else { Error::LeaseLost { recorded } }
}

fn lost(row: &RunRow, stands: LeaseCheck) -> Error {
    match stands {
        LeaseCheck::Cancelled => over(row, false),
        LeaseCheck::Live | LeaseCheck::Again | LeaseCheck::LateSuccess | LeaseCheck::LateFailure | LeaseCheck::Lost => {
            Error::LeaseLost { recorded: false }
        }
    }
}

/// The run of a lease that is live; any other call is refused.
fn require_live(tx: &mut Tx<'_>, under: &UnderLease, verb: Verb) -> Result<RunRow> {
    let (row, stands) = fenced(tx, under, verb)?;
    if stands == LeaseCheck::Live { Ok(row) } else { Err(lost(&row, stands)) }
}

/// Stores the payload that an attempt is about to get, before it is handed out. Refused once the lease is over.
pub fn keep_sent(tx: &mut Tx<'_>, under: &UnderLease, sent: &NewSentPayload) -> Result<()> {
    let row = require_live(tx, under, Verb::Heartbeat)?;
    Ok(tx.rows.put_sent(row.id, under.lease.attempt, under.lease.epoch, sent)?)
}

pub fn heartbeat(tx: &mut Tx<'_>, under: &UnderLease) -> Result<Timestamp> {
    let (mut row, stands) = fenced(tx, under, Verb::Heartbeat)?;
    if stands != LeaseCheck::Live {
        return Err(lost(&row, stands));
    }
    let (_, policy) = run_row::rules_of(tx, &row)?;
    row.run = row.ask(&Event::Heartbeat, &policy, tx.now)?.run;
    run_row::save_life(tx, &row)?;
    row.run.lease().map(|lease| lease.expires_at).ok_or_else(|| Refused::NotRunning.into())
}

pub fn step(tx: &mut Tx<'_>, under: &UnderLease, step: &NewStep) -> Result<StepView> {
    let (mut row, stands) = fenced(tx, under, Verb::Step)?;
    if stands != LeaseCheck::Live {
        return match late_outcomes(tx, &mut row, under, std::slice::from_ref(step))? {
            true => Err(over(&row, true)),
            false => Err(lost(&row, stands)),
        };
    }
    let (_, policy) = run_row::rules_of(tx, &row)?;
    row.run = row.ask(&Event::Progress, &policy, tx.now)?.run;
    let attempt = row.run.attempt;
    let view = record::record(tx, &mut row, step, attempt, under.lease.epoch)?;
    run_row::save_life(tx, &row)?;
    Ok(view)
}

/// A lease that we granted may still say how what it began has ended.
fn late_outcomes(tx: &mut Tx<'_>, row: &mut RunRow, under: &UnderLease, steps: &[NewStep]) -> Result<bool> {
    if is_ours(row, under.lease) { record::record_late(tx, row, under, steps) } else { Ok(false) }
}

pub fn fail(tx: &mut Tx<'_>, under: &UnderLease, failed: &FailedAttempt) -> Result<FailureAnswer> {
    let (mut row, stands) = fenced(tx, under, Verb::Fail)?;
    match stands {
        LeaseCheck::Live => {
            let (attempt, before) = (row.run.attempt, row.clone());
            row.touch(failed.by);
            report::record(tx, &before, row, failed, attempt, Some(under.lease.epoch), None)
        }
        LeaseCheck::Again => {
            let kept = tx.rows.attempt(row.id, under.lease.attempt)?;
            let kept = kept.filter(|kept| kept.outcome == Outcome::Failed);
            let kept = kept.ok_or(Error::LeaseLost { recorded: false })?;
            same_end(&kept, &failed.digest)?;
            attempts::stored_answer(tx, &row, &kept)
        }
        LeaseCheck::LateFailure => {
            keep_late_failure(tx, &row, under.lease.attempt, under.lease.epoch, &failed.body)?;
            late_outcomes(tx, &mut row, under, &failed.steps)?;
            Err(over(&row, true))
        }
        LeaseCheck::LateSuccess | LeaseCheck::Cancelled | LeaseCheck::Lost => Err(lost(&row, stands)),
    }
}

/// An attempt ends once: the same words again are a lost answer, other words are a mistake that nobody should miss.
fn same_end(kept: &StoredAttempt, digest: &Digest) -> Result<()> {
    if kept.is(digest) { Ok(()) } else { Err(Error::AttemptConflict { attempt: kept.attempt }) }
}

fn keep_late_failure(tx: &mut Tx<'_>, row: &RunRow, attempt: u32, epoch: u64, body: &[u8]) -> Result<()> {
    Ok(tx.rows.insert_late_failure(row.id, attempt, epoch, body, tx.now)?)
}

pub fn release(tx: &mut Tx<'_>, under: &UnderLease) -> Result<StateAnswer> {
    let (mut row, stands) = fenced(tx, under, Verb::Release)?;
    match stands {
        LeaseCheck::Live => {
            let before = row.clone();
            let (_, policy) = run_row::rules_of(tx, &row)?;
            surroundings::load_tenant_surroundings(tx, &mut row, &policy)?;
            let moved = row.ask(&Event::Release { jitter: tx.dice.jitter() }, &policy, tx.now)?;
            if moved.verdict.is_some() {
                return release_as_failure(tx, &before, row, moved, under);
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
            return Err(lost(&row, stands));
        }
    }
    state_answer(tx, &row, row.run.state.name())
}

fn release_as_failure(
    tx: &mut Tx<'_>,
    before: &RunRow,
    row: RunRow,
    moved: redrive_core::lifecycle::Moved,
    under: &UnderLease,
) -> Result<StateAnswer> {
    let attempt = row.run.attempt;
    let answer = sweeps::settle_found(tx, before, row, moved, attempt, under.lease.epoch)?;
    Ok(StateAnswer { run_id: answer.run_id, tenant: answer.tenant, state: answer.state })
}

pub fn state_answer(tx: &mut Tx<'_>, row: &RunRow, state: StateName) -> Result<StateAnswer> {
    Ok(StateAnswer { run_id: row.run_id.clone(), tenant: tx.tenant_name(row.tenant)?, state })
}

/// `POST …/succeed`, under a lease or by a caller that retries by itself.
pub fn succeed(tx: &mut Tx<'_>, success: &Success) -> Result<SucceedAnswer> {
    let Some(lease) = success.lease else { return succeed_by_caller(tx, success) };
    let under = UnderLease { at: success.at.clone(), lease };
    let (mut row, stands) = fenced(tx, &under, Verb::Succeed)?;
    match stands {
        LeaseCheck::Live => record_success(tx, row, success, lease.attempt, Some(lease.epoch), false),
        LeaseCheck::LateSuccess => match tx.rows.attempt(row.id, lease.attempt)? {
            // A detector has objected to this very report.
            Some(kept) if kept.outcome == Outcome::Failed && kept.is(&success.digest) => refused_before(&kept),
            // It came late before.
            Some(kept) if kept.outcome == Outcome::Succeeded => {
                same_end(&kept, &success.digest)?;
                Ok(SucceedAnswer { state: kept.state, late: true, verdict: None })
            }
            Some(_) | None => record_success(tx, row, success, lease.attempt, Some(lease.epoch), true),
        },
        LeaseCheck::Again => {
            let kept = tx.rows.attempt(row.id, lease.attempt)?.ok_or(Error::LeaseLost { recorded: false })?;
            same_end(&kept, &success.digest)?;
            Ok(SucceedAnswer { state: kept.state, late: false, verdict: None })
        }
        LeaseCheck::LateFailure | LeaseCheck::Cancelled | LeaseCheck::Lost => {
            match late_outcomes(tx, &mut row, &under, &success.steps)? {
                true => Err(over(&row, true)),
                false => Err(lost(&row, stands)),
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
    if let Some(kept) = tx.rows.attempt(row.id, asked)? {
        if kept.outcome == Outcome::Succeeded && kept.is(&success.digest) {
            return Ok(SucceedAnswer { state: kept.state, late: false, verdict: None });
        }
        // Without a number the same refused output may also be the next attempt's, once that was due.
        let same = kept.outcome == Outcome::Failed && kept.is(&success.digest);
        if same && (success.attempt.is_some() || report::is_resend(tx, &kept)?) {
            return refused_before(&kept);
        }
        if success.attempt.is_some() {
            return Err(Error::AttemptConflict { attempt: asked });
        }
    }
    let attempt = success.attempt.map_or_else(|| next_attempt(&row.run), Ok)?;
    if attempt <= row.run.attempt {
        return Err(Error::AttemptConflict { attempt });
    }
    record_success(tx, row, success, attempt, None, false)
}

/// The answer to a success that was refused, again.
fn refused_before(kept: &StoredAttempt) -> Result<SucceedAnswer> {
    Ok(SucceedAnswer { state: kept.state, late: false, verdict: kept.verdict()?.map(StoredVerdict::into_verdict) })
}

fn record_success(
    tx: &mut Tx<'_>,
    mut row: RunRow,
    success: &Success,
    attempt: u32,
    epoch: Option<u64>,
    late: bool,
) -> Result<SucceedAnswer> {
    row.touch(success.by);
    let (_, policy) = run_row::rules_of(tx, &row)?;
    if let Some(objection) = refuse::objection(tx, &row, success, &policy)? {
        if !late {
            return refuse::refuse(tx, row, success, &objection, attempt, epoch);
        }
        // A late failure is evidence and moves nothing, whoever found it.
        let body = refuse::body_with_error(success, &objection)?;
        keep_late_failure(tx, &row, attempt, epoch.unwrap_or(0), &body)?;
        if let Some(lease) = success.lease {
            late_outcomes(tx, &mut row, &UnderLease { at: success.at.clone(), lease }, &success.steps)?;
        }
        return Err(over(&row, true));
    }
    let before = row.clone();
    // What was counted as silent is not counted again.
    ended::attempt_ended(tx, &row, epoch.filter(|_| !late), None, &policy)?;
    record::keep_steps(tx, &mut row, attempt, epoch.unwrap_or(0), &before.versions, &success.steps)?;
    let moved = row.ask(&Event::Succeed { attempt }, &policy, tx.now)?;
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    row.worker = None;
    row.start_id = None;
    let state = row.run.state.name();
    let ending = Ending {
        attempt,
        late,
        outcome: Outcome::Succeeded,
        epoch,
        digest: Some(&success.digest),
        fingerprint: None,
        pattern: None,
        pattern_new: false,
        verdict: None,
        breaker: BreakerState::Closed,
        body: &success.body,
    };
    if late {
        // The record that stood in its place gives way; that it was there stays in the history.
        verbs::note_move(tx, &before, &row, "worker", "late_success", None)?;
    }
    attempts::keep_attempt(tx, &before, &row, &ending)?;
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
