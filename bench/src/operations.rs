//! Bulk replay: every run of a store, beside raw SQLite writing the same rows in batches of a thousand; and the cost of
//! one item in a small set beside that in a large one.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redrive_core::run::StateName;
use redrive_store::{Bulk, BulkReplay, NewOperation, Over, RunFilter, Store};
use rusqlite::{Connection, params};

use crate::Plan;
use crate::figures::{Figures, per_second};
use crate::made;
use crate::process::memory_mib;
use crate::raw::DATABASE;

pub const SMALL: u64 = 10_000;
pub const RAW_BATCH: u64 = 1_000;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Bulk replay of {} and of {SMALL}", plan.large);
    let folder = tempfile::tempdir_in("target")?;
    let (small, _) = bulk_replay(&folder.path().join("small"), SMALL.min(plan.large)).await?;
    let (large, grown_mib) = bulk_replay(&folder.path().join("large"), plan.large).await?;
    let raw_at = folder.path().join("raw");
    all_dead(&raw_at, plan.large).await?;
    let raw = raw_replay(&raw_at, plan.large)?;
    note(plan, figures, [small, large, raw]);
    figures.at_most("memory that the large set took", grown_mib, "MiB", 32.0);
    Ok(())
}

/// What the small set took, the large one, and the large one raw.
pub fn note(plan: &Plan, figures: &mut Figures, [small, large, raw]: [Duration; 3]) {
    let each = |count: u64, took: Duration| took.as_secs_f64() * 1e6 / count as f64;
    figures.note("bulk replay: ours", per_second(plan.large, large), "/s");
    figures.note("bulk replay: raw", per_second(plan.large, raw), "/s");
    figures.at_least("bulk replay, to raw", raw.as_secs_f64() / large.as_secs_f64(), "x", 0.5);
    figures.note("one item of the small set", each(SMALL.min(plan.large), small), "µs");
    figures.note("one item of the large set", each(plan.large, large), "µs");
    let growth = each(plan.large, large) / each(SMALL.min(plan.large), small);
    figures.at_most("one item of the large set, to one of the small", growth, "x", 1.3);
}

/// A store whose runs are all dead letters with an attempt each.
async fn all_dead(folder: &Path, runs: u64) -> Result<()> {
    made::fill(folder, runs).await?;
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

/// From the call to the last item's turn, the freezing of the set included; and how much memory grew meanwhile.
async fn bulk_replay(folder: &Path, runs: u64) -> Result<(Duration, f64)> {
    all_dead(folder, runs).await?;
    let store = made::open(folder)?;
    let replayed = replay_all(&store, runs).await?;
    store.close().await;
    Ok(replayed)
}

/// Replays all that is dead.
pub async fn replay_all(store: &dyn Store, runs: u64) -> Result<(Duration, f64)> {
    let memory_mib = || memory_mib(std::process::id());
    let before = memory_mib();
    let began = Instant::now();
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
    let mut most = before;
    while store.work_operations("bench").await?.more {
        most = most.max(memory_mib());
    }
    let took = began.elapsed();
    let done = store.operation(&made.id).await?;
    ensure!(done.moved == runs, "{} of {runs} were moved: {:?}", done.moved, done.ineligible);
    Ok((took, most - before))
}

/// The same rows: an item each, then the run, its history and its item, and a row of changes for each batch.
fn raw_replay(folder: &Path, runs: u64) -> Result<Duration> {
    let conn = Connection::open(folder.join(DATABASE))?;
    conn.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 10000;")?;
    let began = Instant::now();
    let batches = |each: &dyn Fn(u64) -> Result<()>| -> Result<()> {
        for first in (1..=runs).step_by(usize::try_from(RAW_BATCH)?) {
            let last = (first + RAW_BATCH - 1).min(runs);
            conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            (first..=last).try_for_each(each)?;
            let moved: Vec<u8> = (first..=last).flat_map(u64::to_le_bytes).collect();
            conn.prepare_cached("INSERT INTO changes (at, runs) VALUES (5, ?1)")?.execute([moved])?;
            conn.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(())
    };
    batches(&|run| {
        let mut insert = conn.prepare_cached(
            "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, revision)
             VALUES (1, ?1, 0, NULL, 2, 1, 1)",
        )?;
        insert.execute([run]).map(drop).context("an item")
    })?;
    let note = redrive_store::encode(b"\"Operation op-1.\"");
    batches(&|run| {
        let mut update = conn.prepare_cached(
            "UPDATE runs SET state = 0, detail = 0, due = 5, wake = NULL, attempt = 1, revision = 1, updated_at = 5,
                 deferred_until = NULL, held_by = NULL, merged_into = NULL, replays = 1, life = ?2 WHERE id = ?1",
        )?;
        update.execute(params![run, r#"{"b":1,"rp":true}"#])?;
        let mut history = conn.prepare_cached(
            "INSERT INTO history (run, at, actor, event, from_state, to_state, note) VALUES (?1, 5, 'bench', 'replay', 2, 0, ?2)",
        )?;
        history.execute(params![run, note])?;
        let mut item =
            conn.prepare_cached("UPDATE operation_items SET outcome = 1 WHERE operation = 1 AND run = ?1")?;
        item.execute([run]).map(drop).context("an item")
    })?;
    Ok(began.elapsed())
}
