//! Counters, folded once per commit: what a batch changes is summed in memory and written as one row per counter.

use std::sync::Arc;

use redrive_core::money::Spend;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use rusqlite::{Connection, params};

use crate::error::Result;
use crate::model::HourlyKind;
use crate::sqlite::life::position;
use crate::sqlite::map::Map;
use crate::sqlite::pattern_clock::{PatternClocks, Seen};
use crate::sqlite::spend;

/// What a run is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Standing {
    pub(super) state: StateName,
    pub(super) tenant: i64,
    pub(super) queue: i64,
    pub(super) reason: Arc<str>,
    pub(super) detail: i64,
    /// The pattern it keeps open, if it is not closed.
    pub(super) pattern: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Count {
    state: i64,
    tenant: i64,
    queue: i64,
    reason: Arc<str>,
    detail: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hour {
    hour: i64,
    tenant: i64,
    queue: i64,
    reason: Option<Arc<str>>,
}

type Kinds = [i64; HourlyKind::ALL.len()];

#[derive(Debug, Default)]
struct PatternDelta {
    count: i64,
    open: i64,
    /// One of its group failed.
    group_seen: bool,
}

/// The sums of one batch.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Map<Count, i64>,
    hours: Map<Hour, Kinds>,
    patterns: Map<i64, PatternDelta>,
    moved: Vec<i64>,
    /// What each tenant's retries used.
    pub(super) spend: Map<i64, Spend>,
}

impl Tally {
    /// A run changed what it counts under; `None` before it was there.
    pub(super) fn moved(&mut self, run: i64, from: Option<&Standing>, to: &Standing) {
        self.moved.push(run);
        if from == Some(to) {
            return;
        }
        if let Some(from) = from {
            self.count(from, -1);
        }
        self.count(to, 1);
    }

    /// By how many the batch has changed what a tenant has under way.
    pub(super) fn running(&self, tenant: i64) -> i64 {
        let running = position(StateName::ALL, &StateName::Running);
        self.counts.iter().filter(|(at, _)| at.tenant == tenant && at.state == running).map(|(_, n)| n).sum()
    }

    fn count(&mut self, at: &Standing, by: i64) {
        let key = Count {
            state: position(StateName::ALL, &at.state),
            tenant: at.tenant,
            queue: at.queue,
            reason: at.reason.clone(),
            detail: at.detail,
        };
        *self.counts.entry(key).or_default() += by;
        if let Some(pattern) = at.pattern.filter(|_| !at.state.is_closed()) {
            self.patterns.entry(pattern).or_default().open += by;
        }
    }

    /// Something happened to a run whose last failure, if that is what it is about, had the reason.
    pub(super) fn happened(
        &mut self,
        now: Timestamp,
        tenant: i64,
        queue: i64,
        kind: HourlyKind,
        reason: Option<&Arc<str>>,
    ) {
        let key = Hour { hour: now.hour().as_millis(), tenant, queue, reason: reason.cloned() };
        let kinds = self.hours.entry(key).or_default();
        if let Some(n) = usize::try_from(position(HourlyKind::ALL, &kind)).ok().and_then(|at| kinds.get_mut(at)) {
            *n += 1;
        }
    }

    /// A failed attempt of `pattern`, which is part of `head` or is that itself.
    pub(super) fn failed(&mut self, pattern: i64, head: i64) {
        self.patterns.entry(pattern).or_default().count += 1;
        self.patterns.entry(head).or_default().group_seen = true;
    }

    /// Writes the sums; the batch's last act before its commit.
    pub(super) fn fold(self, conn: &Connection, now: Timestamp, clocks: &mut PatternClocks) -> Result<()> {
        fold_totals(conn, &self.counts)?;
        fold_counts(conn, self.counts)?;
        fold_hours(conn, self.hours)?;
        for (pattern, delta) in &self.patterns {
            fold_pattern(conn, *pattern, delta, now, clocks)?;
        }
        spend::fold(conn, self.spend, now)?;
        log_changes(conn, self.moved, now)
    }
}

/// The same sums over all tenants: far fewer rows than the tenants' own.
fn fold_totals(conn: &Connection, counts: &Map<Count, i64>) -> Result<()> {
    let mut totals: Map<(i64, i64, &str, i64), i64> = Map::default();
    for (at, n) in counts {
        *totals.entry((at.state, at.queue, &at.reason, at.detail)).or_default() += n;
    }
    let mut fold = conn.prepare_cached(
        "INSERT INTO totals (state, queue, reason, detail, n) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
    )?;
    for ((state, queue, reason, detail), n) in totals.into_iter().filter(|(_, n)| *n != 0) {
        fold.execute(params![state, queue, reason, detail, n])?;
    }
    Ok(())
}

fn fold_counts(conn: &Connection, counts: Map<Count, i64>) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "INSERT INTO counts (state, tenant, queue, reason, detail, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
    )?;
    for (at, n) in counts.into_iter().filter(|(_, n)| *n != 0) {
        fold.execute(params![at.state, at.tenant, at.queue, at.reason, at.detail, n])?;
    }
    Ok(())
}

fn fold_hours(conn: &Connection, hours: Map<Hour, Kinds>) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "INSERT INTO hours (hour, tenant, queue, reason, started, failed, retried, dead, recovered, succeeded)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT DO UPDATE SET started = started + excluded.started, failed = failed + excluded.failed,
             retried = retried + excluded.retried, dead = dead + excluded.dead,
             recovered = recovered + excluded.recovered, succeeded = succeeded + excluded.succeeded",
    )?;
    for (at, [started, failed, retried, dead, recovered, succeeded]) in hours {
        let reason = at.reason.as_deref().unwrap_or_default();
        fold.execute(params![
            at.hour, at.tenant, at.queue, reason, started, failed, retried, dead, recovered, succeeded
        ])?;
    }
    Ok(())
}

fn fold_pattern(
    conn: &Connection,
    pattern: i64,
    delta: &PatternDelta,
    now: Timestamp,
    clocks: &mut PatternClocks,
) -> Result<()> {
    if delta.count > 0 {
        clocks.failed(conn, pattern, Seen { now, count: delta.count, open: delta.open })?;
    } else if delta.open != 0 {
        let mut fold = conn.prepare_cached("UPDATE patterns SET open = open + ?2 WHERE id = ?1")?;
        fold.execute([pattern, delta.open])?;
    }
    if delta.group_seen { clocks.group_seen(conn, pattern, now) } else { Ok(()) }
}

fn log_changes(conn: &Connection, mut moved: Vec<i64>, now: Timestamp) -> Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    moved.sort_unstable();
    moved.dedup();
    let bytes: Vec<u8> = moved.iter().flat_map(|run| run.to_le_bytes()).collect();
    conn.prepare_cached("INSERT INTO changes (at, runs) VALUES (?1, ?2)")?.execute(params![now.as_millis(), bytes])?;
    Ok(())
}
