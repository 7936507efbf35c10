//! Reports over HTTP into PostgreSQL, one a request and a thousand a request, beside raw PostgreSQL.

use anyhow::Result;
use private_postgres::Database;

use super::place::{Place, number};
use super::processors::Spent;
use super::raw_ingest::{Each, Rows, rows_of, write};
use crate::Plan;
use crate::figures::{Figures, median, per_second, to};
use crate::ingest::{CONNECTIONS, LINES, many_a_request, one_a_request};
use crate::load::Seen;
use crate::process::{At, Server};
use crate::raw::What;

const REQUESTS_AT_ONCE: usize = 4;

pub async fn measure(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    if plan.wants("ingest") {
        println!("Reports into PostgreSQL, one a request, {CONNECTIONS} connections");
        single(plan, figures, place).await?;
    }
    println!("Reports into PostgreSQL, NDJSON of {LINES}, {REQUESTS_AT_ONCE} connections");
    ndjson(plan, figures, place).await
}

/// The rows that it wrote, written again into a store of their own.
async fn raw(place: &Place, rows: &Rows, (each, what): (Each, What), connections: usize, runs: u64) -> Result<f64> {
    let beside = place.store().await?;
    place.sql("CHECKPOINT")?;
    Ok(per_second(runs, write(beside.url(), rows, each, what, connections).await?))
}

async fn single(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    let (mut ours, mut raws, mut p50, mut p99) = (vec![], vec![], vec![], vec![]);
    for pair in 0..plan.pairs {
        let database = place.store().await?;
        place.sql("CHECKPOINT")?;
        let server = Server::start(&plan.redrive, At::Database(database.url()))?;
        if pair == 0 {
            figures.note("memory of a replica, idle", server.memory_mib(), "MiB");
        }
        let spent = Spent::since(place, &[&server])?;
        let seen = one_a_request(&server, "s", plan.runs, CONNECTIONS).await?;
        if pair == 0 {
            spent.note(figures, "one a request", plan.runs, seen.took)?;
            cost(figures, &database, &server)?;
        }
        server.stop()?;
        let rows = rows_of(database.url()).await?;
        drop(database);
        let Seen { took, p50_ms, p99_ms } = seen;
        ours.push(per_second(plan.runs, took));
        p50.push(p50_ms);
        p99.push(p99_ms);
        raws.push(raw(place, &rows, (Each::One, What::Rows), CONNECTIONS, plan.runs).await?);
    }
    let to_raw = to(&ours, &raws);
    let (ours, raws) = (median(ours), median(raws));
    figures.note("one a request: ours", ours, "/s");
    figures.note("one a request: p50", median(p50), "ms");
    figures.note("one a request: p99", median(p99), "ms");
    figures.note("raw single transactions, 64 connections", raws, "/s");
    figures.at_least("one a request, to raw single transactions", to_raw, "x", 1.2);
    Ok(())
}

async fn ndjson(plan: &Plan, figures: &mut Figures, place: &Place) -> Result<()> {
    let (mut ours, mut raws, mut bare) = (vec![], vec![], vec![]);
    // Two seconds instead of one, and five times: the first thousand make the tenants and patterns that all others find, and
    // single pairs differ by a seventh.
    let (runs, pairs) = (2 * plan.runs, plan.pairs.max(5));
    for pair in 0..pairs {
        let database = place.store().await?;
        place.sql("CHECKPOINT")?;
        let server = Server::start(&plan.redrive, At::Database(database.url()))?;
        let spent = Spent::since(place, &[&server])?;
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
        raws.push(raw(place, &rows, (each, What::All), REQUESTS_AT_ONCE, runs).await?);
        bare.push(raw(place, &rows, (each, What::Rows), REQUESTS_AT_ONCE, runs).await?);
    }
    let [to_raw, to_bare] = [&raws, &bare].map(|raw| to(&ours, raw));
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
