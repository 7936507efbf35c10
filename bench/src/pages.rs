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
use crate::process::Server;
use crate::raw::DATABASE;

const SMALL: u64 = 10_000;
const ROUNDS: usize = 31;
/// A search that finds nothing: it looks at so many rows at most, and says so.
const SEARCH: &str = "/runs?state=dead&severity=critical";
const PAGES: [&str; 13] = [
    "/",
    "/runs?state=dead",
    "/runs",
    SEARCH,
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
    let mut times = Vec::new();
    for runs in [SMALL, plan.large] {
        let data = folder.path().join(runs.to_string());
        made::fill(&data, runs).await?;
        let_time_stand_still(&data)?;
        let server = Server::start(&plan.redrive, &data)?;
        let of_size = visit_all(&server, runs, figures)?;
        server.stop()?;
        times.push(of_size);
    }
    for (at, page) in PAGES.iter().enumerate() {
        let what = format!("{page}, with a million against ten thousand");
        match *page {
            SEARCH => figures.note(what, times[1][at] / times[0][at], "x"),
            _ => figures.at_most(what, times[1][at] / times[0][at], "x", 3.0),
        }
    }
    Ok(())
}

/// Generated runs fell due long ago, and the engine would be busy with them while pages are measured.
fn let_time_stand_still(data: &Path) -> Result<()> {
    let conn = rusqlite::Connection::open(data.join(DATABASE))?;
    conn.execute_batch(
        "UPDATE runs SET due = 4000000000000 + id WHERE due IS NOT NULL; PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

fn visit_all(server: &Server, runs: u64, figures: &mut Figures) -> Result<Vec<f64>> {
    let pattern = fail(server)?;
    let form = format!("key={}", server.key);
    let answer = ask(server, "POST", "/login", "", "application/x-www-form-urlencoded", &form)?;
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
    let cookie = cookie.context("no session")?.to_owned();
    let mut times = Vec::new();
    for page in PAGES {
        let path = page.replace("{pattern}", &pattern);
        let mut waits = Vec::new();
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let answer = ask(server, "GET", &path, &cookie, "text/plain", "")?;
            waits.push(began.elapsed().as_secs_f64() * 1e3);
            ensure!(answer.starts_with("HTTP/1.1 200"), "{page}: {}", answer.lines().next().unwrap_or_default());
            bytes = answer.len();
        }
        let p50 = median(waits);
        figures.note(format!("{page}, {runs} runs: p50"), p50, "ms");
        figures.at_most(format!("{page}, {runs} runs: weight"), bytes as f64 / 1024.0, "KiB", 150.0);
        times.push(p50);
    }
    Ok(times)
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
