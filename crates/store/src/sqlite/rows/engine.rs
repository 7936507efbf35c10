//! Stamps, absences, keys, trims, and the counters that a batch has changed.

use redrive_core::absence::Absence;
use redrive_core::money::{Spend, Usd};
use redrive_core::time::{DAY_MS, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::rows::SqliteRows;
use crate::sqlite::rows::keys;
use crate::sqlite::rows::patterns::{PatternClocks, PatternFailures};
use redrive_engine::Map;
use redrive_engine::counters::{CountKey, CounterDeltas, HourCounts, HourKey, PatternDelta};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{KeyRecord, Swept};
use redrive_engine::ports::rows::EngineRows;

/// How long spending per day is kept.
const DAYS_KEPT_MS: u64 = 31 * DAY_MS;

impl EngineRows for SqliteRows<'_> {
    fn last_seen(&mut self) -> Result<Option<Timestamp>> {
        let mut find = self.conn.prepare_cached(
            "SELECT max(at) FROM (SELECT at FROM stamps
                 UNION ALL SELECT * FROM (SELECT until FROM absences ORDER BY since DESC LIMIT 1))",
        )?;
        let last: Option<i64> = find.query_row([], |row| row.get(0))?;
        Ok(last.map(Timestamp::from_millis))
    }

    fn put_stamp(&mut self, replica: &str, now: Timestamp, forget: Timestamp) -> Result<()> {
        let mut put = self.conn.prepare_cached(
            "INSERT INTO stamps (replica, at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
        )?;
        put.execute(params![replica, now.as_millis()])?;
        let mut old = self.conn.prepare_cached("DELETE FROM stamps WHERE at < ?1 AND replica <> ?2")?;
        old.execute(params![forget.as_millis(), replica])?;
        Ok(())
    }

    fn put_absence(&mut self, absence: Absence, kept: usize) -> Result<()> {
        let mut put = self.conn.prepare_cached(
            "INSERT INTO absences (since, until) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
        )?;
        put.execute([absence.since.as_millis(), absence.until.as_millis()])?;
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM absences WHERE since <= (SELECT since FROM absences ORDER BY since DESC LIMIT 1 OFFSET ?1)",
        )?;
        forget.execute([kept])?;
        Ok(())
    }

    fn absences_since(&mut self, then: Timestamp) -> Result<Vec<Absence>> {
        let mut find =
            self.conn.prepare_cached("SELECT since, until FROM absences WHERE until >= ?1 ORDER BY since DESC")?;
        let rows = find.query_map([then.as_millis()], |row| {
            let at = |column| row.get(column).map(Timestamp::from_millis);
            Ok(Absence { since: at(0)?, until: at(1)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn trim_changes(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let mut find = self.conn.prepare_cached(
            "SELECT max(seq), count(*) FROM (SELECT seq, at FROM changes ORDER BY seq LIMIT ?2) WHERE at < ?1",
        )?;
        let (last, gone): (Option<i64>, usize) =
            find.query_row(params![before.as_millis(), most], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if let Some(last) = last {
            self.conn.prepare_cached("DELETE FROM changes WHERE seq <= ?1")?.execute([last])?;
        }
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }

    fn trim_ledger(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let mut delete = self.conn.prepare_cached(
            "DELETE FROM steps WHERE id IN
                 (SELECT id FROM steps WHERE run IS NULL AND used_at < ?1 ORDER BY used_at LIMIT ?2)",
        )?;
        let gone = delete.execute(params![before.as_millis(), most])?;
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }

    /// Inserted and deleted in one transaction, so that only a page has to reach the disk.
    fn touch(&mut self) -> Result<()> {
        self.conn.prepare_cached("INSERT OR REPLACE INTO stamps (replica, at) VALUES ('', 0)")?.execute([])?;
        self.conn.prepare_cached("DELETE FROM stamps WHERE replica = ''")?.execute([])?;
        Ok(())
    }

    fn has_keys(&mut self) -> Result<bool> {
        Ok(self.conn.prepare_cached("SELECT 1 FROM keys")?.exists([])?)
    }

    fn insert_key(&mut self, key: &KeyRecord) -> Result<()> {
        keys::insert_key(self.conn, key)
    }

    fn revoke_key(&mut self, id: &str, now: Timestamp) -> Result<bool> {
        keys::revoke_key(self.conn, id, now)
    }

    fn spent_on(&mut self, tenant: i64, day: Timestamp) -> Result<Spend> {
        let mut find =
            self.conn.prepare_cached("SELECT tokens, cost_micros FROM retry_spend WHERE tenant = ?1 AND day = ?2")?;
        let kept = find
            .query_row([tenant, day.as_millis()], |row| {
                Ok(Spend { tokens: row.get(0)?, cost: Usd::from_micros(row.get(1)?) })
            })
            .optional()?;
        Ok(kept.unwrap_or_default())
    }

    fn fold(&mut self, tally: CounterDeltas, now: Timestamp) -> Result<()> {
        fold_totals(self.conn, &tally.counts)?;
        fold_counts(self.conn, tally.counts)?;
        fold_hours(self.conn, tally.hours)?;
        for (pattern, delta) in &tally.patterns {
            fold_pattern(self.conn, *pattern, delta, now, &mut self.memory.pattern_clocks)?;
        }
        fold_spend(self.conn, tally.spend, now)?;
        self.move_names()?;
        log_changes(self.conn, tally.moved, now)
    }
}

/// The same sums over all tenants, in far fewer rows.
fn fold_totals(conn: &Connection, counts: &Map<CountKey, i64>) -> Result<()> {
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

fn fold_counts(conn: &Connection, counts: Map<CountKey, i64>) -> Result<()> {
    let mut fold = conn.prepare_cached(
        "INSERT INTO counts (state, tenant, queue, reason, detail, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET n = n + excluded.n",
    )?;
    for (at, n) in counts.into_iter().filter(|(_, n)| *n != 0) {
        fold.execute(params![at.state, at.tenant, at.queue, at.reason, at.detail, n])?;
    }
    Ok(())
}

fn fold_hours(conn: &Connection, hours: Map<HourKey, HourCounts>) -> Result<()> {
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
        clocks.failed(conn, pattern, PatternFailures { now, count: delta.count, open: delta.open })?;
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

fn fold_spend(conn: &Connection, spend: Map<i64, Spend>, now: Timestamp) -> Result<()> {
    if spend.is_empty() {
        return Ok(());
    }
    // Capped below the column's maximum, which is past every budget.
    let mut fold = conn.prepare_cached(
        "INSERT INTO retry_spend (tenant, day, tokens, cost_micros) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET tokens = min(tokens + excluded.tokens, 4611686018427387903),
             cost_micros = min(cost_micros + excluded.cost_micros, 4611686018427387903)",
    )?;
    let mut forget = conn.prepare_cached("DELETE FROM retry_spend WHERE tenant = ?1 AND day < ?2")?;
    for (tenant, Spend { tokens, cost }) in spend {
        let most = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).min(i64::MAX / 2);
        fold.execute(params![tenant, now.day().as_millis(), most(tokens), most(cost.micros())])?;
        forget.execute(params![tenant, now.day().minus_ms(DAYS_KEPT_MS).as_millis()])?;
    }
    Ok(())
}
