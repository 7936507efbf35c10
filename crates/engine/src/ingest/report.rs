//! A failure comes in: which attempt is it, what is decided, what is kept.

use redrive_core::lifecycle::{Event, Moved, Outcome, Refused, next_attempt};
use redrive_core::pattern::Fingerprint;
use redrive_core::run::{ATTEMPT_MAX, State, StateName};
use redrive_core::strategy::Failure;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::{Action, Target};
use redrive_core::wire::{FailureAnswer, Versions};

use crate::breakers::ended;
use crate::breakers::gate;
use crate::counters;
use crate::error::{Error, Reported, Result};
use crate::ledger::record;
use crate::ledger::steps;
use crate::model::{Digest, FailedAttempt, HourlyKind, NewFailure, NewRun};
use crate::names::tenant_names;
use crate::patterns::sightings;
use crate::patterns::sightings::{Sighted, Sighting};
use crate::runs::attempts;
use crate::runs::attempts::{Ending, StoredAttempt};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::surroundings;
use crate::triage::merges;
use crate::tx::Tx;

/// How long a report without an attempt number counts as the same one again, at least.
const RESEND_MIN_MS: u64 = MINUTE_MS;

/// `POST /v1/failures`.
pub fn report(tx: &mut Tx<'_>, report: &NewFailure) -> Result<Reported> {
    let tenant = tx.tenant(&report.run.tenant)?;
    let Some(mut row) = run_row::find_run_of(tx, tenant, &report.run.run_id)? else {
        let (queue, is_other) = tenant_names::queue_to_fail_in(tx, tenant, &report.run.queue)?;
        let attempt = report.failed.attempt.unwrap_or(1);
        let row = run_row::new_run(tx, &report.run, tenant, queue.id)?;
        let id = row.id;
        let answer = record(tx, &row.clone(), row, &report.failed, attempt, None, Some(&report.run))?;
        if is_other {
            tenant_names::note_other_queue(tx, id, answer.state, &report.run.queue)?;
        }
        return Ok(Reported { answer, fresh: true });
    };
    match identify(tx, &row, &report.failed)? {
        Identity::Again(kept) => Ok(Reported { answer: attempts::stored_answer(tx, &row, &kept)?, fresh: false }),
        Identity::New(attempt) => {
            let before = row.clone();
            row.touch(report.run.by);
            row.run.resumable = report.run.resumable.unwrap_or(row.run.resumable);
            let answer = record(tx, &before, row, &report.failed, attempt, None, None)?;
            if let State::Merged(merged) = &before.run.state {
                merges::pass_on(tx, &before, &merged.into, &report.failed)?;
            }
            Ok(Reported { answer, fresh: true })
        }
    }
}

/// One of many that came together.
pub fn report_of(tx: &mut Tx<'_>, reports: &[NewFailure], at: usize) -> Result<Reported> {
    report(tx, reports.get(at).ok_or_else(|| Error::Unexpected("a report that did not come".into()))?)
}

enum Identity {
    New(u32),
    Again(StoredAttempt),
}

/// Which attempt a report speaks of.
fn identify(tx: &mut Tx<'_>, row: &RunRow, failed: &FailedAttempt) -> Result<Identity> {
    let running = matches!(row.run.state, State::Running(_));
    match failed.attempt {
        Some(attempt) if attempt > row.run.attempt => {
            if running {
                Err(Refused::InFlight.into())
            } else if attempt > ATTEMPT_MAX {
                Err(Refused::TooManyAttempts(row.run.attempt).into())
            } else {
                Ok(Identity::New(attempt))
            }
        }
        Some(attempt) => match tx.rows.attempt(row.id, attempt)? {
            Some(kept) if kept.is(&failed.digest) => Ok(Identity::Again(kept)),
            None if running && attempt == row.run.attempt => Err(Refused::InFlight.into()),
            Some(_) | None => Err(Error::AttemptConflict { attempt }),
        },
        None => match tx.rows.last_failure(row.id)? {
            Some(kept) if kept.is(&failed.digest) && is_resend(tx, &kept)? => Ok(Identity::Again(kept)),
            Some(_) | None if running => Err(Refused::InFlight.into()),
            Some(_) | None => Ok(Identity::New(next_attempt(&row.run)?)),
        },
    }
}

/// The same words again are the same failure until its retry is due, and for a minute at least.
pub fn is_resend(tx: &Tx<'_>, kept: &StoredAttempt) -> Result<bool> {
    let due = kept.verdict()?.and_then(|told| told.next_attempt_at);
    let until = kept.recorded_at.plus_ms(RESEND_MIN_MS);
    Ok(tx.now < due.map_or(until, |due| due.max(until)))
}

/// A failed attempt on its way into the store: reported, or found by the engine.
pub struct Failed<'a> {
    pub attempt: u32,
    pub failure: &'a Failure,
    pub fingerprint: &'a Fingerprint,
    pub digest: Option<&'a Digest>,
    pub body: &'a [u8],
    pub versions: &'a Versions,
    pub took_ms: Option<u64>,
    /// Of the lease that it ends.
    pub epoch: Option<u64>,
    /// What a run looks like that is not in the store yet.
    pub new: Option<&'a NewRun>,
}

