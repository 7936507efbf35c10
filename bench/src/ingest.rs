//! Reports coming in: one a request and a thousand a request, on an empty store and on a large one.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;

use crate::Plan;
use crate::figures::{Figures, median, median_ratio, per_second};
use crate::load::{LoadResult, report, requests, send};
use crate::process::{Server, StoreLocation};
use crate::raw::{self, DATABASE, What};

pub const CONNECTIONS: usize = 64;
pub const LINES: u64 = 1_000;
/// Connections that send a thousand at a time.
const SENDERS: usize = 8;
/// Rows that raw SQLite writes at one a transaction: enough to know its rate, without waiting for all.
const ONE_BY_ONE: usize = 5_000;

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir_in("target")?;
    println!("Reports, one a request, {CONNECTIONS} connections");
    single(plan, figures, folder.path()).await?;
    println!("Reports, NDJSON of {LINES}, {SENDERS} connections");
    ndjson(plan, figures, folder.path()).await?;
    large(plan, figures, folder.path()).await
}

pub async fn one_a_request(server: &Server, series: &str, runs: u64, connections: usize) -> Result<LoadResult> {
    let requests = requests(&server.key, "application/json", (0..runs).map(|n| report(series, n)));
    send(&server.address, connections, requests).await
}

pub async fn many_a_request(server: &Server, series: &str, runs: Range<u64>, connections: usize) -> Result<LoadResult> {
    let bodies = runs.step_by(LINES as usize).map(|first| {
        let lines = (first..first + LINES).map(|n| report(series, n));
        lines.fold(String::new(), |body, line| body + &line + "\n")
    });
    send(&server.address, connections, requests(&server.key, "application/x-ndjson", bodies)).await
}

/// Piece by piece, since the requests are held in memory.
async fn fill(server: &Server, runs: u64) -> Result<()> {
    const PIECE: u64 = 100_000;
    for first in (0..runs).step_by(PIECE as usize) {
        many_a_request(server, "fill", first..(first + PIECE).min(runs), 4).await?;
    }
    Ok(())
}

fn commits(store: &Path) -> Result<f64> {
    let conn = rusqlite::Connection::open(store.join(DATABASE))?;
    Ok(conn.query_row("SELECT count(*) FROM changes", [], |row| row.get(0))?)
}

async fn single(plan: &Plan, figures: &mut Figures, folder: &Path) -> Result<()> {
    let (mut ours, mut same, mut bare, mut ones) = (vec![], vec![], vec![], vec![]);
    let (mut p50, mut p99) = (vec![], vec![]);
    let mut batch = 0.0;
    for pair in 0..plan.pairs {
        let store = folder.join(format!("single-{pair}"));
        let server = Server::start(&plan.redrive, StoreLocation::Folder(&store))?;
        if pair == 0 {
            figures.at_most("start-up, empty store", server.started_in.as_secs_f64() * 1e3, "ms", 50.0);
            figures.at_most("memory, idle", server.memory_mib(), "MiB", 25.0);
        }
        let seen = one_a_request(&server, "s", plan.runs, CONNECTIONS).await?;
        figures.note("memory after the load", server.memory_mib(), "MiB");
        server.stop()?;
        batch = plan.runs as f64 / commits(&store)?;
        let rows = raw::rows_of(&store, plan.runs)?;
        ours.push(per_second(plan.runs, seen.took));
        p50.push(seen.p50_ms);
        p99.push(seen.p99_ms);
        let reached = batch.round() as usize;
        same.push(per_second(plan.runs, raw::write(&store, &rows, reached, usize::MAX, What::All)?));
        bare.push(per_second(plan.runs, raw::write(&store, &rows, reached, usize::MAX, What::Rows)?));
        ones.push(per_second(ONE_BY_ONE as u64, raw::write(&store, &rows, 1, ONE_BY_ONE, What::Rows)?));
    }
    let [to_same, to_bare, to_ones] = [&same, &bare, &ones].map(|raw| median_ratio(&ours, raw));
    let [ours, same, bare, ones] = [ours, same, bare, ones].map(median);
    figures.note("one a request: ours", ours, "/s");
    figures.note("one a request: batch that the committer reached", batch, "");
    figures.note("one a request: p50", median(p50), "ms");
    figures.note("one a request: p99", median(p99), "ms");
    figures.note("raw at that batch", same, "/s");
    figures.note("raw at that batch, without the counters", bare, "/s");
    figures.note("raw at one a transaction, without the counters", ones, "/s");
    figures.at_least("one a request, to raw at the same batch", to_same, "x", 0.7);
    figures.note("one a request, to raw at the same batch without the counters", to_bare, "x");
    figures.at_least("one a request, to raw at one a transaction", to_ones, "x", 3.0);
    Ok(())
}

