//! Reports over HTTP into PostgreSQL, one per request and a thousand per request, beside raw PostgreSQL writing the same
//! rows again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use private_postgres::Database;
use tokio_postgres::types::ToSql;

use super::raw::{Append, Column, Deltas, Moved, Raw, commit};
use super::server::{CpuTime, Postgres, connect, number};
use crate::Plan;
use crate::figures::{Figures, median, median_ratio, per_second};
use crate::ingest::{CONNECTIONS, LINES, many_a_request, one_a_request};
use crate::load::LoadResult;
use crate::process::{Server, StoreLocation};
use crate::raw::What;

const REQUESTS_AT_ONCE: usize = 4;

pub async fn measure(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    if plan.wants("ingest") {
        println!("Reports into PostgreSQL, one a request, {CONNECTIONS} connections");
        single(plan, figures, postgres).await?;
    }
    println!("Reports into PostgreSQL, NDJSON of {LINES}, {REQUESTS_AT_ONCE} connections");
    ndjson(plan, figures, postgres).await
}

/// The rows that it wrote, written again into a store of their own.
async fn raw(
    postgres: &Postgres,
    rows: &Rows,
    (each, what): (Each, What),
    connections: usize,
    runs: u64,
) -> Result<f64> {
    let beside = postgres.store().await?;
    postgres.sql("CHECKPOINT")?;
    Ok(per_second(runs, write(beside.url(), rows, each, what, connections).await?))
}

async fn single(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    let (mut ours, mut raws, mut p50, mut p99) = (vec![], vec![], vec![], vec![]);
    for pair in 0..plan.pairs {
        let database = postgres.store().await?;
        postgres.sql("CHECKPOINT")?;
        let server = Server::start(&plan.redrive, StoreLocation::Database(database.url()))?;
        if pair == 0 {
            figures.note("memory of a replica, idle", server.memory_mib(), "MiB");
        }
        let spent = CpuTime::since(postgres, &[&server])?;
        let seen = one_a_request(&server, "s", plan.runs, CONNECTIONS).await?;
        if pair == 0 {
            spent.note(figures, "one a request", plan.runs, seen.took)?;
            cost(figures, &database, &server)?;
        }
        server.stop()?;
        let rows = rows_of(database.url()).await?;
        drop(database);
        let LoadResult { took, p50_ms, p99_ms } = seen;
        ours.push(per_second(plan.runs, took));
        p50.push(p50_ms);
        p99.push(p99_ms);
        raws.push(raw(postgres, &rows, (Each::One, What::Rows), CONNECTIONS, plan.runs).await?);
    }
    let to_raw = median_ratio(&ours, &raws);
    let (ours, raws) = (median(ours), median(raws));
    figures.note("one a request: ours", ours, "/s");
    figures.note("one a request: p50", median(p50), "ms");
    figures.note("one a request: p99", median(p99), "ms");
    figures.note("raw single transactions, 64 connections", raws, "/s");
    figures.at_least("one a request, to raw single transactions", to_raw, "x", 1.2);
    Ok(())
}

async fn ndjson(plan: &Plan, figures: &mut Figures, postgres: &Postgres) -> Result<()> {
    let (mut ours, mut raws, mut bare) = (vec![], vec![], vec![]);
    // Two seconds instead of one, and five times: the first thousand make the tenants and patterns that all others find, and
    // single pairs differ by a seventh.
    let (runs, pairs) = (2 * plan.runs, plan.pairs.max(5));
    for pair in 0..pairs {
        let database = postgres.store().await?;
        postgres.sql("CHECKPOINT")?;
        let server = Server::start(&plan.redrive, StoreLocation::Database(database.url()))?;
        let spent = CpuTime::since(postgres, &[&server])?;
        let seen = many_a_request(&server, "m", 0..runs, REQUESTS_AT_ONCE).await?;
        if pair == 0 {
            spent.note(figures, "NDJSON", runs, seen.took)?;
        }
        server.stop()?;
        let rows = rows_of(database.url()).await?;
        if pair == 0 {
            let bytes =
                number(&database, "SELECT pg_database_size(current_database()) - pg_database_size('template0')")?;
            figures.note("stored bytes a failure, indexes and all", bytes / runs as f64, "B");
        }
        drop(database);
        ours.push(per_second(runs, seen.took));
        let each = Each::Many(LINES as usize);
        raws.push(raw(postgres, &rows, (each, What::All), REQUESTS_AT_ONCE, runs).await?);
        bare.push(raw(postgres, &rows, (each, What::Rows), REQUESTS_AT_ONCE, runs).await?);
    }
    let [to_raw, to_bare] = [&raws, &bare].map(|raw| median_ratio(&ours, raw));
    let [ours, raws, bare] = [ours, raws, bare].map(median);
    figures.note("NDJSON: ours", ours, "/s");
    figures.note("raw UNNEST of 1,000, 4 connections", raws, "/s");
    figures.note("raw UNNEST of 1,000, without the counters", bare, "/s");
    figures.at_least("NDJSON, to raw UNNEST of 1,000", to_raw, "x", 0.7);
    figures.note("NDJSON, to raw UNNEST of 1,000 without the counters", to_bare, "x");
    Ok(())
}

/// What a replica costs while it works.
fn cost(figures: &mut Figures, database: &Database, server: &Server) -> Result<()> {
    figures.note("memory of a replica, loaded", server.memory_mib(), "MiB");
    let connections = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()";
    figures.note("connections of a replica, loaded with reports", number(database, connections)?, "");
    Ok(())
}

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
            let arrays = places.iter().zip(columns).map(|(parameter, (_, kind))| format!("{parameter}::{kind}[]"));
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
