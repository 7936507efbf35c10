//! The desk's pages over HTTP, as a browser asks for them, at ten thousand runs and at a million: a page costs what it
//! shows, not what there is.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::Plan;
use crate::figures::{Figures, median};
use crate::made;
use crate::process::{At, Server};
use crate::raw::DATABASE;

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
        made::fill(&data, runs).await?;
        let_time_stand_still(&data)?;
        desks.push(Desk::open(Server::start(&plan.redrive, At::Folder(&data))?, runs)?);
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
