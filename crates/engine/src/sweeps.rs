//! Sweeps: signs of life and downtime, expired attempts, unclaimed runs, and the change log. Each call is bounded.

use redrive_core::absence::{Absence, RETURN_GRACE_MS, attended_since};
use redrive_core::lifecycle::{Event, Moved, reject_unleasable, what_passed};
use redrive_core::pattern::{FINGERPRINT_VERSION, Fingerprint};
use redrive_core::policy::RetryBy;
use redrive_core::reason::{Category, Reason};
use redrive_core::run::{Lease, State, StateName};
use redrive_core::strategy::Failure;
use redrive_core::text::Text;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::FailureAnswer;

use crate::breakers::ended;
use crate::codec::encode;
use crate::error::{Error, Result};
use crate::ingest::report::settle;
use crate::model::{AttemptBody, FailedAttempt, HourlyKind, Swept};
use crate::runs::attempts::{AttemptEnd, json};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::triage::verbs;
use crate::tx::{QueueRow, Tx};

/// Older absences are deleted and count as attended time.
const ABSENCES_KEPT_MAX: usize = 1_000;
const CHANGES_KEPT_MS: u64 = DAY_MS;

/// Records a sign of life, and the gap before it if it was an absence.
pub fn stamp(tx: &mut Tx<'_>, replica: &str) -> Result<()> {
    note_absence(tx)?;
    let now = tx.now;
    Ok(tx.rows.put_stamp(replica, now, now.minus_ms(DAY_MS))?)
}

/// Records an absence that has just ended. Everything that judges by time calls it first in its transaction, since any
/// service may be the first after a gap. The end of an absence is a sign of life, so a gap is recorded once.
pub fn note_absence(tx: &mut Tx<'_>) -> Result<()> {
    let last_seen = tx.rows.last_seen()?;
    match Absence::up_to_now(last_seen, tx.now) {
        Some(absence) => Ok(tx.rows.put_absence(absence, ABSENCES_KEPT_MAX)?),
        None => Ok(()),
    }
}

/// Decides on attempts whose time has passed, or extends it by our absences.
pub fn rescue_expired(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    note_absence(tx)?;
    let (now, most) = (tx.now, tx.pace.runs_max(most));
    let rows = set_aside::readable(tx, |rows| rows.to_wake(now, most))?;
    let looked_at = rows.len();
    // Absences count from the attempt's start for a deadline, from the limit's end otherwise.
    let judged_from = |lease: &Lease| match lease.deadline_at <= now {
        true => lease.began_at,
        false => lease.wake_at().minus_ms(RETURN_GRACE_MS),
    };
    let absences = match rows.iter().filter_map(|row| row.run.lease()).map(judged_from).min() {
        Some(oldest) => tx.rows.absences_since(oldest)?,
        None => Vec::new(),
    };
    for row in rows {
        rescue(tx, row, &absences)?;
    }
    Ok(Swept { looked_at, moved: looked_at, more: looked_at == most })
}

fn rescue(tx: &mut Tx<'_>, mut row: RunRow, absences: &[Absence]) -> Result<()> {
    let Some(lease) = row.run.lease() else {
        return set_aside::set_run_aside(tx, row.id, "its lease expired, and it is not running");
    };
    let jitter = tx.dice.jitter();
    let lease = lease.attended(tx.now, absences);
    let passed = what_passed(&lease, tx.now, absences, jitter);
    row.run.state = State::Running(lease);
    // Our absences extended the deadline.
    let Some(event) = passed else { return run_row::save_life(tx, &row) };
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let before = row.clone();
    run_row::load_tenant_surroundings(tx, &mut row, &policy)?;
    let Some(moved) = set_aside::ask_for_service(tx, &row, &event, &policy)? else { return Ok(()) };
    if moved.verdict.is_none() {
        row.run = moved.run;
        return run_row::save_life(tx, &row);
    }
    settle_found(tx, &before, row, moved).map(|_| ())
}

/// Records a failure of the attempt under way that no worker reported.
pub fn settle_found(tx: &mut Tx<'_>, before: &RunRow, row: RunRow, moved: Moved) -> Result<FailureAnswer> {
    let verdict = moved.verdict.as_ref().ok_or_else(|| Error::Unexpected("a failure has no verdict".into()))?;
    let (_, policy) = run_row::rules_of(tx, before)?;
    let ended = AttemptEnd { number: before.run.attempt, epoch: Some(before.run.epoch) };
    ended::attempt_ended(tx, before, ended.epoch, Some(&verdict.reason), &policy)?;
    let failure = Failure::found(verdict.reason.clone(), &verdict.rule);
    let fingerprint = Fingerprint {
        version: FINGERPRINT_VERSION,
        hash: failure.fingerprint,
        template: template(&verdict.rule).to_owned(),
    };
    let body = encode(json(&AttemptBody::default())?.as_bytes());
    let failed =
        FailedAttempt { versions: before.versions.clone(), ..FailedAttempt::found(failure, fingerprint, body) };
    settle(tx, before, row, moved, &failed, ended, None)
}

