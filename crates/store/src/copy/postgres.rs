//! PostgreSQL as one end of a copy.

use std::collections::HashMap;

use redrive_core::time::Timestamp;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

use super::progress::{self, Reached, another_source};
use super::tables::{NUMBERED, Table};
use super::value::{Cells, Column, Kind, Value};
use crate::postgres::commit::fold;
use crate::shared::columns::{Columns as _, number, owned};
use redrive_engine::error::{BoxError, Error, PortResult as Result};

/// How far a copy into this store is.
const PROGRESS: &str = "CREATE TABLE IF NOT EXISTS copying (
     name TEXT PRIMARY KEY, source TEXT NOT NULL, key TEXT, rows BIGINT NOT NULL)";

pub(super) async fn columns(client: &Client, table: &str) -> Result<Vec<Column>> {
    let sql = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
               WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let rows = client.query(sql, &[&table]).await?;
    rows.iter()
        .map(|row| {
            let kind = match owned(row, 1)?.as_str() {
                "bigint" => Kind::Number,
                "text" => Kind::Text,
                "bytea" => Kind::Bytes,
                other => return Err(BoxError::from(Error::Unexpected(format!("a column of {table} is {other}")))),
            };
            Ok(Column { name: owned(row, 0)?, kind })
        })
        .collect()
}

pub(super) async fn count(client: &Client, table: &str) -> Result<u64> {
    let row = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?;
    Ok(u64::try_from(number(&row, 0)?).unwrap_or(0))
}

/// The next rows after a key, in its order.
pub(super) async fn read(
    client: &Client,
    table: &Table,
    columns: &[Column],
    after: Option<&Cells>,
    most: usize,
) -> Result<Vec<Cells>> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let key = table.key.join(", ");
    let marks: Vec<String> = (1..=table.key.len()).map(|n| format!("${n}")).collect();
    let condition = match after {
        Some(_) => format!("WHERE ({key}) > ({})", marks.join(", ")),
        None => String::new(),
    };
    let sql = format!("SELECT {} FROM {} {condition} ORDER BY {key} LIMIT {most}", names.join(", "), table.name);
    let key_kind = |name: &&str| columns.iter().find(|column| column.name == **name).map(|column| column.kind);
    let kinds: Vec<Kind> = table.key.iter().filter_map(key_kind).collect();
    let after: Vec<Box<dyn ToSql + Sync>> =
        after.into_iter().flatten().zip(kinds).map(|(value, kind)| one(value, kind)).collect::<Result<_>>()?;
    let after: Vec<&(dyn ToSql + Sync)> = after.iter().map(AsRef::as_ref).collect();
    let rows = client.query(&sql, &after).await?;
    let cell = |row: &tokio_postgres::Row, at: usize, kind: Kind| {
        Ok(match kind {
            Kind::Number => row.number_or_none(at)?.map_or(Value::Null, Value::Number),
            Kind::Text | Kind::Bytes => row.bytes_or_none(at)?.map_or(Value::Null, |b| Value::Bytes(b.to_vec())),
        })
    };
    rows.iter().map(|row| columns.iter().enumerate().map(|(at, column)| cell(row, at, column.kind)).collect()).collect()
}

fn one(value: &Value, kind: Kind) -> Result<Box<dyn ToSql + Sync>> {
    Ok(match (value, kind) {
        (Value::Number(n), _) => Box::new(*n),
        (Value::Bytes(bytes), Kind::Text) => Box::new(utf8(bytes)?),
        (Value::Bytes(bytes), _) => Box::new(bytes.clone()),
        (Value::Null, _) => return Err(Error::Unexpected("a key without a value".into()).into()),
    })
}

fn utf8(bytes: &[u8]) -> Result<String> {
    Ok(String::from_utf8(bytes.to_vec()).map_err(|_| Error::Unexpected("text that is none".into()))?)
}

/// One statement, a column an array.
pub(super) async fn write(tx: &Transaction<'_>, table: &Table, columns: &[Column], rows: &[Cells]) -> Result<()> {
    if table.name == "changes" {
        make_parts(tx, columns, rows).await?;
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let arrays: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let kind = match column.kind {
                Kind::Number => "bigint",
                Kind::Text => "text",
                Kind::Bytes => "bytea",
            };
            format!("${}::{kind}[]", at + 1)
        })
        .collect();
    let sql = format!("INSERT INTO {} ({}) SELECT * FROM unnest({})", table.name, names.join(", "), arrays.join(", "));
    let values: Vec<Box<dyn ToSql + Sync>> =
        columns.iter().enumerate().map(|(at, column)| array(rows, at, column.kind)).collect::<Result<_>>()?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(AsRef::as_ref).collect();
    tx.execute(&sql, &values).await?;
    Ok(())
}

