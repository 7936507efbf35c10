//! Raw SQLite, the baseline: rows that the server wrote, read back and written again by the shortest program there is,
//! with the same schema, settings and rows per transaction. Also stores of generated rows, filled by SQL alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use redrive_core::policy::Policies;
use redrive_engine::{Store, SystemClock, SystemDice};
use redrive_store::sqlite::{Options, SqliteStore};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use sha2::{Digest as _, Sha256};

pub const DATABASE: &str = "redrive.db";
/// A failure is one row in each.
const TABLES: [&str; 3] = ["runs", "attempts", "payloads"];

pub const COUNTS: &str = "INSERT INTO counts (state, tenant, queue, reason, detail, n) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET n = n + excluded.n";
pub const TOTALS: &str = "INSERT INTO totals (state, queue, reason, detail, n) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET n = n + excluded.n";
pub const CHANGES: &str = "INSERT INTO changes (at, runs) VALUES (5, ?)";

/// What is written once a transaction, summed over its failures; the last value of each is the sum.
const COUNTERS: [&str; 4] = [
    COUNTS,
    TOTALS,
    "INSERT INTO hours (tenant, queue, reason, hour, started, failed, retried, dead, recovered, succeeded)
     VALUES (?1, ?2, ?3, 0, 0, ?4, ?4, ?4, 0, 0)
     ON CONFLICT DO UPDATE SET started = started + excluded.started, failed = failed + excluded.failed,
         retried = retried + excluded.retried, dead = dead + excluded.dead,
         recovered = recovered + excluded.recovered, succeeded = succeeded + excluded.succeeded",
    "UPDATE patterns SET count = count + ?2, open = open + ?2, hour_count = hour_count + ?2,
         last_seen = max(last_seen, 5) WHERE id = ?1",
];
/// The columns of a run that each counter is kept by.
const KEPT_BY: [&[&str]; 4] = [
    &["state", "tenant", "queue", "reason", "detail"],
    &["state", "queue", "reason", "detail"],
    &["tenant", "queue", "reason"],
    &["pattern"],
];

/// What each failure wrote.
pub struct Rows {
    failures: Vec<[Vec<Value>; 3]>,
    run_columns: Vec<String>,
}

/// How much of it is written again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// All that a commit wrote: its runs' rows, its counters, its row of changes.
    All,
    /// The runs' rows alone.
    Rows,
}

/// Reads the first `count` failures of a store.
pub fn rows_of(store: &Path, count: u64) -> Result<Rows> {
    let conn = Connection::open(store.join(DATABASE))?;
    let mut columns = Vec::new();
    for table in TABLES {
        let mut all = conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2 LIMIT {count}"))?;
        let width = all.column_count();
        let rows = all.query_map([], |row| (0..width).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>())?;
        columns.push(rows.collect::<Result<Vec<_>, _>>()?.into_iter());
    }
    let (mut runs, mut attempts, mut payloads) = (columns.remove(0), columns.remove(0), columns.remove(0));
    let mut rows = Vec::new();
    while let (Some(run), Some(attempt), Some(payload)) = (runs.next(), attempts.next(), payloads.next()) {
        rows.push([run, attempt, payload]);
    }
    let runs = conn.prepare("SELECT * FROM runs")?;
    let run_columns = runs.column_names().map(str::to_owned).collect();
    Ok(Rows { failures: rows, run_columns })
}

impl Rows {
    /// The counters of some failures: which statement, and its values.
    fn counters(&self, failures: &[[Vec<Value>; 3]]) -> Vec<(&'static str, Vec<Value>)> {
        let mut writes = Vec::new();
        for (sql, columns) in COUNTERS.into_iter().zip(KEPT_BY) {
            let at = |name: &&str| self.run_columns.iter().position(|column| column == name).unwrap_or(0);
            let at: Vec<usize> = columns.iter().map(at).collect();
            let mut sums: BTreeMap<String, (Vec<Value>, i64)> = BTreeMap::new();
            for [run, ..] in failures {
                let key: Vec<Value> = at.iter().map(|at| run[*at].clone()).collect();
                sums.entry(format!("{key:?}")).or_insert((key, 0)).1 += 1;
            }
            writes.extend(sums.into_values().map(|(key, sum)| (sql, [key, vec![sum.into()]].concat())));
        }
        writes.push((CHANGES, vec![Value::Blob(vec![7; failures.len() * 8])]));
        writes
    }
}

/// An empty store with the schema of another, and its names.
fn like(store: &Path, folder: &Path) -> Result<Connection> {
    let from = Connection::open(store.join(DATABASE))?;
    let conn = Connection::open(folder.join("raw.db"))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -65536;
         PRAGMA wal_autocheckpoint = 10000; PRAGMA temp_store = MEMORY;",
    )?;
    let mut schema =
        from.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")?;
    for sql in schema.query_map([], |row| row.get::<_, String>(0))? {
        conn.execute_batch(&sql?)?;
    }
    conn.execute("ATTACH ?1 AS theirs", [store.join(DATABASE).to_string_lossy()])?;
    for names in ["tenants", "queues", "patterns"] {
        conn.execute_batch(&format!("INSERT INTO {names} SELECT * FROM theirs.{names}"))?;
    }
    conn.execute_batch("DETACH theirs")?;
    Ok(conn)
}

/// Writes them again, `batch` failures a transaction; gives how long it took.
pub fn write(store: &Path, rows: &Rows, batch: usize, most: usize, what: What) -> Result<Duration> {
    let folder = tempfile::tempdir_in(store.parent().unwrap_or(store))?;
    let conn = like(store, folder.path())?;
    let inserts = TABLES.map(|table| {
        let width = conn.prepare(&format!("SELECT * FROM {table}")).map_or(0, |all| all.column_count());
        format!("INSERT INTO {table} VALUES ({})", vec!["?"; width].join(", "))
    });
    let chunks = rows.failures[..most.min(rows.failures.len())].chunks(batch.max(1));
    let counters = |chunk| if what == What::All { rows.counters(chunk) } else { Vec::new() };
    let chunks: Vec<_> = chunks.map(|chunk| (chunk, counters(chunk))).collect();
    let began = Instant::now();
    for (failures, counters) in &chunks {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for failure in *failures {
            for (insert, row) in inserts.iter().zip(failure) {
                conn.prepare_cached(insert)?.execute(params_from_iter(row))?;
            }
        }
        for (sql, values) in counters {
            conn.prepare_cached(sql)?.execute(params_from_iter(values))?;
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(began.elapsed())
}

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
         INSERT INTO tenants (id, name) SELECT i, 'tenant-' || i FROM n;
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
