//! A reported failure: finds its attempt, decides, and records the result.

use redrive_core::lifecycle::{Event, Moved, Outcome, Refused, next_attempt};
use redrive_core::run::{ATTEMPT_MAX, State, StateName};
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::{Action, Target};
use redrive_core::wire::FailureAnswer;

use crate::breakers::ended;
use crate::breakers::gate;
use crate::codec::encode;
use crate::counters;
use crate::error::{Error, Reported, Result};
use crate::ledger::record;
use crate::ledger::steps;
use crate::model::{FailedAttempt, HourlyKind, NewFailure, NewRun};
use crate::names::tenant_names;
use crate::patterns::sightings;
use crate::patterns::sightings::{Sighted, Sighting};
use crate::runs::attempts::{AttemptEnd, AttemptRecord, StoredAttempt};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::triage::merges;
use crate::tx::Tx;

/// The shortest time in which an equal report without an attempt number counts as sent again.
const RESEND_MIN_MS: u64 = MINUTE_MS;

/// `POST /v1/failures`.
pub fn report(tx: &mut Tx<'_>, report: &NewFailure) -> Result<Reported> {
    let tenant = tx.tenant(&report.run.tenant)?;
    let Some(mut row) = run_row::find_run_of(tx, tenant, &report.run.run_id)? else {
        let (queue, is_other) = tenant_names::queue_to_fail_in(tx, tenant, &report.run.queue)?;
        let attempt = report.failed.attempt.unwrap_or(1);
        let row = run_row::new_run(tx, &report.run, tenant, queue.id)?;
        let id = row.id;
        let ended = AttemptEnd::unleased(attempt);
        let answer = record(tx, &row.clone(), row, &report.failed, ended, Some(&report.run))?;
        if is_other {
            tenant_names::note_other_queue(tx, id, answer.state, &report.run.queue)?;
        }
        return Ok(Reported { answer, fresh: true });
    };
    match identify(tx, &row, &report.failed)? {
        ReportedAttempt::Recorded(stored) => Ok(Reported { answer: stored.failure_answer(tx, &row)?, fresh: false }),
        ReportedAttempt::New(attempt) => {
            let before = row.clone();
            row.touch(report.run.by);
            row.run.resumable = report.run.resumable.unwrap_or(row.run.resumable);
            let ended = AttemptEnd::unleased(attempt);
            let answer = record(tx, &before, row, &report.failed, ended, None)?;
            if let State::Merged(merged) = &before.run.state {
                merges::pass_on(tx, &before, &merged.into, &report.failed)?;
            }
            Ok(Reported { answer, fresh: true })
        }
    }
}

/// One of many that came in one call.
pub fn report_of(tx: &mut Tx<'_>, reports: &[NewFailure], at: usize) -> Result<Reported> {
    report(tx, reports.get(at).ok_or_else(|| Error::Unexpected("a report is missing from its batch".into()))?)
}

/// The attempt that a report is about.
enum ReportedAttempt {
    New(u32),
    /// Recorded before, from the same report.
    Recorded(StoredAttempt),
}

fn identify(tx: &mut Tx<'_>, row: &RunRow, failed: &FailedAttempt) -> Result<ReportedAttempt> {
    let is_same = |stored: &StoredAttempt| failed.digest.as_ref().is_some_and(|digest| stored.is(digest));
    let running = matches!(row.run.state, State::Running(_));
    match failed.attempt {
        Some(attempt) if attempt > row.run.attempt => {
            if running {
                Err(Refused::InFlight.into())
            } else if attempt > ATTEMPT_MAX {
                Err(Refused::TooManyAttempts(row.run.attempt).into())
            } else {
                Ok(ReportedAttempt::New(attempt))
            }
        }
        Some(attempt) => match tx.rows.attempt(row.id, attempt)? {
            Some(stored) if is_same(&stored) => Ok(ReportedAttempt::Recorded(stored)),
            None if running && attempt == row.run.attempt => Err(Refused::InFlight.into()),
            Some(_) | None => Err(Error::AttemptConflict { attempt }),
        },
        None => match tx.rows.last_failure(row.id)? {
            Some(stored) if is_same(&stored) && is_resend(tx, &stored)? => Ok(ReportedAttempt::Recorded(stored)),
            Some(_) | None if running => Err(Refused::InFlight.into()),
            Some(_) | None => Ok(ReportedAttempt::New(next_attempt(&row.run)?)),
        },
    }
}

/// Whether equal content is the same failure sent again: until its retry is due, and for a minute at least.
pub fn is_resend(tx: &Tx<'_>, stored: &StoredAttempt) -> Result<bool> {
    let due = stored.verdict()?.and_then(|verdict| verdict.next_attempt_at);
    let until = stored.recorded_at.plus_ms(RESEND_MIN_MS);
    Ok(tx.now < due.map_or(until, |due| due.max(until)))
}

