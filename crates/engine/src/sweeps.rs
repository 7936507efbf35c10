//! What the engine finds: attempts gone quiet, runs that nobody takes, our own absence. A bounded piece at a time.

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
use crate::ingest::report::{Failed, settle};
use crate::model::{AttemptBody, HourlyKind, Swept};
use crate::runs::attempts::json;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::runs::surroundings;
use crate::triage::verbs;
use crate::tx::{QueueRow, Tx};

/// Beyond so many the oldest are forgotten, and count as time in which somebody was there.
const ABSENCES_KEPT_MAX: usize = 1_000;
const CHANGES_KEPT_MS: u64 = DAY_MS;

/// Says that this replica is there; a gap since anybody last said so is remembered.
pub fn stamp(tx: &mut Tx<'_>, replica: &str) -> Result<()> {
    note_absence(tx)?;
    let now = tx.now;
    Ok(tx.rows.put_stamp(replica, now, now.minus_ms(DAY_MS))?)
}

/// Whoever judges by time asks this first, in its own transaction: after a gap nobody knows which service comes first. The
/// end of an absence is a sign of life as well, so one gap is noted once.
pub fn note_absence(tx: &mut Tx<'_>) -> Result<()> {
    let last_seen = tx.rows.last_seen()?;
    match Absence::up_to_now(last_seen, tx.now) {
        Some(absence) => Ok(tx.rows.put_absence(absence, ABSENCES_KEPT_MAX)?),
        None => Ok(()),
    }
}

/// Gives every attempt whose time has passed its verdict, or the time that our own absence owes it.
pub fn rescue_expired(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    note_absence(tx)?;
    let (now, most) = (tx.now, tx.pace.piece(most));
    let rows = set_aside::readable(tx, |rows| rows.to_wake(now, most))?;
    let looked_at = rows.len();
    // A deadline counts from the attempt's beginning, the other limits from their end.
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
        return set_aside::set_run_aside(tx, row.id, "its lease ran out, and it is not running");
    };
    let jitter = tx.dice.jitter();
    let lease = lease.attended(tx.now, absences);
    let passed = what_passed(&lease, tx.now, absences, jitter);
    row.run.state = State::Running(lease);
    // Only the deadline had come, and our absences have moved it on.
    let Some(event) = passed else { return run_row::save_life(tx, &row) };
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let before = row.clone();
    surroundings::load_tenant_surroundings(tx, &mut row, &policy)?;
    let Some(moved) = set_aside::ask_for_service(tx, &row, &event, &policy)? else { return Ok(()) };
    if moved.verdict.is_none() {
        row.run = moved.run;
        return run_row::save_life(tx, &row);
    }
    let (attempt, epoch) = (row.run.attempt, row.run.epoch);
    settle_found(tx, &before, row, moved, attempt, epoch).map(|_| ())
}

/// Keeps a failure that nobody reported.
pub fn settle_found(
    tx: &mut Tx<'_>,
    before: &RunRow,
    row: RunRow,
    moved: Moved,
    attempt: u32,
    epoch: u64,
) -> Result<FailureAnswer> {
    let verdict = moved.verdict.as_ref().ok_or_else(|| Error::Unexpected("a failure without a verdict".into()))?;
    let (_, policy) = run_row::rules_of(tx, before)?;
    ended::attempt_ended(tx, before, Some(epoch), Some(&verdict.reason), &policy)?;
    let failure = Failure::found(verdict.reason.clone(), &verdict.rule);
    let fingerprint = Fingerprint {
        version: FINGERPRINT_VERSION,
        hash: failure.fingerprint,
        template: in_words(&verdict.rule).to_owned(),
    };
    let body = encode(json(&AttemptBody::default())?.as_bytes());
    let failed = Failed {
        attempt,
        failure: &failure,
        fingerprint: &fingerprint,
        digest: None,
        body: &body,
        versions: &before.versions,
        took_ms: None,
        epoch: Some(epoch),
        new: None,
    };
    settle(tx, before, row, moved, &failed)
}

fn in_words(rule: &str) -> &'static str {
    match rule {
        "builtin.silent" => "the worker went silent",
        "builtin.idle" => "no step for too long",
        "builtin.deadline" => "the attempt's deadline passed",
        "builtin.released_too_often" => "given back by every worker that took it",
        _ => "found by the engine",
    }
}

/// Dead-letters scheduled runs whose due time passed long ago and that nobody began. Looks queue by queue, tenant by
/// tenant, since each may have its own patience.
pub fn reject_unclaimed(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    note_absence(tx)?;
    let most = tx.pace.piece(most);
    set_aside::read_set_aside_again(tx, most)?;
    let absences = tx.rows.absences_since(Timestamp::default())?;
    let mut swept = Swept::default();
    // What its queue's workers can't be given is no work that waits: it is found here when the queue's rules have changed.
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
        let known = tx.queue_by_id(queue)?;
        let patience = tx.policy(&known, tenant)?.unclaimed_after_ms;
        let oldest = attended_since(tx.now, patience, &absences);
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

/// Dead-letters runs that wait in a queue whose workers can't be given their payload; how many they were.
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

/// Says why a run is a dead letter that no worker could be given.
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

/// Forgets changes that nobody asks for any more: the oldest first, so only what goes is looked at.
pub fn trim_changes(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    Ok(tx.rows.trim_changes(tx.now.minus_ms(CHANGES_KEPT_MS), most)?)
}

/// Whether a commit would hold now.
pub fn touch(tx: &mut Tx<'_>) -> Result<()> {
    Ok(tx.rows.touch()?)
}