/// Judges and keeps one reported attempt of `row`, which is `before` with what the report says of the run itself.
pub fn record(
    tx: &mut Tx<'_>,
    before: &RunRow,
    mut row: RunRow,
    reported: &FailedAttempt,
    attempt: u32,
    epoch: Option<u64>,
    new: Option<&NewRun>,
) -> Result<FailureAnswer> {
    let reported = &*tenant_names::within_reasons(tx, row.tenant, reported)?;
    if !reported.steps.is_empty() {
        // Under a lease the worker has said at the beginning what it runs.
        let versions = if epoch.is_some() { before.versions.clone() } else { reported.versions.clone() };
        record::keep_steps(tx, &mut row, attempt, epoch.unwrap_or(0), &versions, &reported.steps)?;
    }
    row.model = reported.model.clone().or(row.model);
    row.provider = reported.provider.clone().or(row.provider);
    row.tool.clone_from(&reported.tool);
    row.step.clone_from(&reported.step);
    let (queue, policy) = run_row::rules_of(tx, &row)?;
    ended::attempt_ended(tx, &row, epoch, Some(&reported.failure.reason), &policy)?;
    surroundings::load_surroundings(tx, &mut row, (&queue, &policy), &reported.failure, new)?;
    let event = Event::Fail { failure: &reported.failure, attempt, jitter: tx.dice.jitter() };
    let moved = row.ask(&event, &policy, tx.now)?;
    let failed = Failed {
        attempt,
        failure: &reported.failure,
        fingerprint: &reported.fingerprint,
        digest: Some(&reported.digest),
        body: &reported.body,
        versions: &reported.versions,
        took_ms: reported.took_ms,
        epoch,
        new,
    };
    let id = row.id;
    let answer = settle(tx, before, row, moved, &failed)?;
    if let Some(severity) = reported.severity {
        tx.rows.set_severity(id, severity)?;
    }
    Ok(answer)
}

/// Keeps a failure that the transition table has judged: one row for the run, one for the attempt, the counters folded
/// with the batch.
pub fn settle(
    tx: &mut Tx<'_>,
    before: &RunRow,
    mut row: RunRow,
    moved: Moved,
    failed: &Failed<'_>,
) -> Result<FailureAnswer> {
    let verdict = moved.verdict.ok_or_else(|| Error::Unexpected("a failure without a verdict".into()))?;
    let verdict = tx.known.verdicts.tell(verdict).map_err(|e| Error::Unexpected(format!("a verdict: {e}")))?;
    let pattern = sightings::sight(
        tx,
        &Sighting {
            tenant: row.tenant,
            run_id: &row.run_id,
            fingerprint: failed.fingerprint,
            failure: failed.failure,
            // Under a lease the worker has said at the beginning what it runs.
            versions: if failed.versions.is_empty() && failed.epoch.is_some() {
                &before.versions
            } else {
                failed.versions
            },
            began_at: began_at(tx.now, before, failed),
        },
    )?;
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    if row.run.was_retry() {
        counters::add_spend(tx, row.tenant, failed.failure.spent);
    }
    // A run that a person holds, or that counts for another, stays where it is.
    let goes = row.run.state.name() == StateName::Scheduled;
    let target = if goes { verdict.target.clone() } else { Target::default() };
    surroundings::redirect(tx, &mut row, &target)?;
    row.worker = None;
    row.start_id = None;
    row.failed_with(&verdict.reason, verdict.category);
    row.pattern = Some(pattern.id);
    let breaker = gate::breaker_state(tx, &row)?;
    let ending = Ending {
        attempt: failed.attempt,
        late: false,
        outcome: Outcome::Failed,
        epoch: failed.epoch,
        digest: failed.digest,
        fingerprint: Some(failed.fingerprint),
        pattern: Some(pattern.id),
        pattern_new: pattern.shown.new,
        verdict: Some(&verdict),
        breaker,
        body: failed.body,
    };
    attempts::keep_attempt(tx, before, &row, &ending)?;
    match failed.new {
        Some(new) => run_row::insert_run(tx, &row, new)?,
        None => run_row::save(tx, before, &row)?,
    }
    surroundings::keep_place(tx, &row, &target)?;
    count_failure(tx, before, &row, &pattern, verdict.action);
    Ok(FailureAnswer {
        run_id: row.run_id.clone(),
        tenant: tx.tenant_name(row.tenant)?,
        state: row.run.state.name(),
        attempt: failed.attempt,
        verdict,
        pattern: pattern.shown,
        breaker: breaker.to_string(),
    })
}

/// When the attempt began by our own clock: its lease knows, and how long it took is true by any clock.
fn began_at(now: Timestamp, before: &RunRow, failed: &Failed<'_>) -> Option<Timestamp> {
    let leased = failed.epoch.and_then(|_| before.run.lease()).map(|lease| lease.began_at);
    leased.or_else(|| failed.took_ms.filter(|ms| *ms > 0).map(|ms| now.minus_ms(ms)))
}

fn count_failure(tx: &mut Tx<'_>, before: &RunRow, row: &RunRow, pattern: &Sighted, action: Action) {
    // It failed where it was, wherever it goes next.
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
