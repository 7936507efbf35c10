//! What the engine finds: attempts gone quiet, runs that nobody takes, our own absence. A bounded piece at a time.

use redrive_core::lifecycle::{Event, Moved};
use redrive_core::pattern::{FINGERPRINT_VERSION, Fingerprint};
use redrive_core::reason::{Category, Reason};
use redrive_core::run::{Lease, StateName};
use redrive_core::strategy::Failure;
use redrive_core::text::Text;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::FailureAnswer;
use rusqlite::{OptionalExtension, params};

use crate::codec::encode;
use crate::error::{Error, Result};
use crate::model::{AttemptBody, HourlyKind, Swept};
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::report::{Failed, settle};
use crate::sqlite::rows::{COLUMNS, RunRow};

/// A gap between stamps longer than this means that none of us was there.
const ABSENT_AFTER_MS: u64 = 3_000;
const CHANGES_KEPT_MS: u64 = DAY_MS;

/// Says that this replica is there; a gap since anybody last said so is remembered.
pub(super) fn stamp(batch: &mut Batch<'_>, replica: &str) -> Result<()> {
    let now = batch.now;
    let last: Option<i64> = batch.conn.prepare_cached("SELECT max(at) FROM stamps")?.query_row([], |row| row.get(0))?;
    let last = last.map(Timestamp::from_millis);
    if let Some(last) = last.filter(|last| now.since(*last) > ABSENT_AFTER_MS) {
        let mut remember = batch.conn.prepare_cached(
            "INSERT INTO unattended (id, since, until) VALUES (1, ?1, ?2)
             ON CONFLICT DO UPDATE SET since = excluded.since, until = excluded.until",
        )?;
        remember.execute([last.as_millis(), now.as_millis()])?;
    }
    let mut put = batch.conn.prepare_cached(
        "INSERT INTO stamps (replica, at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
    )?;
    put.execute(params![replica, now.as_millis()])?;
    let mut forget = batch.conn.prepare_cached("DELETE FROM stamps WHERE at < ?1 AND replica <> ?2")?;
    forget.execute(params![now.minus_ms(DAY_MS).as_millis(), replica])?;
    Ok(())
}

/// When none of us was there last.
fn unattended(batch: &Batch<'_>) -> Result<Option<(Timestamp, Timestamp)>> {
    let mut find = batch.conn.prepare_cached("SELECT since, until FROM unattended")?;
    let span = find.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    Ok(span.map(|(since, until)| (Timestamp::from_millis(since), Timestamp::from_millis(until))))
}

/// Gives every attempt whose time has passed its verdict, or the one extension that our own absence owes it.
pub(super) fn rescue_expired(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let absent = unattended(batch)?;
    let rows = {
        let mut find = batch
            .conn
            .prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE wake <= ?1 ORDER BY wake LIMIT ?2"))?;
        let mut found = find.query(params![batch.now.as_millis(), most])?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            rows.push(RunRow::read(row)?);
        }
        rows
    };
    let looked_at = rows.len();
    for row in rows {
        rescue(batch, row, absent)?;
    }
    Ok(Swept { looked_at, moved: looked_at, more: looked_at == most })
}

fn rescue(batch: &mut Batch<'_>, mut row: RunRow, absent: Option<(Timestamp, Timestamp)>) -> Result<()> {
    let Some(lease) = row.run.lease() else { return Ok(()) };
    let jitter = batch.dice.jitter();
    let event = what_passed(lease, batch.now, absent, jitter);
    let (_, policy) = batch.rules_of(&row)?;
    let before = row.clone();
    batch.look_at_the_tenant(&mut row, &policy)?;
    let moved = row.ask(&event, &policy, batch.now)?;
    if moved.verdict.is_none() {
        row.run = moved.run;
        return batch.save_life(&row);
    }
    let (attempt, epoch) = (row.run.attempt, row.run.epoch);
    settle_found(batch, &before, row, moved, attempt, epoch).map(|_| ())
}

/// The deadline counts before idleness, idleness before silence: the most exact one names the failure.
fn what_passed(lease: &Lease, now: Timestamp, absent: Option<(Timestamp, Timestamp)>, jitter: f64) -> Event<'static> {
    if lease.deadline_at <= now {
        return Event::DeadlinePassed { jitter };
    }
    if lease.expires_at <= now {
        let unattended = absent.is_some_and(|(since, until)| (since..=until).contains(&lease.expires_at));
        return Event::LeaseRanOut { unattended, jitter };
    }
    Event::IdleTooLong { jitter }
}

