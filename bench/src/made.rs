//! A store of generated rows: every state, a hundred tenants, ten queues, made by SQL alone so that ten million take
//! minutes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use redrive_core::policy::Policies;
use redrive_store::sqlite::{Options, SqliteStore};
use redrive_store::{Store, SystemClock, SystemDice};
use rusqlite::Connection;

use crate::raw::DATABASE;

pub fn open(folder: &Path) -> Result<SqliteStore> {
    Ok(SqliteStore::open(Options {
        folder: folder.to_owned(),
        clock: Arc::new(SystemClock),
        dice: Arc::new(SystemDice),
        policies: Policies::default(),
    })?)
}

/// Fills a new store with `runs` rows, the last nine states of ten in turn and every tenth scheduled and due.
pub async fn fill(folder: &Path, runs: u64) -> Result<()> {
    open(folder)?.close().await;
    let conn = Connection::open(folder.join(DATABASE))?;
    conn.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000; PRAGMA foreign_keys = OFF;")?;
    conn.execute_batch(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
         INSERT INTO tenants (id, name, created_at) SELECT i, 'tenant-' || i, 1 FROM n;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)
         INSERT INTO queues (id, name, settings, created_at) SELECT i, 'queue-' || i, '{}', 1 FROM n;",
    )?;
    for first in (0..runs).step_by(1_000_000) {
        conn.execute(FILL, [first + 1, (first + 1_000_000).min(runs)])?;
    }
    conn.execute_batch(
        "INSERT INTO counts (state, tenant, queue, reason, detail, n)
         SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
         PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

const FILL: &str = "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
    INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision, reason, category,
        severity, received_at, updated_at, environment, agent, merged_into, replays, life)
    SELECT i, 1 + (i * 7919) % 100, 1 + i % 10, random(), 'run-' || i, (i / 7) % 9, 0,
        CASE WHEN (i / 7) % 9 = 0 THEN 1000 + i END, CASE WHEN (i / 7) % 9 = 1 THEN 4000000000000 END,
        1, 1, CASE i % 3 WHEN 0 THEN 'timeout' WHEN 1 THEN 'bug' ELSE 'rate_limited' END, i % 3, 1, 1000 + i, 1000 + i,
        'production', 'biller', CASE WHEN (i / 7) % 9 = 8 THEN 'target' END, 0, '{}'
    FROM n";
