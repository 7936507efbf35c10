//! Raw SQLite: the very rows that the server wrote, read back and written again by the shortest program there is,
//! with the same schema, the same settings and so many rows a transaction.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

pub const DATABASE: &str = "redrive.db";
/// A failure is one row in each.
const TABLES: [&str; 3] = ["runs", "attempts", "payloads"];

/// What one failure wrote.
pub struct Rows(Vec<[Vec<Value>; 3]>);

/// Reads the first `count` failures of a store.
pub fn rows_of(store: &Path, count: u64) -> Result<Rows> {
    let conn = Connection::open(store.join(DATABASE))?;
    let mut columns = Vec::new();
    for table in TABLES {
        let mut all = conn.prepare(&format!("SELECT * FROM {table} ORDER BY id LIMIT {count}"))?;
        let width = all.column_count();
        let rows = all.query_map([], |row| (0..width).map(|at| row.get(at)).collect::<Result<Vec<Value>, _>>())?;
        columns.push(rows.collect::<Result<Vec<_>, _>>()?.into_iter());
    }
    let (mut runs, mut attempts, mut payloads) = (columns.remove(0), columns.remove(0), columns.remove(0));
    let mut rows = Vec::new();
    while let (Some(run), Some(attempt), Some(payload)) = (runs.next(), attempts.next(), payloads.next()) {
        rows.push([run, attempt, payload]);
    }
    Ok(Rows(rows))
}

/// An empty store with the schema of another, and its names.
fn like(store: &Path, folder: &Path) -> Result<Connection> {
    let from = Connection::open(store.join(DATABASE))?;
    let conn = Connection::open(folder.join("raw.db"))?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA cache_size = -32768;
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
pub fn write(store: &Path, rows: &Rows, batch: usize, most: usize) -> Result<Duration> {
    let folder = tempfile::tempdir_in(store.parent().unwrap_or(store))?;
    let conn = like(store, folder.path())?;
    let inserts = TABLES.map(|table| {
        let width = conn.prepare(&format!("SELECT * FROM {table}")).map_or(0, |all| all.column_count());
        format!("INSERT INTO {table} VALUES ({})", vec!["?"; width].join(", "))
    });
    let began = Instant::now();
    for chunk in rows.0[..most.min(rows.0.len())].chunks(batch.max(1)) {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for failure in chunk {
            for (insert, row) in inserts.iter().zip(failure) {
                conn.prepare_cached(insert)?.execute(params_from_iter(row))?;
            }
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(began.elapsed())
}
