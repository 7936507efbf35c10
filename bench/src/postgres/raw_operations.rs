//! The same replay raw: an item each, then the run, its history and its item, a thousand a transaction, each with its
//! counters and its row of changes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use super::raw_rows::{Bound, commit};
use crate::operations::RAW_BATCH;

const ITEMS: &str = "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, revision)
     SELECT 1, id, 0, NULL, 2, 1, 1 FROM unnest($1::bigint[]) AS new(id)";
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
    let note = redrive_store::encode(b"\"Operation op-1.\"");
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
