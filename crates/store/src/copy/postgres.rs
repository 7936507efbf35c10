//! PostgreSQL as the source or target of a copy.

use std::collections::HashMap;

use redrive_core::time::Timestamp;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use super::cell::{Cell, Cells, ColumnType, TableColumn, key_types, names};
use super::progress::{TableProgress, another_source, decode_key, encode_key};
use super::tables::{CopiedTable, NUMBERED};
use crate::postgres::commit::fold;
use crate::shared::columns::{Columns as _, number, owned};
use redrive_engine::error::{BoxError, Error, PortResult as Result};

/// Exists while a copy into this store is unfinished. `key` is the last copied key.
const PROGRESS: &str = "CREATE TABLE IF NOT EXISTS copying (
     name TEXT PRIMARY KEY, source TEXT NOT NULL, key TEXT, rows BIGINT NOT NULL)";

pub(super) async fn columns(client: &Client, table: &str) -> Result<Vec<TableColumn>> {
    let sql = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
               WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let rows = client.query(sql, &[&table]).await?;
    rows.iter()
        .map(|row| {
            let column_type = match owned(row, 1)?.as_str() {
                "bigint" => ColumnType::Number,
                "text" => ColumnType::Text,
                "bytea" => ColumnType::Bytes,
                other => return Err(BoxError::from(Error::Unexpected(format!("a column of {table} is {other}")))),
            };
            Ok(TableColumn { name: owned(row, 0)?, column_type })
        })
        .collect()
}

pub(super) async fn count(client: &Client, table: &str) -> Result<u64> {
    let row = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?;
    Ok(u64::try_from(number(&row, 0)?).unwrap_or(0))
}

pub(super) async fn read(
    client: &Client,
    table: &CopiedTable,
    columns: &[TableColumn],
    after: Option<&Cells>,
    most: usize,
) -> Result<Vec<Cells>> {
    let key = table.key.join(", ");
    let marks: Vec<String> = (1..=table.key.len()).map(|n| format!("${n}")).collect();
    let condition = match after {
        Some(_) => format!("WHERE ({key}) > ({})", marks.join(", ")),
        None => String::new(),
    };
    let sql = format!("SELECT {} FROM {} {condition} ORDER BY {key} LIMIT {most}", names(columns), table.name);
    let key_cells = after.into_iter().flatten().zip(key_types(table.key, columns));
    let after: Vec<Box<dyn ToSql + Sync>> =
        key_cells.map(|(cell, column_type)| key_to_sql(cell, column_type)).collect::<Result<_>>()?;
    let after: Vec<&(dyn ToSql + Sync)> = after.iter().map(AsRef::as_ref).collect();
    let rows = client.query(&sql, &after).await?;
    let cell = |row: &tokio_postgres::Row, at: usize, column_type: ColumnType| {
        Ok(match column_type {
            ColumnType::Number => row.number_or_none(at)?.map_or(Cell::Null, Cell::Number),
            ColumnType::Text | ColumnType::Bytes => {
                row.bytes_or_none(at)?.map_or(Cell::Null, |b| Cell::Bytes(b.to_vec()))
            }
        })
    };
    rows.iter()
        .map(|row| columns.iter().enumerate().map(|(at, column)| cell(row, at, column.column_type)).collect())
        .collect()
}

fn key_to_sql(cell: &Cell, column_type: ColumnType) -> Result<Box<dyn ToSql + Sync>> {
    Ok(match (cell, column_type) {
        (Cell::Number(n), _) => Box::new(*n),
        (Cell::Bytes(bytes), ColumnType::Text) => Box::new(utf8(bytes)?),
        (Cell::Bytes(bytes), _) => Box::new(bytes.clone()),
        (Cell::Null, _) => return Err(Error::Unexpected("a key without a value".into()).into()),
    })
}

fn utf8(bytes: &[u8]) -> Result<String> {
    Ok(String::from_utf8(bytes.to_vec()).map_err(|_| Error::Unexpected("text that is not UTF-8".into()))?)
}

/// Writes all rows with one statement, each column as an array.
pub(super) async fn write(
    tx: &Transaction<'_>,
    table: &CopiedTable,
    columns: &[TableColumn],
    rows: &[Cells],
) -> Result<()> {
    if table.name == "changes" {
        make_partitions(tx, columns, rows).await?;
    }
    let arrays: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let sql_type = match column.column_type {
                ColumnType::Number => "bigint",
                ColumnType::Text => "text",
                ColumnType::Bytes => "bytea",
            };
            format!("${}::{sql_type}[]", at + 1)
        })
        .collect();
    let sql = format!("INSERT INTO {} ({}) SELECT * FROM unnest({})", table.name, names(columns), arrays.join(", "));
    let values: Vec<Box<dyn ToSql + Sync>> =
        columns.iter().enumerate().map(|(at, column)| array(rows, at, column.column_type)).collect::<Result<_>>()?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(AsRef::as_ref).collect();
    tx.execute(&sql, &values).await?;
    Ok(())
}

