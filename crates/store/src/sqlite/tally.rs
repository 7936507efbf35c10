//! Counters, folded once per commit: what a batch changes is summed in memory and written as one row per counter.

use std::collections::HashMap;

use redrive_core::money::Spend;
use redrive_core::run::StateName;
use redrive_core::time::{DAY_MS, Timestamp};
use rusqlite::{Connection, params};

use crate::error::Result;
use crate::model::HourlyKind;
use crate::sqlite::life::position;
use crate::sqlite::spend;

/// How far back a pattern's failures are told by the hour.
pub(super) const PATTERN_HOURS_KEPT_MS: u64 = 7 * DAY_MS;

/// What a run is counted under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Standing {
    pub(super) state: StateName,
    pub(super) tenant: i64,
    pub(super) queue: i64,
    pub(super) reason: String,
    pub(super) detail: i64,
    /// The pattern it keeps open, if it is not closed.
    pub(super) pattern: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Count {
    state: i64,
    tenant: i64,
    queue: i64,
    reason: String,
    detail: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Hourly {
    hour: i64,
    tenant: i64,
    queue: i64,
    kind: i64,
    reason: String,
}

#[derive(Debug, Default)]
struct PatternDelta {
    count: i64,
    open: i64,
    last_seen: i64,
    group_seen: i64,
}

/// The sums of one batch.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: HashMap<Count, i64>,
    hourly: HashMap<Hourly, i64>,
    patterns: HashMap<i64, PatternDelta>,
    last_failures: HashMap<i64, i64>,
    moved: Vec<i64>,
    /// What each tenant's retries used.
    pub(super) spend: HashMap<i64, Spend>,
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

    pub(super) fn happened(&mut self, now: Timestamp, tenant: i64, queue: i64, kind: HourlyKind, reason: &str) {
        let hour = now.hour().as_millis();
        let key = Hourly { hour, tenant, queue, kind: position(HourlyKind::ALL, &kind), reason: reason.into() };
        *self.hourly.entry(key).or_default() += 1;
    }

    /// A failed attempt of `pattern`, which is part of `head` or is that itself.
    pub(super) fn failed(&mut self, now: Timestamp, tenant: i64, pattern: i64, head: i64) {
        let delta = self.patterns.entry(pattern).or_default();
        delta.count += 1;
        delta.last_seen = now.as_millis();
        self.patterns.entry(head).or_default().group_seen = now.as_millis();
        self.last_failures.insert(tenant, now.as_millis());
    }

    /// Writes the sums; the batch's last act before its commit.
    pub(super) fn fold(self, conn: &Connection, now: Timestamp) -> Result<()> {
        fold_totals(conn, &self.counts)?;
        fold_counts(conn, self.counts)?;
        fold_hourly(conn, self.hourly)?;
        fold_pattern_hours(conn, &self.patterns, now)?;
        fold_patterns(conn, self.patterns)?;
        let mut seen = conn.prepare_cached("UPDATE tenants SET last_failure_at = ?2 WHERE id = ?1")?;
        for (tenant, at) in self.last_failures {
            seen.execute(params![tenant, at])?;
        }
        spend::fold(conn, self.spend, now)?;
        log_changes(conn, self.moved, now)
    }
}

/// The same sums over all tenants: far fewer rows than the tenants' own.
fn fold_totals(conn: &Connection, counts: &HashMap<Count, i64>) -> Result<()> {
    let mut totals: HashMap<(i64, i64, &str, i64), i64> = HashMap::new();
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

fn fold_counts(conn: &Connection, counts: HashMap<Count, i64>) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "INSERT INTO counts (state, tenant, queue, reason, detail, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
    )?;
    for (at, n) in counts.into_iter().filter(|(_, n)| *n != 0) {
        fold.execute(params![at.state, at.tenant, at.queue, at.reason, at.detail, n])?;
    }
    Ok(())
}

fn fold_hourly(conn: &Connection, hourly: HashMap<Hourly, i64>) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "INSERT INTO hourly (hour, tenant, queue, kind, reason, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
    )?;
    for (at, n) in hourly {
        fold.execute(params![at.hour, at.tenant, at.queue, at.kind, at.reason, n])?;
    }
    Ok(())
}

fn fold_patterns(conn: &Connection, patterns: HashMap<i64, PatternDelta>) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "UPDATE patterns SET count = count + ?2, open = open + ?3, last_seen = max(last_seen, ?4),
             group_seen = max(group_seen, ?5) WHERE id = ?1",
    )?;
    for (pattern, delta) in patterns {
        fold.execute(params![pattern, delta.count, delta.open, delta.last_seen, delta.group_seen])?;
    }
    Ok(())
}

/// One row a pattern and hour. Whoever begins an hour clears away what is older than anybody asks for, so that a
/// pattern never has more rows than are shown.
fn fold_pattern_hours(conn: &Connection, patterns: &HashMap<i64, PatternDelta>, now: Timestamp) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "INSERT INTO pattern_hourly (pattern, hour, n) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET n = n + excluded.n RETURNING n",
    )?;
    let mut forget = conn.prepare_cached("DELETE FROM pattern_hourly WHERE pattern = ?1 AND hour < ?2")?;
    for (pattern, delta) in patterns.iter().filter(|(_, delta)| delta.count > 0) {
        let n: i64 = fold.query_row(params![pattern, now.hour().as_millis(), delta.count], |row| row.get(0))?;
        if n == delta.count {
            forget.execute(params![pattern, now.hour().minus_ms(PATTERN_HOURS_KEPT_MS).as_millis()])?;
        }
    }
    Ok(())
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