async fn ndjson(plan: &Plan, figures: &mut Figures, folder: &Path) -> Result<()> {
    let (mut ours, mut same, mut bare) = (vec![], vec![], vec![]);
    let mut batch = 0.0;
    for pair in 0..plan.pairs {
        let store = folder.join(format!("many-{pair}"));
        let server = Server::start(&plan.redrive, StoreLocation::Folder(&store))?;
        let seen = many_a_request(&server, "m", 0..plan.runs, SENDERS).await?;
        server.stop()?;
        batch = plan.runs as f64 / commits(&store)?;
        let rows = raw::rows_of(&store, plan.runs)?;
        ours.push(per_second(plan.runs, seen.took));
        same.push(per_second(plan.runs, raw::write(&store, &rows, LINES as usize, usize::MAX, What::All)?));
        bare.push(per_second(plan.runs, raw::write(&store, &rows, LINES as usize, usize::MAX, What::Rows)?));
        if pair == 0 {
            cost(figures, &store, plan.runs)?;
        }
    }
    let [to_same, to_bare] = [&same, &bare].map(|raw| median_ratio(&ours, raw));
    let [ours, same, bare] = [ours, same, bare].map(median);
    figures.note("NDJSON: ours", ours, "/s");
    figures.note("NDJSON: batch that the committer reached", batch, "");
    figures.note("raw at 1,000 a transaction", same, "/s");
    figures.note("raw at 1,000 a transaction, without the counters", bare, "/s");
    figures.at_least("NDJSON, to raw at 1,000 a transaction", to_same, "x", 0.8);
    figures.note("NDJSON, to raw at 1,000 a transaction without the counters", to_bare, "x");
    Ok(())
}

/// What a failure costs on disk.
fn cost(figures: &mut Figures, store: &Path, runs: u64) -> Result<()> {
    let conn = rusqlite::Connection::open(store.join(DATABASE))?;
    let rows: f64 = conn.query_row(
        "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM attempts) + (SELECT count(*) FROM payloads)
              + (SELECT count(*) FROM history) + (SELECT count(*) FROM steps)",
        [],
        |row| row.get(0),
    )?;
    figures.at_most("rows a failure, beside folded counters", rows / runs as f64, "rows", 3.0);
    let bytes = std::fs::metadata(store.join(DATABASE))?.len();
    figures.note("stored bytes a failure, indexes and all", bytes as f64 / runs as f64, "B");
    Ok(())
}

/// The same two with many runs in the store already, each beside an empty one.
async fn large(plan: &Plan, figures: &mut Figures, folder: &Path) -> Result<()> {
    println!("The same with {} runs in the store", plan.large);
    let store = folder.join("large");
    let server = Server::start(&plan.redrive, StoreLocation::Folder(&store))?;
    fill(&server, plan.large).await?;
    server.stop()?;
    let server = Server::start(&plan.redrive, StoreLocation::Folder(&store))?;
    figures.at_most("start-up, large store", server.started_in.as_secs_f64() * 1e3, "ms", 100.0);
    let mut ratios = vec![];
    for pair in 0..plan.pairs {
        let load = async |server: &Server| one_a_request(server, &format!("l{pair}"), plan.runs, CONNECTIONS).await;
        ratios.push(beside(plan, &server, &folder.join(format!("beside-one-{pair}")), load).await?);
    }
    figures.at_least("one a request, large store to empty", median(ratios), "x", 0.6);
    figures.at_most("memory, loaded", server.memory_mib(), "MiB", 150.0);
    let mut ratios = vec![];
    for pair in 0..plan.pairs {
        let load = async |server: &Server| many_a_request(server, &format!("k{pair}"), 0..plan.runs, SENDERS).await;
        ratios.push(beside(plan, &server, &folder.join(format!("beside-many-{pair}")), load).await?);
    }
    figures.at_least("NDJSON, large store to empty", median(ratios), "x", 0.6);
    server.stop()
}

/// One load on the large store and at once on an empty one: how the rates stand to each other.
async fn beside(
    plan: &Plan,
    large: &Server,
    folder: &Path,
    load: impl AsyncFn(&Server) -> Result<LoadResult>,
) -> Result<f64> {
    let empty = Server::start(&plan.redrive, StoreLocation::Folder(folder))?;
    let (in_large, in_empty) = (load(large).await?.took, load(&empty).await?.took);
    empty.stop()?;
    Ok(in_empty.as_secs_f64() / in_large.as_secs_f64())
}