fn array(rows: &[Cells], at: usize, column_type: ColumnType) -> Result<Box<dyn ToSql + Sync>> {
    let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
    Ok(match column_type {
        ColumnType::Number => {
            let number = |cell: &Cell| match cell {
                Cell::Null => Ok(None),
                Cell::Number(n) => Ok(Some(*n)),
                Cell::Bytes(_) => Err(BoxError::from(Error::Unexpected("bytes in a column of numbers".into()))),
            };
            Box::new(cells.map(number).collect::<Result<Vec<Option<i64>>>>()?)
        }
        ColumnType::Text => {
            Box::new(cells.map(|cell| bytes(cell)?.map(utf8).transpose()).collect::<Result<Vec<Option<String>>>>()?)
        }
        ColumnType::Bytes => {
            Box::new(cells.map(|cell| Ok(bytes(cell)?.map(<[u8]>::to_vec))).collect::<Result<Vec<Option<Vec<u8>>>>>()?)
        }
    })
}

fn bytes(cell: &Cell) -> Result<Option<&[u8]>> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Bytes(bytes) => Ok(Some(bytes)),
        Cell::Number(_) => Err(Error::Unexpected("a number in a column of text or bytes".into()).into()),
    }
}

/// The change log is partitioned by the hour.
async fn make_partitions(tx: &Transaction<'_>, columns: &[TableColumn], rows: &[Cells]) -> Result<()> {
    let Some(at) = columns.iter().position(|column| column.name == "at") else { return Ok(()) };
    let mut hours: Vec<Timestamp> = rows
        .iter()
        .filter_map(|row| match row.get(at) {
            Some(Cell::Number(ms)) => Some(Timestamp::from_millis(*ms).hour()),
            Some(Cell::Null | Cell::Bytes(_)) | None => None,
        })
        .collect();
    hours.sort_unstable();
    hours.dedup();
    for hour in hours {
        fold::create_partition(tx, hour).await?;
    }
    Ok(())
}

/// Empty before the first batch. Refuses the progress of another source.
pub(super) async fn progress(client: &Client, source: &str) -> Result<HashMap<String, TableProgress>> {
    client.batch_execute(PROGRESS).await?;
    let mut all = HashMap::new();
    for row in client.query("SELECT name, source, key, rows FROM copying", &[]).await? {
        if owned(&row, 1)? != source {
            return Err(another_source().into());
        }
        let key: Option<String> = row.try_get(2)?;
        let key = key.map(|key| decode_key(&key)).transpose()?;
        let rows = u64::try_from(number(&row, 3)?).unwrap_or(0);
        all.insert(owned(&row, 0)?, TableProgress { key, rows });
    }
    Ok(all)
}

pub(super) async fn save_progress(
    tx: &Transaction<'_>,
    source: &str,
    table: &str,
    progress: &TableProgress,
) -> Result<()> {
    let (key, rows) = (progress.key.as_ref().map(encode_key), i64::try_from(progress.rows).unwrap_or(i64::MAX));
    tx.execute(
        "INSERT INTO copying (name, source, key, rows) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET key = excluded.key, rows = excluded.rows",
        &[&table, &source, &key, &rows],
    )
    .await?;
    Ok(())
}

/// The last id of each numbered table, also of a deleted row.
pub(super) async fn last_numbers(client: &Client) -> Result<Vec<(&'static str, i64)>> {
    let mut all = Vec::new();
    for table in NUMBERED.iter().copied() {
        let sql = format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {table}_id_seq");
        all.push((table, number(&client.query_one(&sql, &[]).await?, 0)?));
    }
    Ok(all)
}

/// The last number of the change log, also after its rows were deleted.
pub(super) async fn last_change(client: &Client) -> Result<i64> {
    number(&client.query_one("SELECT seq FROM change_head", &[]).await?, 0)
}

/// Continues the source's numbering and ends the copy.
pub(super) async fn finish(client: &mut Client, numbers: &[(&'static str, i64)], last_change: i64) -> Result<()> {
    let tx = client.transaction().await?;
    for (table, last) in numbers {
        if *last > 0 {
            let sql = "SELECT setval(pg_get_serial_sequence($1, 'id'), $2)";
            tx.execute(sql, &[table, last]).await?;
        }
    }
    tx.execute("UPDATE change_head SET seq = $1", &[&last_change]).await?;
    tx.batch_execute("DROP TABLE copying").await?;
    tx.commit().await?;
    // The planner still has the statistics of empty tables.
    client.batch_execute("ANALYZE").await?;
    Ok(())
}

pub(super) async fn fold_all(client: &mut Client, now: Timestamp) -> Result<()> {
    loop {
        let mut tx = client.transaction().await?;
        let folded = fold::fold(&mut tx, now).await?;
        tx.commit().await?;
        match folded {
            Some(swept) if swept.moved == 0 => return Ok(()),
            Some(_) => {}
            None => {
                return Err(Error::Unexpected("a server is running on the source store: stop it first".into()).into());
            }
        }
    }
}
