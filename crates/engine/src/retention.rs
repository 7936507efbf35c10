//! Retention: removes ended runs and payloads whose time is over, in small commits beside normal work.
//!
//! A pass walks over the queues and tenants that have ended runs. Each round finds a bounded slice beside the writer, then
//! removes it in one commit that judges every run again and stores where the next round continues. The time of an end is in an
//! index by queue, tenant and kind of end, so that a changed policy holds from the next pass and nothing else is read.

use std::collections::HashSet;
use std::sync::Arc;

use redrive_core::policy::Retention;
use redrive_core::retention::EndedAs;
use redrive_core::time::{DAY_MS, MINUTE_MS, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::freeze;
use crate::model::Swept;
use crate::ports::backend::{Backend, Owner, Route};
use crate::ports::rows::{EndedScan, OldRows, RetentionNotice};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside::unless_corrupt;
use crate::tx::Tx;

/// The longest chain of merged runs that is removed in one commit; each link is an action of a person.
const CHAIN_MAX: usize = 100;
/// Queues and tenants that one round looks at.
const PLACES_MAX: usize = 500;
/// Merged runs that are removed with the runs they belong to, in one round.
const PARTS_MAX: usize = 500;
/// Dead letters of one queue and tenant are counted up to this.
const COUNTED_MAX: u64 = 10_000;
/// How long a replica owns retention after its last commit: longer than a slice takes.
const HELD_MS: u64 = 5 * MINUTE_MS;
/// Pages that one round returns to the file system.
const PAGES_MAX: usize = 1_000;

/// How long roll-ups by the hour are kept.
const HOURS_KEPT_MS: u64 = 180 * DAY_MS;
/// How long ended operations, unused previews, and revoked or expired keys are kept.
const RECORDS_KEPT_MS: u64 = 90 * DAY_MS;
/// How long rows that were set aside are kept for a person.
const SET_ASIDE_KEPT_MS: u64 = 365 * DAY_MS;

/// What is done to the runs of a step of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Run,
    Payload,
}

/// What is searched for each queue and tenant, in this order. Append only: positions are stored by index.
const STEPS: [(Expiry, EndedAs); 6] = [
    (Expiry::Run, EndedAs::Closed),
    (Expiry::Run, EndedAs::ClosedWithoutPayload),
    (Expiry::Run, EndedAs::Dead),
    (Expiry::Run, EndedAs::DeadWithoutPayload),
    (Expiry::Payload, EndedAs::Closed),
    (Expiry::Payload, EndedAs::Dead),
];

impl Expiry {
    /// Runs that ended then or before have expired.
    fn before(self, policy: &Retention, ended_as: EndedAs, now: Timestamp, has_archive: bool) -> Option<Timestamp> {
        match self {
            Self::Run => policy.removed_before(ended_as, now, has_archive),
            Self::Payload => policy.payloads_before(ended_as, now),
        }
    }
}

/// Where a pass continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
struct WalkPosition {
    queue: i64,
    tenant: i64,
    /// The next index of [`STEPS`] for this queue and tenant; none when all are done.
    step: Option<usize>,
    /// The end and number of the last run that was looked at.
    after: (i64, i64),
}

/// A run whose time is over, as it was found.
#[derive(Debug, Clone, Copy)]
struct ExpiredRun {
    run: i64,
    expiry: Expiry,
}

/// What one round works on.
#[derive(Debug, Default)]
struct RetentionSlice {
    expired: Vec<ExpiredRun>,
    /// Changed notices of a queue and tenant; none where there is nothing to announce any more.
    notices: Vec<((i64, i64), Option<RetentionNotice>)>,
    /// None when the pass is complete.
    next: Option<WalkPosition>,
}

/// One bounded round of the retention service.
pub async fn round(backend: &impl Backend, replica: &str, most: usize) -> Result<Swept> {
    // What a restored store holds is old; nothing goes before an operator has compared it.
    if freeze::current(backend).await?.is_some() {
        return Ok(Swept::default());
    }
    let holder = replica.to_owned();
    let Some(from) = backend.submit(Route::system(), move |tx| claim(tx, &holder)).await? else {
        return Ok(Swept::default());
    };
    let slice = backend.inspect(Owner::System, move |tx| find(tx, from, most)).await?;
    let (slice, holder) = (Arc::new(slice), replica.to_owned());
    backend.submit(Route::system(), move |tx| apply(tx, &holder, &slice)).await
}

