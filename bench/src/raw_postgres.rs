//! Raw PostgreSQL: the very rows that the store wrote, written again by the shortest program there is.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut};
use tokio_postgres::{Client, NoTls, Row, Statement};

/// A failure is one row in each.
const TABLES: [&str; 3] = ["runs", "attempts", "payloads"];

/// A column's bytes, as they travel.
#[derive(Debug, Clone)]
struct Raw(Option<Vec<u8>>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// What failures wrote: the columns of each row, table by table.
pub struct Rows {
    columns: Vec<Vec<(String, String)>>,
    rows: Vec<Vec<Vec<Raw>>>,
}

pub async fn rows_of(url: &str) -> Result<Rows> {
    let client = connect(url).await?;
    let (mut columns, mut tables) = (Vec::new(), Vec::new());
    for table in TABLES {
        let rows = client.query(&format!("SELECT * FROM {table} ORDER BY id"), &[]).await?;
        let of = rows.first().map(|row| row.columns().to_vec_named()).unwrap_or_default();
        tables.push(rows.iter().map(|row| (0..row.len()).map(|at| row.get::<_, Raw>(at)).collect()).collect());
        columns.push(of);
    }
    Ok(Rows { columns, rows: tables })
}

trait Named {
    fn to_vec_named(&self) -> Vec<(String, String)>;
}

impl Named for [tokio_postgres::Column] {
    fn to_vec_named(&self) -> Vec<(String, String)> {
        self.iter().map(|column| (column.name().to_owned(), column.type_().name().to_owned())).collect()
    }
}

pub async fn empty(url: &str) -> Result<()> {
    connect(url).await?.batch_execute("TRUNCATE runs, attempts, payloads CASCADE").await?;
    Ok(())
}

/// Each failure in a transaction of its own, over so many connections.
pub async fn write_each(url: &str, rows: &Rows, connections: u64) -> Result<Duration> {
    let mut workers = Vec::new();
    for n in 0..connections {
        let client = connect(url).await?;
        let mut inserts: Vec<Statement> = Vec::new();
        for (table, columns) in TABLES.iter().zip(&rows.columns) {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let values: Vec<String> = (1..=columns.len()).map(|at| format!("${at}")).collect();
            let sql = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), values.join(", "));
            inserts.push(client.prepare(&sql).await?);
        }
        let mine: Vec<Vec<Vec<Raw>>> = rows
            .rows
            .iter()
            .map(|table| table.iter().skip(n as usize).step_by(connections as usize).cloned().collect())
            .collect();
        workers.push((client, inserts, mine));
    }
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for (client, inserts, mine) in workers {
        all.spawn(async move {
            for at in 0..mine[0].len() {
                let values: Vec<Vec<&(dyn ToSql + Sync)>> =
                    mine.iter().map(|table| table[at].iter().map(|v| v as &(dyn ToSql + Sync)).collect()).collect();
                let done = tokio::join!(
                    client.batch_execute("BEGIN"),
                    client.execute(&inserts[0], &values[0]),
                    client.execute(&inserts[1], &values[1]),
                    client.execute(&inserts[2], &values[2]),
                    client.batch_execute("COMMIT"),
                );
                done.0?;
                done.1?;
                done.2?;
                done.3?;
                done.4?;
            }
            Ok::<_, tokio_postgres::Error>(())
        });
    }
    for done in all.join_all().await {
        done?;
    }
    Ok(began.elapsed())
}

