//! SQLite as one end of a copy.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};

use super::progress::{self, Reached, another_source};
use super::tables::{NUMBERED, Table};
use super::value::{Cells, Column, Kind, Value};
use redrive_engine::error::{BoxError, Error, PortResult as Result};

/// The columns of a table, in its order.
pub(super) fn columns(conn: &Connection, table: &str) -> Result<Vec<Column>> {
    let mut find = conn.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let found = find.query_and_then([table], |row| {
        let kind = match row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)? {
            "INTEGER" => Kind::Number,
            "TEXT" => Kind::Text,
            "BLOB" => Kind::Bytes,
            other => return Err(BoxError::from(Error::Unexpected(format!("a column of {table} is {other}")))),
        };
        Ok(Column { name: row.get(0)?, kind })
    })?;
    found.collect()
}

pub(super) fn count(conn: &Connection, table: &str) -> Result<u64> {
    let n: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    Ok(u64::try_from(n).unwrap_or(0))
}

/// The next rows after a key, in its order.
pub(super) fn read(
    conn: &Connection,
    table: &Table,
    columns: &[Column],
    after: Option<&Cells>,
    most: usize,
) -> Result<Vec<Cells>> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let key = table.key.join(", ");
    let condition = match after {
        Some(_) => format!("WHERE ({key}) > ({})", vec!["?"; table.key.len()].join(", ")),
        None => String::new(),
    };
    let sql = format!("SELECT {} FROM {} {condition} ORDER BY {key} LIMIT {most}", names.join(", "), table.name);
    let mut read = conn.prepare_cached(&sql)?;
    let key_of = |name: &&str| columns.iter().find(|column| column.name == **name).map(|column| column.kind);
    let kinds: Vec<Kind> = table.key.iter().filter_map(key_of).collect();
    let after = after.into_iter().flatten().zip(kinds).map(|(value, kind)| bound(value, kind));
    let after = after.collect::<Result<Vec<_>>>()?;
    let mut rows = read.query(params_from_iter(after))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = (0..columns.len()).map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(n) => Value::Number(n),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
                ValueRef::Real(_) => {
                    return Err(BoxError::from(Error::Unexpected(format!("a fraction in {}", table.name))));
                }
            })
        });
        found.push(cells.collect::<Result<Cells>>()?);
    }
    Ok(found)
}

pub(super) fn write(tx: &Transaction<'_>, table: &Table, columns: &[Column], rows: &[Cells]) -> Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert =
        tx.prepare_cached(&format!("INSERT INTO {} ({}) VALUES ({marks})", table.name, names.join(", ")))?;
    for row in rows {
        let values = row.iter().zip(columns).map(|(value, column)| bound(value, column.kind));
        insert.execute(params_from_iter(values.collect::<Result<Vec<_>>>()?))?;
    }
    Ok(())
}

fn bound(value: &Value, kind: Kind) -> Result<rusqlite::types::Value> {
    use rusqlite::types::Value as Bound;
    Ok(match (value, kind) {
        (Value::Null, _) => Bound::Null,
        (Value::Number(n), _) => Bound::Integer(*n),
        (Value::Bytes(bytes), Kind::Text) => {
            Bound::Text(String::from_utf8(bytes.clone()).map_err(|_| Error::Unexpected("text that is none".into()))?)
        }
        (Value::Bytes(bytes), Kind::Bytes | Kind::Number) => Bound::Blob(bytes.clone()),
    })
}

/// How far a copy into this store is. `key` is the last key as JSON.
const PROGRESS: &str = "CREATE TABLE IF NOT EXISTS copying (
     name TEXT PRIMARY KEY, source TEXT NOT NULL, key TEXT, rows INTEGER NOT NULL) WITHOUT ROWID";

pub(super) fn is_half_copied(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'copying'";
    Ok(conn.query_row(sql, [], |_| Ok(())).optional()?.is_some())
}

/// Where each table stands; empty before the first piece. Another source's progress is refused.
pub(super) fn reached(conn: &Connection, source: &str) -> Result<HashMap<String, Reached>> {
    conn.execute_batch(PROGRESS)?;
    let mut find = conn.prepare("SELECT name, source, key, rows FROM copying")?;
    let found = find.query_and_then([], |row| {
        if row.get::<_, String>(1)? != source {
            return Err(BoxError::from(another_source()));
        }
        let key = row.get::<_, Option<String>>(2)?.map(|key| progress::read(&key)).transpose()?;
        let rows: i64 = row.get(3)?;
        Ok((row.get(0)?, Reached { key, rows: u64::try_from(rows).unwrap_or(0) }))
    })?;
    found.collect()
}

pub(super) fn note(tx: &Transaction<'_>, source: &str, table: &str, reached: &Reached) -> Result<()> {
    let mut put = tx.prepare_cached(
        "INSERT INTO copying (name, source, key, rows) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET key = excluded.key, rows = excluded.rows",
    )?;
    let rows = i64::try_from(reached.rows).unwrap_or(i64::MAX);
    put.execute(params![table, source, reached.key.as_ref().map(progress::written), rows])?;
    Ok(())
}

/// The last number that each table has given out.
pub(super) fn last_numbers(conn: &Connection) -> Result<Vec<(&'static str, i64)>> {
    let mut all = Vec::new();
    for table in NUMBERED.iter().copied() {
        let kept = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
        let kept: Option<i64> = conn.query_row(kept, [table], |row| row.get(0)).optional()?;
        let highest = format!("SELECT coalesce(max(id), 0) FROM {table}");
        let highest: i64 = conn.query_row(&highest, [], |row| row.get(0))?;
        all.push((table, kept.unwrap_or(0).max(highest)));
    }
    Ok(all)
}

/// Of the log of changes, also after its rows were trimmed.
pub(super) fn last_change(conn: &Connection) -> Result<i64> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'";
    Ok(conn.query_row(sql, [], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Gives the numbers on and ends the copy; what points nowhere is found before.
pub(super) fn finish(conn: &mut Connection, numbers: &[(&'static str, i64)], last_change: i64) -> Result<()> {
    let tx = conn.transaction()?;
    let dangling: Option<String> =
        tx.query_row("SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1", [], |row| row.get(0)).optional()?;
    if let Some(table) = dangling {
        return Err(Error::Unexpected(format!("a row of {table} points at one that is not there")).into());
    }
    // Only tables made with AUTOINCREMENT have a row here; the others number from their highest.
    for (table, last) in numbers.iter().copied().chain([("changes", last_change)]) {
        if !["runs", "operations", "changes"].contains(&table) {
            continue;
        }
        let known =
            tx.execute("UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1", params![table, last])?;
        if known == 0 {
            tx.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", params![table, last])?;
        }
    }
    tx.execute_batch("DROP TABLE copying")?;
    tx.commit()?;
    Ok(())
}