/// Owns retention for a while, unless another replica does. Returns where the pass continues.
fn claim(tx: &mut Tx<'_>, replica: &str) -> Result<Option<WalkPosition>> {
    let Some(stored) = tx.rows.claim_retention(replica, tx.now, tx.now.plus_ms(HELD_MS))? else { return Ok(None) };
    // A position of another version starts the pass again.
    Ok(Some(serde_json::from_str(&stored).unwrap_or_default()))
}

/// The next expired runs of the walk.
fn find(tx: &mut Tx<'_>, from: WalkPosition, most: usize) -> Result<RetentionSlice> {
    let (mut slice, mut at) = (RetentionSlice::default(), from);
    for _ in 0..PLACES_MAX {
        if let Some(step) = at.step {
            if let Some(stopped) = find_in(tx, at, step, most, &mut slice)? {
                slice.next = Some(stopped);
                return Ok(slice);
            }
            announce(tx, (at.queue, at.tenant), &mut slice)?;
        }
        let Some((queue, tenant)) = tx.rows.next_ended((at.queue, at.tenant))? else { return Ok(slice) };
        at = WalkPosition { queue, tenant, step: Some(0), after: (0, 0) };
    }
    slice.next = Some(at);
    Ok(slice)
}

/// Searches one queue and tenant from a step on. Returns where it stopped because the slice is full.
fn find_in(
    tx: &mut Tx<'_>,
    mut at: WalkPosition,
    first: usize,
    most: usize,
    slice: &mut RetentionSlice,
) -> Result<Option<WalkPosition>> {
    let policy = policy_of(tx, (at.queue, at.tenant))?;
    for (step, (expiry, ended_as)) in STEPS.iter().enumerate().skip(first) {
        if step > first {
            at.after = (0, 0);
        }
        at.step = Some(step);
        let Some(by) = expiry.before(&policy, *ended_as, tx.now, tx.policies.has_archive) else { continue };
        let room = most.saturating_sub(slice.expired.len());
        let scan = EndedScan { queue: at.queue, tenant: at.tenant, ended_as: *ended_as, after: at.after, by };
        let found = tx.rows.ended_runs(&scan, room)?;
        slice.expired.extend(found.iter().map(|(_, run)| ExpiredRun { run: *run, expiry: *expiry }));
        if found.len() == room {
            at.after = found.last().map_or(at.after, |(ended_at, run)| (ended_at.as_millis(), *run));
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn policy_of(tx: &mut Tx<'_>, (queue, tenant): (i64, i64)) -> Result<Retention> {
    let queue = tx.queue_by_id(queue)?;
    Ok(tx.policy(&queue, tenant)?.retention)
}

/// Notes dead letters that will be removed soon, or that stay although their time is over.
fn announce(tx: &mut Tx<'_>, place: (i64, i64), slice: &mut RetentionSlice) -> Result<()> {
    let policy = policy_of(tx, place)?;
    let overdue = policy.dead_overdue_before(tx.now);
    let mut notice = RetentionNotice::default();
    for ended_as in EndedAs::ALL.iter().copied().filter(|ended_as| ended_as.is_dead()) {
        let scan = |after: Timestamp, by| EndedScan {
            queue: place.0,
            tenant: place.1,
            ended_as,
            after: (after.as_millis(), i64::MAX),
            by,
        };
        if tx.policies.has_archive {
            let soon = scan(overdue, policy.announced_before(tx.now));
            let (count, first) = tx.rows.count_ended(&soon, COUNTED_MAX)?;
            let first = first.and_then(|ended_at| policy.of_run(ended_as, ended_at, true).remove_at);
            notice.due_soon += count;
            notice.first_at = notice.first_at.into_iter().chain(first).min();
        } else {
            let (count, _) = tx.rows.count_ended(&scan(Timestamp::default(), overdue), COUNTED_MAX)?;
            notice.kept += count;
        }
    }
    let notice = Some(notice).filter(|notice| *notice != RetentionNotice::default());
    if tx.rows.retention_notice(place)? != notice {
        slice.notices.push((place, notice));
    }
    Ok(())
}

/// Removes what the slice names and what is still expired.
fn apply(tx: &mut Tx<'_>, replica: &str, slice: &RetentionSlice) -> Result<Swept> {
    let position = slice.next.as_ref().map_or(Ok(String::new()), serde_json::to_string);
    let position = position.map_err(|error| Error::Unexpected(error.to_string()))?;
    let until = tx.now.plus_ms(HELD_MS);
    if !tx.rows.hold_retention(replica, &position, until)? {
        // Another replica has taken over, and works on the same runs.
        return Ok(Swept::default());
    }
    let runs: Vec<i64> = slice.expired.iter().map(|expired| expired.run).collect();
    tx.rows.lock_ended(&runs)?;
    let busy = tx.rows.in_open_operations(&runs)?;
    let (mut removal, mut payloads) = (Removal { room: PARTS_MAX, ..Removal::default() }, Vec::new());
    for ExpiredRun { run, expiry } in &slice.expired {
        if busy.contains(run) || removal.runs.contains(run) {
            continue;
        }
        // A row that can't be read stays for a person.
        let Ok(Some(row)) = unless_corrupt(tx.rows.run_by_number(*run))? else { continue };
        if !is_expired(tx, &row, *expiry)? {
            continue;
        }
        match expiry {
            Expiry::Run => drop(remove(tx, &row, &mut removal, 0)?),
            Expiry::Payload => {
                payloads.push(row.id);
                expire_payload(tx, row)?;
            }
        }
    }
    if !payloads.is_empty() {
        tx.rows.remove_payloads(&payloads)?;
    }
    let removed: Vec<i64> = removal.runs.into_iter().collect();
    if !removed.is_empty() {
        tx.rows.remove_runs(&removed)?;
    }
    for (place, notice) in &slice.notices {
        tx.rows.put_retention_notice(*place, notice.as_ref())?;
    }
    let released = tx.rows.release_pages(PAGES_MAX)?;
    let trimmed = if slice.next.is_none() { trim(tx)? } else { false };
    Ok(Swept {
        looked_at: slice.expired.len(),
        moved: removed.len() + payloads.len(),
        more: slice.next.is_some() || released || trimmed,
    })
}

/// Judges the run as it is now: it may have been opened again, or its policy may have changed.
fn is_expired(tx: &mut Tx<'_>, row: &RunRow, expiry: Expiry) -> Result<bool> {
    let Some((ended_as, ended_at)) = row.ended_as().zip(row.ended_at) else { return Ok(false) };
    let policy = policy_of(tx, (row.queue, row.tenant))?;
    Ok(expiry.before(&policy, ended_as, tx.now, tx.policies.has_archive).is_some_and(|by| ended_at <= by))
}

/// The runs that a commit removes.
#[derive(Default)]
struct Removal {
    runs: HashSet<i64>,
    /// How many merged runs may still go with the run that they are part of.
    room: usize,
}

/// Removes a run, and first the runs that are merged into it: none is left pointing at a run that is gone. A run keeps its
/// place while a part of it has to stay, or while it has more parts than fit into one commit. True if it goes.
fn remove(tx: &mut Tx<'_>, row: &RunRow, removal: &mut Removal, depth: usize) -> Result<bool> {
    let mut parts = tx.rows.parts_of_run(row.tenant, &row.run_id, PARTS_MAX + 1)?;
    let mut all_gone = parts.len() <= PARTS_MAX && depth < CHAIN_MAX;
    parts.retain(|part| !removal.runs.contains(part));
    if parts.len() > removal.room {
        all_gone = false;
        parts.truncate(removal.room);
    }
    if !parts.is_empty() && depth < CHAIN_MAX {
        removal.room -= parts.len();
        tx.rows.lock_ended(&parts)?;
        let busy = tx.rows.in_open_operations(&parts)?;
        for part in parts {
            let part =
                unless_corrupt(tx.rows.run_by_number(part))?.ok().flatten().filter(|row| !busy.contains(&row.id));
            all_gone &= match part.filter(|part| part.merged_into() == Some(&row.run_id)) {
                Some(part) => remove(tx, &part, removal, depth + 1)?,
                None => false,
            };
        }
    }
    if all_gone {
        tx.counters.removed(&row.counted());
        removal.runs.insert(row.id);
    }
    Ok(all_gone)
}

/// The run stays, and can be replayed with a new payload only.
fn expire_payload(tx: &mut Tx<'_>, mut row: RunRow) -> Result<()> {
    let before = row.clone();
    row.payload_expired = true;
    row.payload_bytes = None;
    row.run.replayable = false;
    run_row::save(tx, &before, &row)
}

/// Deletes old rows of tables that only grow. True if there may be more.
fn trim(tx: &mut Tx<'_>) -> Result<bool> {
    let old = [
        (OldRows::Hours, HOURS_KEPT_MS),
        (OldRows::Operations, RECORDS_KEPT_MS),
        (OldRows::Keys, RECORDS_KEPT_MS),
        (OldRows::SetAside, SET_ASIDE_KEPT_MS),
    ];
    let mut more = false;
    for (of, kept_ms) in old {
        let gone = tx.rows.trim_old(of, tx.now.minus_ms(kept_ms), TRIMMED_MAX)?;
        more |= gone >= TRIMMED_MAX;
    }
    Ok(more)
}

/// Rows of each table that one round trims.
const TRIMMED_MAX: usize = 500;