/// A thousand failures in a transaction, one statement a table.
pub async fn write_many(url: &str, rows: &Rows, connections: u64) -> Result<Duration> {
    const PIECE: usize = 1_000;
    let mut workers = Vec::new();
    let count = rows.rows[0].len();
    for n in 0..connections as usize {
        let client = connect(url).await?;
        let mut inserts = Vec::new();
        for (table, columns) in TABLES.iter().zip(&rows.columns) {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let arrays: Vec<String> = (1..).zip(columns).map(|(at, (_, ty))| format!("${at}::{ty}[]")).collect();
            let sql = format!("INSERT INTO {table} ({}) SELECT * FROM unnest({})", names.join(", "), arrays.join(", "));
            inserts.push(client.prepare(&sql).await?);
        }
        let mut pieces: Vec<Vec<Vec<Column>>> = Vec::new();
        for first in (n * PIECE..count).step_by(PIECE * connections as usize) {
            let piece = rows.rows.iter().zip(&rows.columns).map(|(table, columns)| {
                let part = &table[first..(first + PIECE).min(count)];
                (0..columns.len()).map(|at| Column(part.iter().map(|row| row[at].0.clone()).collect())).collect()
            });
            pieces.push(piece.collect());
        }
        workers.push((client, inserts, pieces));
    }
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for (client, inserts, pieces) in workers {
        all.spawn(async move {
            for piece in &pieces {
                let values: Vec<Vec<&(dyn ToSql + Sync)>> =
                    piece.iter().map(|table| table.iter().map(|v| v as &(dyn ToSql + Sync)).collect()).collect();
                let done = tokio::join!(
                    client.batch_execute("BEGIN"),
                    client.execute(&inserts[0], &values[0]),
                    client.execute(&inserts[1], &values[1]),
                    client.execute(&inserts[2], &values[2]),
                    client.batch_execute("COMMIT"),
                );
                done.0?;
                done.1?;
                done.2?;
                done.3?;
                done.4?;
            }
            Ok::<_, tokio_postgres::Error>(())
        });
    }
    for done in all.join_all().await {
        done?;
    }
    Ok(began.elapsed())
}

/// One column of many rows, as an array travels.
#[derive(Debug)]
struct Column(Vec<Option<Vec<u8>>>);

impl ToSql for Column {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let element = match ty.kind() {
            tokio_postgres::types::Kind::Array(element) => element.oid(),
            _ => return Err("not an array".into()),
        };
        let nulls = i32::from(self.0.iter().any(Option::is_none));
        out.extend_from_slice(&1_i32.to_be_bytes());
        out.extend_from_slice(&nulls.to_be_bytes());
        out.extend_from_slice(&element.to_be_bytes());
        out.extend_from_slice(&i32::try_from(self.0.len())?.to_be_bytes());
        out.extend_from_slice(&1_i32.to_be_bytes());
        for value in &self.0 {
            match value {
                Some(bytes) => {
                    out.extend_from_slice(&i32::try_from(bytes.len())?.to_be_bytes());
                    out.extend_from_slice(bytes);
                }
                None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// The same rows: a thousand runs to running, ten of each tenant, then to their end with an attempt each; a transaction for
/// either half, and what a worker gets read in between.
pub async fn claim_and_resolve(client: &Client) -> Result<Duration> {
    let claim = "UPDATE runs SET state = 1, due = NULL, wake = 4000000000000, life = life || $1, updated_at = 1
         WHERE id IN (SELECT r.id FROM generate_series(1, 100) AS t(tenant) CROSS JOIN LATERAL (
             SELECT id FROM runs WHERE queue = 1 AND runs.tenant = t.tenant AND due <= 4000000000000
             ORDER BY due, id LIMIT 10 FOR UPDATE SKIP LOCKED) AS r) RETURNING id, revision";
    let resolve = "UPDATE runs SET state = 4, wake = NULL, updated_at = 2 WHERE id = ANY($1)";
    let end = "INSERT INTO attempts (id, outcome, epoch, state, pattern_new, recorded_at, origin, body)
         SELECT (id << 20) | 1, 0, 1, 4, 0, 1, '{}', $2 FROM unnest($1::bigint[]) AS new(id)";
    let statements = [client.prepare(claim).await?, client.prepare(resolve).await?, client.prepare(end).await?];
    let began = Instant::now();
    client.batch_execute("BEGIN").await?;
    let claimed: Vec<Row> = client.query(&statements[0], &[&b" ".as_slice()]).await?;
    client.batch_execute("COMMIT").await?;
    let ids: Vec<i64> = claimed.iter().map(|row| row.get(0)).collect();
    let payloads: Vec<i64> = claimed.iter().map(|row| (row.get::<_, i64>(0) << 20) | row.get::<_, i64>(1)).collect();
    client.query("SELECT kind, about, body FROM payloads WHERE id = ANY($1)", &[&payloads]).await?;
    client.batch_execute("BEGIN").await?;
    client.execute(&statements[1], &[&ids]).await?;
    client.execute(&statements[2], &[&ids, &b"\0{}".as_slice()]).await?;
    client.batch_execute("COMMIT").await?;
    anyhow::ensure!(ids.len() == 1_000, "{} were due", ids.len());
    Ok(began.elapsed())
}