/// Decides on a reported failure and records it. `row` is `before` with what the report says about the run; `new` is set
/// for a run that is not in the store yet.
pub fn record(
    tx: &mut Tx<'_>,
    before: &RunRow,
    mut row: RunRow,
    reported: &FailedAttempt,
    ended: AttemptEnd,
    new: Option<&NewRun>,
) -> Result<FailureAnswer> {
    let reported = &*tenant_names::within_reasons(tx, row.tenant, reported)?;
    if !reported.steps.is_empty() {
        // Under a lease the versions are those that the worker gave at the start.
        let versions = if ended.epoch.is_some() { before.versions.clone() } else { reported.versions.clone() };
        record::keep_steps(tx, &mut row, ended, &versions, &reported.steps)?;
    }
    row.model = reported.model.clone().or(row.model);
    row.provider = reported.provider.clone().or(row.provider);
    row.tool.clone_from(&reported.tool);
    row.step.clone_from(&reported.step);
    let (queue, policy) = run_row::rules_of(tx, &row)?;
    ended::attempt_ended(tx, &row, ended.epoch, Some(&reported.failure.reason), &policy)?;
    run_row::load_surroundings(tx, &mut row, (&queue, &policy), &reported.failure, new)?;
    let event = Event::Fail { failure: &reported.failure, attempt: ended.number, jitter: tx.dice.jitter() };
    let moved = row.ask(&event, &policy, tx.now)?;
    let id = row.id;
    let answer = settle(tx, before, row, moved, reported, ended, new)?;
    if let Some(severity) = reported.severity {
        tx.rows.set_severity(id, severity)?;
    }
    Ok(answer)
}

/// Records a failure with its verdict: the run, the attempt, the pattern and the counters.
pub fn settle(
    tx: &mut Tx<'_>,
    before: &RunRow,
    mut row: RunRow,
    moved: Moved,
    failed: &FailedAttempt,
    ended: AttemptEnd,
    new: Option<&NewRun>,
) -> Result<FailureAnswer> {
    let verdict = moved.verdict.ok_or_else(|| Error::Unexpected("a failure has no verdict".into()))?;
    let verdict = tx.known.verdicts.tell(verdict).map_err(|e| Error::Unexpected(format!("a verdict: {e}")))?;
    let pattern = sightings::sight(
        tx,
        &Sighting {
            tenant: row.tenant,
            run_id: &row.run_id,
            fingerprint: &failed.fingerprint,
            failure: &failed.failure,
            versions: if failed.versions.is_empty() && ended.epoch.is_some() {
                &before.versions
            } else {
                &failed.versions
            },
            began_at: began_at(tx.now, before, failed, ended),
        },
    )?;
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    if row.run.was_retry() {
        counters::add_spend(tx, row.tenant, failed.failure.spent);
    }
    // Only a retry goes to another target; a run in review, or a merged one, stays.
    let retries = row.run.state.name() == StateName::Scheduled;
    let target = if retries { verdict.target.clone() } else { Target::default() };
    run_row::redirect(tx, &mut row, &target)?;
    row.worker = None;
    row.start_id = None;
    row.failed_with(&verdict.reason, verdict.category);
    row.pattern = Some(pattern.id);
    let breaker = gate::breaker_state(tx, &row)?;
    let record = AttemptRecord {
        digest: failed.digest.as_ref(),
        fingerprint: Some(&failed.fingerprint),
        pattern: Some(pattern.id),
        pattern_new: pattern.shown.new,
        verdict: Some(encode(verdict.json().as_bytes())),
        ..AttemptRecord::new(before, &row, ended, Outcome::Failed, breaker, &failed.body)?
    };
    tx.rows.put_attempt(&record, tx.now)?;
    match new {
        Some(new) => run_row::insert_run(tx, &row, new)?,
        None => run_row::save(tx, before, &row)?,
    }
    run_row::keep_place(tx, &row, &target)?;
    count_failure(tx, before, &row, &pattern, verdict.action);
    Ok(FailureAnswer {
        run_id: row.run_id.clone(),
        tenant: tx.tenant_name(row.tenant)?,
        state: row.run.state.name(),
        attempt: ended.number,
        verdict,
        pattern: pattern.shown,
        breaker: breaker.to_string(),
    })
}

/// When the attempt began, by the store's clock: from its lease, or from its reported duration, which no clock offset
/// distorts.
fn began_at(now: Timestamp, before: &RunRow, failed: &FailedAttempt, ended: AttemptEnd) -> Option<Timestamp> {
    let leased = ended.epoch.and_then(|_| before.run.lease()).map(|lease| lease.began_at);
    leased.or_else(|| failed.took_ms.filter(|ms| *ms > 0).map(|ms| now.minus_ms(ms)))
}

fn count_failure(tx: &mut Tx<'_>, before: &RunRow, row: &RunRow, pattern: &Sighted, action: Action) {
    // A failure counts for the queue in which the run failed, not for the one that it moves to.
    let (now, tenant, queue) = (tx.now, row.tenant, before.queue);
    tx.counters.failed(pattern.id, pattern.head);
    tx.counters.happened(now, tenant, queue, HourlyKind::Failed, Some(&row.reason));
    if action != Action::DeadLetter {
        tx.counters.happened(now, tenant, queue, HourlyKind::Retried, Some(&row.reason));
    }
    if row.run.state.name() == StateName::Dead && before.run.state.name() != StateName::Dead {
        tx.counters.happened(now, tenant, queue, HourlyKind::Dead, Some(&row.reason));
    }
}
