//! Bulk replay: every run of a store, beside raw SQLite writing the same rows in batches of a thousand; and the cost of
//! one item in a small set beside that in a large one. Each is measured until all of it is in the database's own file: what a
//! small set leaves in the write-ahead log would otherwise cost nobody anything.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redrive_core::run::StateName;
use redrive_engine::{Bulk, BulkReplay, NewOperation, Over, RunFilter, Store};
use rusqlite::{Connection, params};

use crate::figures::{Figures, median, median_ratio, per_second};
use crate::process::memory_mib;
use crate::raw::DATABASE;
use crate::{Plan, raw};

pub const SMALL: u64 = 10_000;
pub const RAW_BATCH: u64 = 1_000;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Bulk replay of {} and of {SMALL}", plan.large);
    let folder = tempfile::tempdir_in("target")?;
    let (small, _) = bulk_replay(&folder.path().join("small"), SMALL.min(plan.large)).await?;
    let (large, memory) = bulk_replay(&folder.path().join("large"), plan.large).await?;
    let raw_at = folder.path().join("raw");
    all_dead(&raw_at, plan.large).await?;
    let raw = raw_replay(&raw_at, plan.large)?;
    note(plan, figures, small, &[[large, raw]]);
    memory.note(figures);
    Ok(())
}

/// What the small set took, and in pairs the large one and the large one raw.
pub fn note(plan: &Plan, figures: &mut Figures, small: Duration, pairs: &[[Duration; 2]]) {
    let each = |count: u64, took: Duration| took.as_secs_f64() * 1e6 / count as f64;
    let [ours, raws] = [0, 1].map(|at| pairs.iter().map(|pair| per_second(plan.large, pair[at])).collect::<Vec<_>>());
    let to_raw = median_ratio(&ours, &raws);
    figures.note("bulk replay: ours", median(ours), "/s");
    figures.note("bulk replay: raw", median(raws), "/s");
    figures.at_least("bulk replay, to raw", to_raw, "x", 0.5);
    figures.note("one item of the small set", each(SMALL.min(plan.large), small), "µs");
    let large = median(pairs.iter().map(|[large, _]| each(plan.large, *large)).collect());
    figures.note("one item of the large set", large, "µs");
    let growth = large / each(SMALL.min(plan.large), small);
    figures.at_most("one item of the large set, to one of the small", growth, "x", 1.3);
}

/// A store whose runs are all dead letters with an attempt each.
async fn all_dead(folder: &Path, runs: u64) -> Result<()> {
    raw::fill(folder, runs).await?;
    let conn = Connection::open(folder.join(DATABASE))?;
    conn.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -500000;
         UPDATE runs SET state = 2, detail = 1, due = NULL, wake = NULL, merged_into = NULL;
         DELETE FROM counts; DELETE FROM totals;
         INSERT INTO counts (state, tenant, queue, reason, detail, n)
         SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
         INSERT INTO totals (state, queue, reason, detail, n)
         SELECT state, queue, reason, detail, sum(n) FROM counts GROUP BY 1, 2, 3, 4;
         PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

/// How much it grew.
pub struct Memory {
    all_mib: f64,
    later_mib: f64,
}

impl Memory {
    pub fn note(&self, figures: &mut Figures) {
        figures.note("memory that the large set took, caches and all", self.all_mib, "MiB");
        figures.at_most("memory that its last four fifths took", self.later_mib, "MiB", 8.0);
    }

    fn of(seen: &[f64]) -> Self {
        let most = |part: &[f64]| part.iter().copied().fold(f64::NAN, f64::max);
        let (first, _) = seen.split_at(seen.len().div_ceil(5));
        Self { all_mib: most(seen) - seen.first().copied().unwrap_or(f64::NAN), later_mib: most(seen) - most(first) }
    }
}

/// From the call to the last item's turn, the freezing of the set included.
async fn bulk_replay(folder: &Path, runs: u64) -> Result<(Duration, Memory)> {
    all_dead(folder, runs).await?;
    let store = raw::open(folder)?;
    let began = Instant::now();
    let memory = replay_all(&store, runs).await?;
    store.close().await;
    Ok((began.elapsed(), memory))
}

/// Replays all that is dead.
pub async fn replay_all(store: &dyn Store, runs: u64) -> Result<Memory> {
    let memory_mib = || memory_mib(std::process::id());
    let mut memory = vec![memory_mib()];
    let new = NewOperation {
        over: Over::Filter(Box::new(RunFilter { states: vec![StateName::Dead], ..RunFilter::default() })),
        bulk: Bulk::Replay(Box::new(BulkReplay { payload_max_bytes: 1 << 20, ..BulkReplay::default() })),
        reason: None,
        rate_per_s: None,
        canary: None,
        settle_ms: 0,
        dry_run: false,
        filter: serde_json::value::to_raw_value(&())?,
    };
    let made = store.create_operation(new, "bench".into()).await?;
    while store.work_operations("bench").await?.more {
        memory.push(memory_mib());
    }
    let done = store.operation(&made.id).await?;
    ensure!(done.moved == runs, "{} of {runs} were moved: {:?}", done.moved, done.ineligible);
    Ok(Memory::of(&memory))
}

/// What one transaction of raw SQLite writes.
struct Batch {
    runs: RangeInclusive<u64>,
    /// Tenant, queue, reason, and how many of its runs are counted there.
    counters: Vec<(i64, i64, String, i64)>,
}

fn raw_batches(conn: &Connection, runs: u64) -> Result<Vec<Batch>> {
    let mut count = conn.prepare(
        "SELECT tenant, queue, reason, count(*) FROM runs WHERE id BETWEEN ?1 AND ?2 GROUP BY tenant, queue, reason",
    )?;
    let mut batches = Vec::new();
    for first in (1..=runs).step_by(usize::try_from(RAW_BATCH)?) {
        let last = (first + RAW_BATCH - 1).min(runs);
        let rows = count.query_map([first, last], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        batches.push(Batch { runs: first..=last, counters: rows.collect::<Result<_, _>>()? });
    }
    Ok(batches)
}

/// The same rows: an item each, then the run, its history and its item, and for each batch its counters and a row of changes.
fn raw_replay(folder: &Path, runs: u64) -> Result<Duration> {
    let conn = Connection::open(folder.join(DATABASE))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 10000;")?;
    let batches = raw_batches(&conn, runs)?;
    let began = Instant::now();
    for batch in &batches {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        batch.runs.clone().try_for_each(|run| raw_item(&conn, run))?;
        conn.prepare_cached("COMMIT")?.execute([])?;
    }
    let note = redrive_engine::encode(b"\"Operation op-1.\"");
    for batch in &batches {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        batch.runs.clone().try_for_each(|run| raw_move(&conn, run, &note))?;
        raw_counters(&conn, batch)?;
        conn.prepare_cached("COMMIT")?.execute([])?;
    }
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(began.elapsed())
}

fn raw_item(conn: &Connection, run: u64) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, decisions)
         VALUES (1, ?1, 0, NULL, 2, 1, 0)",
    )?;
    insert.execute([run]).map(drop).context("an item")
}