fn array(rows: &[Cells], at: usize, kind: Kind) -> Result<Box<dyn ToSql + Sync>> {
    let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Value::Null));
    Ok(match kind {
        Kind::Number => {
            let number = |cell: &Value| match cell {
                Value::Null => Ok(None),
                Value::Number(n) => Ok(Some(*n)),
                Value::Bytes(_) => Err(BoxError::from(Error::Unexpected("text where a number belongs".into()))),
            };
            Box::new(cells.map(number).collect::<Result<Vec<Option<i64>>>>()?)
        }
        Kind::Text => {
            Box::new(cells.map(|cell| bytes(cell)?.map(utf8).transpose()).collect::<Result<Vec<Option<String>>>>()?)
        }
        Kind::Bytes => {
            Box::new(cells.map(|cell| Ok(bytes(cell)?.map(<[u8]>::to_vec))).collect::<Result<Vec<Option<Vec<u8>>>>>()?)
        }
    })
}

fn bytes(cell: &Value) -> Result<Option<&[u8]>> {
    match cell {
        Value::Null => Ok(None),
        Value::Bytes(bytes) => Ok(Some(bytes)),
        Value::Number(_) => Err(Error::Unexpected("a number where text belongs".into()).into()),
    }
}

/// The log of changes is parted by the hour.
async fn make_parts(tx: &Transaction<'_>, columns: &[Column], rows: &[Cells]) -> Result<()> {
    let Some(at) = columns.iter().position(|column| column.name == "at") else { return Ok(()) };
    let mut hours: Vec<Timestamp> = rows
        .iter()
        .filter_map(|row| match row.get(at) {
            Some(Value::Number(ms)) => Some(Timestamp::from_millis(*ms).hour()),
            Some(Value::Null | Value::Bytes(_)) | None => None,
        })
        .collect();
    hours.sort_unstable();
    hours.dedup();
    for hour in hours {
        fold::create_partition(tx, hour).await?;
    }
    Ok(())
}

/// Where each table stands; empty before the first piece. Another source's progress is refused.
pub(super) async fn reached(client: &Client, source: &str) -> Result<HashMap<String, Reached>> {
    client.batch_execute(PROGRESS).await?;
    let mut all = HashMap::new();
    for row in client.query("SELECT name, source, key, rows FROM copying", &[]).await? {
        if owned(&row, 1)? != source {
            return Err(another_source().into());
        }
        let key: Option<String> = row.try_get(2)?;
        let key = key.map(|key| progress::read(&key)).transpose()?;
        let rows = u64::try_from(number(&row, 3)?).unwrap_or(0);
        all.insert(owned(&row, 0)?, Reached { key, rows });
    }
    Ok(all)
}

pub(super) async fn note(tx: &Transaction<'_>, source: &str, table: &str, reached: &Reached) -> Result<()> {
    let (key, rows) = (reached.key.as_ref().map(progress::written), i64::try_from(reached.rows).unwrap_or(i64::MAX));
    tx.execute(
        "INSERT INTO copying (name, source, key, rows) VALUES ($1, $2, $3, $4)
         ON CONFLICT (name) DO UPDATE SET key = excluded.key, rows = excluded.rows",
        &[&table, &source, &key, &rows],
    )
    .await?;
    Ok(())
}

/// The last number that each table has given out.
pub(super) async fn last_numbers(client: &Client) -> Result<Vec<(&'static str, i64)>> {
    let mut all = Vec::new();
    for table in NUMBERED.iter().copied() {
        let sql = format!("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {table}_id_seq");
        all.push((table, number(&client.query_one(&sql, &[]).await?, 0)?));
    }
    Ok(all)
}

/// Of the log of changes, also after its rows were trimmed.
pub(super) async fn last_change(client: &Client) -> Result<i64> {
    number(&client.query_one("SELECT seq FROM change_head", &[]).await?, 0)
}

/// Gives the numbers on and ends the copy.
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
    // What the planner believes of empty tables would be wrong for hours.
    client.batch_execute("ANALYZE").await?;
    Ok(())
}

/// Folds what commits appended, so that the tables hold all there is.
pub(super) async fn fold_all(client: &mut Client, now: Timestamp) -> Result<()> {
    loop {
        let mut tx = client.transaction().await?;
        let folded = fold::fold(&mut tx, now).await?;
        tx.commit().await?;
        match folded {
            Some(swept) if swept.moved == 0 => return Ok(()),
            Some(_) => {}
            None => return Err(Error::Unexpected("somebody serves the source store: stop it first".into()).into()),
        }
    }
}
