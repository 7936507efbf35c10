//! The same replay raw: an item each, then the run, its history and its item, a thousand a transaction, and a row of changes
//! for each.

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
const CHANGES: &str = "INSERT INTO change_deltas (at, runs) VALUES (5, $1)";
const LIFE: &[u8] = br#"{"b":1,"rp":true}"#;

pub async fn raw_replay(client: &Client, runs: u64) -> Result<Duration> {
    let (items, replay) = (client.prepare(ITEMS).await?, client.prepare(REPLAY).await?);
    let (history, moved) = (client.prepare(HISTORY).await?, client.prepare(MOVED).await?);
    let changes = client.prepare(CHANGES).await?;
    let batches: Vec<Vec<i64>> = (1..=i64::try_from(runs)?)
        .collect::<Vec<_>>()
        .chunks(usize::try_from(RAW_BATCH)?)
        .map(<[i64]>::to_vec)
        .collect();
    let began = Instant::now();
    for ids in &batches {
        ensure!(client.execute(&items, &[ids]).await? == ids.len() as u64, "an item is not there");
    }
    let note = redrive_store::encode(b"\"Operation op-1.\"");
    for ids in &batches {
        let log: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let statements: [Bound<'_>; 4] =
            [(&replay, &[ids, &LIFE]), (&history, &[ids, &note]), (&moved, &[ids]), (&changes, &[&log])];
        let touched = commit(client, &statements).await?;
        ensure!(touched[..3] == [ids.len() as u64; 3], "a run or an item is not there");
    }
    Ok(began.elapsed())
}