/// Keeps a failure that nobody reported.
pub(super) fn settle_found(
    batch: &mut Batch<'_>,
    before: &RunRow,
    row: RunRow,
    moved: Moved,
    attempt: u32,
    epoch: u64,
) -> Result<FailureAnswer> {
    let verdict = moved.verdict.as_ref().ok_or_else(|| Error::Unexpected("a failure without a verdict".into()))?;
    let (_, policy) = batch.rules_of(before)?;
    batch.attempt_ended(before, Some(epoch), Some(&verdict.reason), &policy)?;
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
    settle(batch, before, row, moved, &failed)
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
pub(super) fn reject_unclaimed(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let mut swept = Swept::default();
    let mut at = (0, 0);
    while let Some((queue, tenant)) = batch.next_waiting(at)? {
        at = (queue, tenant);
        let known = batch.queue_by_id(queue)?;
        let patience = batch.policy(&known, tenant)?.unclaimed_after_ms;
        let oldest = batch.now.minus_ms(patience);
        for row in overdue(batch, queue, tenant, oldest, most - swept.moved)? {
            swept.looked_at += 1;
            swept.moved += 1;
            reject(batch, row)?;
        }
        if swept.moved >= most {
            return Ok(Swept { more: true, ..swept });
        }
    }
    Ok(swept)
}

fn overdue(batch: &Batch<'_>, queue: i64, tenant: i64, oldest: Timestamp, most: usize) -> Result<Vec<RunRow>> {
    let mut find = batch.conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM runs WHERE queue = ?1 AND tenant = ?2 AND due <= ?3 ORDER BY due LIMIT ?4"
    ))?;
    let mut found = find.query(params![queue, tenant, oldest.as_millis(), most])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(RunRow::read(row)?);
    }
    Ok(rows)
}

fn reject(batch: &mut Batch<'_>, mut row: RunRow) -> Result<()> {
    let before = row.clone();
    let (_, policy) = batch.rules_of(&row)?;
    row.run = row.ask(&Event::Unclaimed, &policy, batch.now)?.run;
    row.failed_with(&Reason::Unclaimed, Category::Permanent);
    batch.save(&before, &row)?;
    let note = Text::from("Nobody began it in time: is a worker leasing this queue?");
    batch.note_move(&before, &row, "engine", "unclaimed", Some(&note))?;
    if row.run.state.name() == StateName::Dead {
        batch.tally.happened(batch.now, row.tenant, row.queue, HourlyKind::Dead, None);
    }
    Ok(())
}

impl Batch<'_> {
    /// The next (queue, tenant) after `at` that has scheduled runs: one index seek, however many runs lie between.
    pub(super) fn next_waiting(&self, at: (i64, i64)) -> Result<Option<(i64, i64)>> {
        let mut find = self.conn.prepare_cached(
            "SELECT queue, tenant FROM runs INDEXED BY runs_due
             WHERE due IS NOT NULL AND (queue, tenant) > (?1, ?2) ORDER BY queue, tenant LIMIT 1",
        )?;
        Ok(find.query_row([at.0, at.1], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    }
}

/// Forgets changes that nobody asks for any more: the oldest first, so only what goes is looked at.
pub(super) fn trim_changes(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let oldest = batch.now.minus_ms(CHANGES_KEPT_MS).as_millis();
    let mut find = batch.conn.prepare_cached(
        "SELECT max(seq), count(*) FROM (SELECT seq, at FROM changes ORDER BY seq LIMIT ?2) WHERE at < ?1",
    )?;
    let (last, gone): (Option<i64>, usize) =
        find.query_row(params![oldest, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some(last) = last {
        batch.conn.prepare_cached("DELETE FROM changes WHERE seq <= ?1")?.execute([last])?;
    }
    Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
}

/// Writes the smallest thing there is: whether a commit would hold now. It comes and goes in one transaction, so nothing
/// is left of it but a page that had to reach the disk.
pub(super) fn touch(batch: &mut Batch<'_>) -> Result<()> {
    batch.conn.prepare_cached("INSERT OR REPLACE INTO stamps (replica, at) VALUES ('', 0)")?.execute([])?;
    batch.conn.prepare_cached("DELETE FROM stamps WHERE replica = ''")?.execute([])?;
    Ok(())
}
