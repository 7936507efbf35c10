//! Bulk replay of every run, in the store and by raw SQL; and the cost per item of a small set beside a large one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use redrive_engine::Store as _;
use tokio_postgres::Client;

use super::raw::{Bound, commit};
use super::server::{Dataset, Postgres, connect, copy, open};
use crate::Plan;
use crate::figures::Figures;
use crate::operations::{Memory, RAW_BATCH, SMALL, note, replay_all};

pub async fn measure(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    println!("Bulk replay of {} and of {SMALL} on PostgreSQL", plan.large);
    let (small, _) = replay(postgres, SMALL.min(plan.large)).await?;
    let (mut pairs, mut grown) = (Vec::new(), None);
    for _ in 0..plan.pairs {
        let (large, memory) = replay(postgres, plan.large).await?;
        let raw_at = copy(postgres, Dataset::Dead, plan.large).await?;
        pairs.push([large, raw_replay(&connect(raw_at.url()).await?, plan.large).await?]);
        // What the first took the others find.
        grown.get_or_insert(memory);
    }
    note(plan, figures, small, &pairs);
    grown.iter().for_each(|memory| memory.note(figures));
    Ok(())
}

/// Every run of a store that has so many.
async fn replay(postgres: &Postgres, runs: u64) -> Result<(Duration, Memory)> {
    let database = copy(postgres, Dataset::Dead, runs).await?;
    let store = open(&database).await?;
    let began = Instant::now();
    let memory = replay_all(&*store, runs).await?;
    let took = began.elapsed();
    store.close().await;
    Ok((took, memory))
}

const ITEMS: &str = "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, decisions)
     SELECT 1, id, 0, NULL, 2, 1, 0 FROM unnest($1::bigint[]) AS new(id)";
const REPLAY: &str = "UPDATE runs SET state = 0, detail = 0, due = 5, wake = NULL, attempt = 1, revision = 1,
         updated_at = 5, deferred_until = NULL, held_by = NULL, merged_into = NULL, replays = 1, life = $2
     FROM unnest($1::bigint[]) AS new(id) WHERE runs.id = new.id";
const HISTORY: &str = "INSERT INTO history (run, at, from_state, to_state, actor, event, note)
     SELECT id, 5, 2, 0, 'bench', 'replay', $2 FROM unnest($1::bigint[]) AS new(id)";
const MOVED: &str = "UPDATE operation_items AS item SET outcome = 1 FROM unnest($1::bigint[]) AS new(id)
     WHERE item.operation = 1 AND item.run = new.id";
/// From dead to scheduled.
const COUNTERS: &str = "INSERT INTO counter_deltas (state, tenant, queue, detail, n, reason)
     SELECT state, tenant, queue, detail, way * n, reason
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS counted(tenant, queue, n, reason),
         (VALUES (2, 1, -1), (0, 0, 1)) AS from_to(state, detail, way)";
const CHANGES: &str = "INSERT INTO change_deltas (at, runs) VALUES (5, $1)";
const LIFE: &[u8] = br#"{"b":1,"rp":true,"pb":327}"#;

pub async fn raw_replay(client: &Client, runs: u64) -> Result<Duration> {
    let (items, replay) = (client.prepare(ITEMS).await?, client.prepare(REPLAY).await?);
    let (history, moved) = (client.prepare(HISTORY).await?, client.prepare(MOVED).await?);
    let (counters, changes) = (client.prepare(COUNTERS).await?, client.prepare(CHANGES).await?);
    let batches: Vec<Vec<i64>> = (1..=i64::try_from(runs)?)
        .collect::<Vec<_>>()
        .chunks(usize::try_from(RAW_BATCH)?)
        .map(<[i64]>::to_vec)
        .collect();
    let counted = counted(client, &batches).await?;
    let began = Instant::now();
    for ids in &batches {
        ensure!(client.execute(&items, &[ids]).await? == ids.len() as u64, "an item is not there");
    }
    let note = redrive_engine::encode(b"\"Operation op-1.\"");
    for (ids, [tenants, queues, n], reasons) in batches.iter().zip(&counted).map(|(ids, (of, why))| (ids, of, why)) {
        let log: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let statements: [Bound<'_>; 5] = [
            (&replay, &[ids, &LIFE]),
            (&history, &[ids, &note]),
            (&moved, &[ids]),
            (&counters, &[tenants, queues, n, reasons]),
            (&changes, &[&log]),
        ];
        let touched = commit(client, &statements).await?;
        ensure!(touched[..3] == [ids.len() as u64; 3], "a run or an item is not there");
    }
    Ok(began.elapsed())
}

/// Tenant, queue and how many, and with them the reasons.
type Counted = ([Vec<i64>; 3], Vec<String>);

/// How many runs of each batch are counted where.
async fn counted(client: &Client, batches: &[Vec<i64>]) -> Result<Vec<Counted>> {
    let sql = "SELECT tenant, queue, count(*), reason FROM runs WHERE id = ANY($1) GROUP BY tenant, queue, reason";
    let count = client.prepare(sql).await?;
    let mut counted = Vec::new();
    for ids in batches {
        let rows = client.query(&count, &[ids]).await?;
        let numbers = [0, 1, 2].map(|at| rows.iter().map(|row| row.get(at)).collect());
        counted.push((numbers, rows.iter().map(|row| row.get(3)).collect()));
    }
    Ok(counted)
}
