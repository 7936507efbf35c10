//! Raw PostgreSQL: the very rows that the server wrote, read back and written again by the shortest program there is,
//! one by one or a thousand at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio_postgres::types::ToSql;

use super::place::connect;
use super::raw_deltas::{Append, Deltas, Moved};
use super::raw_rows::{Column, Raw, commit};
use crate::raw::What;

/// A failure is one row in each.
const TABLES: [&str; 3] = ["runs", "attempts", "payloads"];

/// What failures wrote, table by table.
pub struct Rows {
    tables: Vec<Table>,
    failures: usize,
}

struct Table {
    /// Name and type.
    columns: Vec<(String, String)>,
    rows: Vec<Vec<Raw>>,
}

/// How many failures a transaction writes.
#[derive(Clone, Copy)]
pub enum Each {
    One,
    Many(usize),
}

pub async fn rows_of(url: &str) -> Result<Rows> {
    let client = connect(url).await?;
    let mut tables = Vec::new();
    for table in TABLES {
        let rows = client.query(&format!("SELECT * FROM {table} ORDER BY 1, 2"), &[]).await?;
        let named = rows.first().context("nothing was written")?.columns().iter();
        let columns = named.map(|column| (column.name().to_owned(), column.type_().name().to_owned())).collect();
        let rows = rows.iter().map(|row| (0..row.len()).map(|at| row.get(at)).collect()).collect();
        tables.push(Table { columns, rows });
    }
    let failures = tables[0].rows.len();
    Ok(Rows { tables, failures })
}

/// What one transaction writes: the values of its rows, table by table, and what it appends where it does.
struct Transaction {
    rows: Vec<Vec<Box<dyn ToSql + Sync + Send>>>,
    deltas: Option<Deltas>,
}

impl Rows {
    fn inserts(&self, each: Each) -> impl Iterator<Item = String> {
        self.tables.iter().zip(TABLES).map(move |(Table { columns, .. }, name)| {
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let places: Vec<String> = (1..=columns.len()).map(|at| format!("${at}")).collect();
            let arrays = places.iter().zip(columns).map(|(place, (_, kind))| format!("{place}::{kind}[]"));
            let from = match each {
                Each::One => format!("VALUES ({})", places.join(", ")),
                Each::Many(_) => format!("SELECT * FROM unnest({})", arrays.collect::<Vec<_>>().join(", ")),
            };
            format!("INSERT INTO {name} ({}) {from}", names.join(", "))
        })
    }

    /// What each transaction writes.
    fn transactions(&self, each: Each, what: What) -> Vec<Transaction> {
        let step = match each {
            Each::One => 1,
            Each::Many(many) => many,
        };
        let of = |first: usize| {
            let tables = self.tables.iter().map(|table| {
                let rows = &table.rows[first..(first + step).min(self.failures)];
                (0..table.columns.len()).map(|at| value(rows, at, each)).collect()
            });
            let deltas = (what == What::All).then(|| Deltas::of(&self.moved(first, step), None, (0, 0), true));
            Transaction { rows: tables.collect(), deltas }
        };
        (0..self.failures).step_by(step).map(of).collect()
    }
}

impl Rows {
    /// What some failures are counted by.
    fn moved(&self, first: usize, count: usize) -> Vec<Moved> {
        let Table { columns, rows } = &self.tables[0];
        let at = |name: &str| columns.iter().position(|(column, _)| column == name).unwrap_or(0);
        let [run, tenant, queue, reason, pattern] = ["id", "tenant", "queue", "reason", "pattern"].map(at);
        let rows = rows[first..(first + count).min(self.failures)].iter();
        let moved = rows.map(|row| Moved {
            run: row[run].number(),
            tenant: row[tenant].number(),
            queue: row[queue].number(),
            reason: String::from_utf8_lossy(row[reason].0.as_deref().unwrap_or_default()).into_owned(),
            pattern: Some(row[pattern].number()),
        });
        moved.collect()
    }
}

fn value(rows: &[Vec<Raw>], at: usize, each: Each) -> Box<dyn ToSql + Sync + Send> {
    match each {
        Each::One => Box::new(rows[0][at].clone()),
        Each::Many(_) => Box::new(Column(rows.iter().map(|row| row[at].0.clone()).collect())),
    }
}

/// Writes them again over so many connections; gives how long it took.
pub async fn write(url: &str, rows: &Rows, each: Each, what: What, connections: usize) -> Result<Duration> {
    let mut workers = Vec::new();
    for _ in 0..connections {
        let client = connect(url).await?;
        let mut inserts = Vec::new();
        for insert in rows.inserts(each) {
            inserts.push(client.prepare(&insert).await?);
        }
        let append = Append::prepare(&client).await?;
        workers.push((client, inserts, append, Vec::new()));
    }
    for (n, transaction) in rows.transactions(each, what).into_iter().enumerate() {
        workers[n % connections].3.push(transaction);
    }
    let began = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for (client, inserts, append, transactions) in workers {
        all.spawn(async move {
            for transaction in &transactions {
                let values = bound(&transaction.rows);
                let rows = inserts.iter().zip(&values).map(|(statement, values)| (statement, values.as_slice()));
                let deltas = transaction.deltas.as_ref().map(Deltas::values);
                let statements: Vec<_> = rows.chain(deltas.iter().flat_map(|deltas| append.all(deltas))).collect();
                commit(&client, &statements).await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        });
    }
    for done in all.join_all().await {
        done?;
    }
    Ok(began.elapsed())
}

/// A transaction's values as references.
fn bound(values: &[Vec<Box<dyn ToSql + Sync + Send>>]) -> Vec<Vec<&(dyn ToSql + Sync)>> {
    values.iter().map(|row| row.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()).collect()
}
