//! A store of generated rows: every state, a hundred tenants, ten queues, made by SQL alone so that ten million take
//! minutes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use redrive_core::policy::Policies;
use redrive_store::sqlite::{Options, SqliteStore};
use redrive_store::{Store, SystemClock, SystemDice};
use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};

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
    conn.execute_batch("BEGIN")?;
    let mut insert = conn.prepare(FILL)?;
    for n in 1..=runs {
        let (tenant, run_id) = (1 + (n * 7_919) % 100, format!("run-{n}"));
        insert.execute(params![n, tenant, key_hash(tenant, &run_id), run_id])?;
    }
    drop(insert);
    conn.execute_batch("COMMIT")?;
    conn.execute_batch(
        "INSERT INTO counts (state, tenant, queue, reason, detail, n)
         SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
         INSERT INTO totals (state, queue, reason, detail, n)
         SELECT state, queue, reason, detail, sum(n) FROM counts GROUP BY 1, 2, 3, 4;
         PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

/// As the store computes it.
fn key_hash(tenant: u64, run_id: &str) -> i64 {
    let hash = Sha256::new().chain_update(tenant.to_le_bytes()).chain_update(run_id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}

const FILL: &str = "INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision,
        reason, category, severity, received_at, updated_at, environment, agent, merged_into, replays, life)
    VALUES (?1, ?2, 1 + ?1 % 10, ?3, ?4, (?1 / 7) % 9, 0,
        CASE WHEN (?1 / 7) % 9 = 0 THEN 1000 + ?1 END, CASE WHEN (?1 / 7) % 9 = 1 THEN 4000000000000 END,
        1, 1, CASE ?1 % 3 WHEN 0 THEN 'timeout' WHEN 1 THEN 'bug' ELSE 'rate_limited' END, ?1 % 3, 1, 1000 + ?1,
        1000 + ?1, 'production', 'biller', CASE WHEN (?1 / 7) % 9 = 8 THEN 'target' END, 0, '{\"pb\":0}')";
