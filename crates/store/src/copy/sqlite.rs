//! SQLite as the source or target of a copy.

use std::collections::HashMap;

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};

use super::cell::{Cell, Cells, ColumnType, TableColumn, key_types, names};
use super::progress::{TableProgress, another_source, decode_key, encode_key};
use super::tables::{CopiedTable, NUMBERED};
use redrive_engine::error::{BoxError, Error, PortResult as Result};

pub(super) fn columns(conn: &Connection, table: &str) -> Result<Vec<TableColumn>> {
    let mut find = conn.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let found = find.query_and_then([table], |row| {
        let column_type = match row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)? {
            "INTEGER" => ColumnType::Number,
            "TEXT" => ColumnType::Text,
            "BLOB" => ColumnType::Bytes,
            other => return Err(BoxError::from(Error::Unexpected(format!("a column of {table} is {other}")))),
        };
        Ok(TableColumn { name: row.get(0)?, column_type })
    })?;
    found.collect()
}

pub(super) fn count(conn: &Connection, table: &str) -> Result<u64> {
    let n: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    Ok(u64::try_from(n).unwrap_or(0))
}

pub(super) fn read(
    conn: &Connection,
    table: &CopiedTable,
    columns: &[TableColumn],
    after: Option<&Cells>,
    most: usize,
) -> Result<Vec<Cells>> {
    let key = table.key.join(", ");
    let condition = match after {
        Some(_) => format!("WHERE ({key}) > ({})", vec!["?"; table.key.len()].join(", ")),
        None => String::new(),
    };
    let sql = format!("SELECT {} FROM {} {condition} ORDER BY {key} LIMIT {most}", names(columns), table.name);
    let mut read = conn.prepare_cached(&sql)?;
    let types = key_types(table.key, columns);
    let after = after.into_iter().flatten().zip(types).map(|(cell, column_type)| to_sql(cell, column_type));
    let after = after.collect::<Result<Vec<_>>>()?;
    let mut rows = read.query(params_from_iter(after))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = (0..columns.len()).map(|at| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(n) => Cell::Number(n),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
                ValueRef::Real(_) => {
                    return Err(BoxError::from(Error::Unexpected(format!("a fractional number in {}", table.name))));
                }
            })
        });
        found.push(cells.collect::<Result<Cells>>()?);
    }
    Ok(found)
}

pub(super) fn write(tx: &Transaction<'_>, table: &CopiedTable, columns: &[TableColumn], rows: &[Cells]) -> Result<()> {
    let marks = vec!["?"; columns.len()].join(", ");
    let mut insert = tx.prepare_cached(&format!("INSERT INTO {} ({}) VALUES ({marks})", table.name, names(columns)))?;
    for row in rows {
        let values = row.iter().zip(columns).map(|(cell, column)| to_sql(cell, column.column_type));
        insert.execute(params_from_iter(values.collect::<Result<Vec<_>>>()?))?;
    }
    Ok(())
}

fn to_sql(cell: &Cell, column_type: ColumnType) -> Result<SqlValue> {
    Ok(match (cell, column_type) {
        (Cell::Null, _) => SqlValue::Null,
        (Cell::Number(n), _) => SqlValue::Integer(*n),
        (Cell::Bytes(bytes), ColumnType::Text) => {
            let text = String::from_utf8(bytes.clone());
            SqlValue::Text(text.map_err(|_| Error::Unexpected("text that is not UTF-8".into()))?)
        }
        (Cell::Bytes(bytes), ColumnType::Bytes | ColumnType::Number) => SqlValue::Blob(bytes.clone()),
    })
}

/// Exists while a copy into this store is unfinished. `key` is the last copied key.
const PROGRESS: &str = "CREATE TABLE IF NOT EXISTS copying (
     name TEXT PRIMARY KEY, source TEXT NOT NULL, key TEXT, rows INTEGER NOT NULL) WITHOUT ROWID";

pub(super) fn is_half_copied(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'copying'";
    Ok(conn.query_row(sql, [], |_| Ok(())).optional()?.is_some())
}

/// Empty before the first batch. Refuses the progress of another source.
pub(super) fn progress(conn: &Connection, source: &str) -> Result<HashMap<String, TableProgress>> {
    conn.execute_batch(PROGRESS)?;
    let mut find = conn.prepare("SELECT name, source, key, rows FROM copying")?;
    let found = find.query_and_then([], |row| {
        if row.get::<_, String>(1)? != source {
            return Err(BoxError::from(another_source()));
        }
        let key = row.get::<_, Option<String>>(2)?.map(|key| decode_key(&key)).transpose()?;
        let rows: i64 = row.get(3)?;
        Ok((row.get(0)?, TableProgress { key, rows: u64::try_from(rows).unwrap_or(0) }))
    })?;
    found.collect()
}

pub(super) fn save_progress(tx: &Transaction<'_>, source: &str, table: &str, progress: &TableProgress) -> Result<()> {
    let mut put = tx.prepare_cached(
        "INSERT INTO copying (name, source, key, rows) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET key = excluded.key, rows = excluded.rows",
    )?;
    let rows = i64::try_from(progress.rows).unwrap_or(i64::MAX);
    put.execute(params![table, source, progress.key.as_ref().map(encode_key), rows])?;
    Ok(())
}

/// The last id of each numbered table, also of a deleted row.
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

/// The last number of the change log, also after its rows were deleted.
pub(super) fn last_change(conn: &Connection) -> Result<i64> {
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'";
    Ok(conn.query_row(sql, [], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Continues the source's numbering and ends the copy, after a check of all references.
pub(super) fn finish(conn: &mut Connection, numbers: &[(&'static str, i64)], last_change: i64) -> Result<()> {
    let tx = conn.transaction()?;
    let dangling: Option<String> =
        tx.query_row("SELECT \"table\" FROM pragma_foreign_key_check LIMIT 1", [], |row| row.get(0)).optional()?;
    if let Some(table) = dangling {
        return Err(Error::Unexpected(format!("a row of {table} refers to a missing row")).into());
    }
    // Only AUTOINCREMENT tables have a row here; the others continue after their highest id.
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
