//! Reads: pages of the desk over HTTP, and the first page and exact count of every state in the store.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use redrive_core::run::StateName;
use redrive_core::wire::Sort;
use redrive_engine::{PageCall, RunFilter, Store, TenantScope};

use crate::figures::{Figures, median};
use crate::process::{Server, StoreLocation};
use crate::raw::DATABASE;
use crate::{Plan, raw};

const SMALL: u64 = 10_000;
const ROUNDS: usize = 31;
const PAGES: [&str; 13] = [
    "/",
    "/runs?state=dead",
    "/runs",
    "/runs?state=dead&severity=critical",
    "/runs/tenant-1/measured",
    "/runs/tenant-1/measured/fix",
    "/patterns",
    "/patterns/{pattern}",
    "/operations",
    "/tenants",
    "/tenants/tenant-1",
    "/queues",
    "/settings",
];

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("Pages of the desk");
    let folder = tempfile::tempdir_in("target")?;
    let mut desks = Vec::new();
    for runs in [SMALL, plan.large] {
        let data = folder.path().join(runs.to_string());
        raw::fill(&data, runs).await?;
        let_time_stand_still(&data)?;
        desks.push(Desk::open(Server::start(&plan.redrive, StoreLocation::Folder(&data))?, runs)?);
    }
    for page in PAGES {
        // In turn, so that whatever else the machine does falls on both alike.
        let mut waits = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (desk, waits) in desks.iter().zip(&mut waits) {
                waits.push(desk.visit(page)?.0);
            }
        }
        let [small, large] = waits.map(median);
        for (desk, p50) in desks.iter().zip([small, large]) {
            figures.note(format!("{page}, {} runs: p50", desk.runs), p50, "ms");
            figures.at_most(format!("{page}, {} runs: weight", desk.runs), desk.visit(page)?.1, "KiB", 150.0);
        }
        figures.at_most(format!("{page}, with a million against ten thousand"), large / small, "x", 3.0);
    }
    desks.into_iter().try_for_each(|desk| desk.server.stop())
}

/// A server, and somebody who is logged in there.
struct Desk {
    server: Server,
    runs: u64,
    cookie: String,
    pattern: String,
}

impl Desk {
    fn open(server: Server, runs: u64) -> Result<Self> {
        let pattern = fail(&server)?;
        let form = format!("key={}", server.key);
        let answer = ask(&server, "POST", "/login", "", "application/x-www-form-urlencoded", &form)?;
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        let cookie = cookie.context("no session")?.to_owned();
        Ok(Self { server, runs, cookie, pattern })
    }

    /// How long it takes in milliseconds, and how much comes in KiB.
    fn visit(&self, page: &str) -> Result<(f64, f64)> {
        let path = page.replace("{pattern}", &self.pattern);
        let began = Instant::now();
        let answer = ask(&self.server, "GET", &path, &self.cookie, "text/plain", "")?;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{page}: {}", answer.lines().next().unwrap_or_default());
        Ok((took_ms, answer.len() as f64 / 1024.0))
    }
}

/// Generated runs fell due long ago, and the engine would be busy with them while pages are measured.
fn let_time_stand_still(data: &Path) -> Result<()> {
    let conn = rusqlite::Connection::open(data.join(DATABASE))?;
    conn.execute_batch(
        "UPDATE runs SET due = 4000000000000 + id WHERE due IS NOT NULL; PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

/// A run with all its side rows, which generated ones have not.
fn fail(server: &Server) -> Result<String> {
    let report = r#"{"run_id":"measured","tenant":"tenant-1","payload":{"a":1},"error":{"message":"Invalid API key provided","http_status":401}}"#;
    let answer = ask(server, "POST", "/v1/failures", "", "application/json", report)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let json: serde_json::Value = serde_json::from_str(body.trim())?;
    json["pattern"]["id"].as_str().map(str::to_owned).context("no pattern")
}

fn ask(server: &Server, method: &str, path: &str, cookie: &str, media: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(&server.address)?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nAuthorization: Bearer {}\r\nContent-Type: {media}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        server.address,
        server.key,
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

const LIST_ROUNDS: usize = 101;

pub async fn measure_lists(plan: &Plan, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::tempdir_in("target")?;
    println!("First list page and exact count of every state");
    let mut slowest = Vec::new();
    for runs in [plan.large, plan.huge] {
        let store = folder.path().join(runs.to_string());
        raw::fill(&store, runs).await?;
        let store = raw::open(&store)?;
        slowest.push(slowest_ms(&store, runs, figures).await?);
        store.close().await;
    }
    figures.at_most("list and count, slowest state, large store: p50", slowest[0], "ms", 0.5);
    figures.at_most("the same with ten times as many", slowest[1] / slowest[0], "x", 2.0);
    Ok(())
}

/// The slowest state's p50.
pub async fn slowest_ms(store: &dyn Store, runs: u64, figures: &mut Figures) -> Result<f64> {
    let mut worst: f64 = 0.0;
    for state in StateName::ALL {
        let p50 = p50_ms(store, *state).await?;
        figures.note(format!("list and count, {state}, {runs} runs: p50"), p50, "ms");
        worst = worst.max(p50);
    }
    Ok(worst)
}

async fn p50_ms(store: &dyn Store, state: StateName) -> Result<f64> {
    let mut waits = Vec::new();
    for _ in 0..LIST_ROUNDS {
        let filter = RunFilter { states: vec![state], ..RunFilter::default() };
        let page = PageCall { sort: Sort::NewestFirst, limit: 50, cursor: None, count: true };
        let began = Instant::now();
        let page = store.runs(&TenantScope::All, filter, page).await?;
        waits.push(began.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(page.runs.len() == 50 && page.total.is_some(), "{state} is not listed");
    }
    Ok(median(waits))
}