fn raw_move(conn: &Connection, run: u64, note: &[u8]) -> Result<()> {
    let mut update = conn.prepare_cached(
        "UPDATE runs SET state = 0, detail = 0, due = 5, wake = NULL, attempt = 1, revision = 1, updated_at = 5,
             deferred_until = NULL, held_by = NULL, merged_into = NULL, replays = 1, life = ?2 WHERE id = ?1",
    )?;
    update.execute(params![run, r#"{"b":1,"rp":true,"pb":0}"#])?;
    let mut history = conn.prepare_cached(
        "INSERT INTO history (run, at, actor, event, from_state, to_state, note)
         VALUES (?1, 5, 'bench', 'replay', 2, 0, ?2)",
    )?;
    history.execute(params![run, note])?;
    let mut item = conn.prepare_cached("UPDATE operation_items SET outcome = 1 WHERE operation = 1 AND run = ?1")?;
    item.execute([run]).map(drop).context("an item")
}

/// From dead to scheduled.
fn raw_counters(conn: &Connection, batch: &Batch) -> Result<()> {
    let mut totals: BTreeMap<(i64, &str), i64> = BTreeMap::new();
    for (tenant, queue, reason, n) in &batch.counters {
        *totals.entry((*queue, reason)).or_default() += n;
        for (state, detail, n) in [(2, 1, -n), (0, 0, *n)] {
            let mut fold = conn.prepare_cached(
                "INSERT INTO counts (state, tenant, queue, reason, detail, n) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO UPDATE SET n = n + excluded.n",
            )?;
            fold.execute(params![state, tenant, queue, reason, detail, n])?;
        }
    }
    for ((queue, reason), n) in totals {
        for (state, detail, n) in [(2, 1, -n), (0, 0, n)] {
            let mut fold = conn.prepare_cached(
                "INSERT INTO totals (state, queue, reason, detail, n) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET n = n + excluded.n",
            )?;
            fold.execute(params![state, queue, reason, detail, n])?;
        }
    }
    let moved: Vec<u8> = batch.runs.clone().flat_map(u64::to_le_bytes).collect();
    conn.prepare_cached("INSERT INTO changes (at, runs) VALUES (5, ?1)")?.execute([moved])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ours_and_raw_replay_fit_the_schema() {
        let folder = tempfile::tempdir().unwrap();
        bulk_replay(&folder.path().join("ours"), 20).await.unwrap();
        let raw_at = folder.path().join("raw");
        all_dead(&raw_at, 20).await.unwrap();
        raw_replay(&raw_at, 20).unwrap();
        let conn = Connection::open(raw_at.join(DATABASE)).unwrap();
        let moved: i64 =
            conn.query_row("SELECT count(*) FROM operation_items WHERE outcome = 1", [], |row| row.get(0)).unwrap();
        assert_eq!(moved, 20);
    }
}