fn template(rule: &str) -> &'static str {
    match rule {
        "builtin.silent" => "the worker went silent",
        "builtin.idle" => "no step for too long",
        "builtin.deadline" => "the attempt's deadline passed",
        "builtin.released_too_often" => "given back by every worker that took it",
        _ => "found by the engine",
    }
}

/// Dead-letters runs that no worker began in time, by queue and tenant, since each pair may have its own limit.
pub fn reject_unclaimed(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    note_absence(tx)?;
    let most = tx.pace.runs_max(most);
    set_aside::read_set_aside_again(tx, most)?;
    let absences = tx.rows.absences_since(Timestamp::default())?;
    let mut swept = Swept::default();
    // Runs without a payload in a queue of workers, after the queue's rules have changed.
    let mut last = 0;
    while let Some(number) = tx.rows.next_unleasable(last)? {
        last = number;
        let queue = tx.queue_by_id(number)?;
        swept.moved += reject_unleasable_of(tx, &queue, most - swept.moved)?;
        if swept.moved >= most {
            return Ok(Swept { looked_at: swept.moved, more: true, ..swept });
        }
    }
    swept.looked_at = swept.moved;
    let mut at = (0, 0);
    while let Some(((queue, tenant), _)) = tx.rows.next_waiting(at)? {
        at = (queue, tenant);
        let row = tx.queue_by_id(queue)?;
        let limit_ms = tx.policy(&row, tenant)?.unclaimed_after_ms;
        let oldest = attended_since(tx.now, limit_ms, &absences);
        for row in set_aside::readable(tx, |rows| rows.overdue(queue, tenant, oldest, most - swept.moved))? {
            swept.looked_at += 1;
            swept.moved += 1;
            reject(tx, row, &absences)?;
        }
        if swept.moved >= most {
            return Ok(Swept { more: true, ..swept });
        }
    }
    Ok(swept)
}

/// Dead-letters runs of a worker queue whose payload was omitted; returns how many rows it examined.
pub fn reject_unleasable_of(tx: &mut Tx<'_>, queue: &QueueRow, most: usize) -> Result<usize> {
    if queue.settings.retry_by != RetryBy::Worker {
        return Ok(0);
    }
    let rows = set_aside::readable(tx, |rows| rows.unleasable(queue.id, most))?;
    let found = rows.len();
    for mut row in rows {
        let before = row.clone();
        let (_, policy) = run_row::rules_of(tx, &row)?;
        if reject_unleasable(&mut row.run, &policy) {
            run_row::save(tx, &before, &row)?;
            note_rejected(tx, &before, &row)?;
        }
    }
    Ok(found)
}

/// Records why the run cannot be leased.
pub fn note_rejected(tx: &mut Tx<'_>, before: &RunRow, row: &RunRow) -> Result<()> {
    tx.counters.happened(tx.now, row.tenant, row.queue, HourlyKind::Dead, None);
    let note = Text::from("Its payload was too large to send, so no worker can be given it: fix it with a payload.");
    verbs::note_move(tx, before, row, "engine", "not_replayable", Some(&note))
}

fn reject(tx: &mut Tx<'_>, mut row: RunRow, absences: &[Absence]) -> Result<()> {
    let before = row.clone();
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let Some(moved) = set_aside::ask_for_service(tx, &row, &Event::Unclaimed { absences }, &policy)? else {
        return Ok(());
    };
    row.run = moved.run;
    row.failed_with(&Reason::Unclaimed, Category::Permanent);
    run_row::save(tx, &before, &row)?;
    let note = Text::from("Nobody began it in time: is a worker leasing this queue?");
    verbs::note_move(tx, &before, &row, "engine", "unclaimed", Some(&note))?;
    if row.run.state.name() == StateName::Dead {
        tx.counters.happened(tx.now, row.tenant, row.queue, HourlyKind::Dead, None);
    }
    Ok(())
}

/// Deletes old rows of the change log, oldest first.
pub fn trim_changes(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    Ok(tx.rows.trim_changes(tx.now.minus_ms(CHANGES_KEPT_MS), most)?)
}

/// Tests whether a commit would succeed now.
pub fn touch(tx: &mut Tx<'_>) -> Result<()> {
    Ok(tx.rows.touch()?)
}
