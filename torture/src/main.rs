//! The real binary under torture: killed, stopped, cut off, delayed, without room on its disk, while many clients work
//! and keep a record of what they were told. At the end the store is held against that record. A call that nobody answered
//! is a *maybe*, and never more.

#![allow(clippy::print_stdout, reason = "a command-line tool: what it prints is what it is for")]

mod chance;
mod check;
mod clients;
mod faults;
#[path = "../../crates/redrive/tests/common/http.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared with the suites over the real binary"
)]
mod http;
mod place;
mod proxy;
mod record;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::chance::Chance;
use crate::place::Place;
use crate::proxy::Proxy;
use crate::record::Record;
use crate::server::Server;

const CLIENTS: u64 = 12;

/// Where runs are kept.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    Sqlite,
    /// Its address, and the command that restarts it, if it may be.
    Postgres {
        url: String,
        restart: Option<String>,
    },
}

struct Args {
    binary: PathBuf,
    minutes: f64,
    seed: u64,
    kept: Kept,
}

fn args() -> Result<Args> {
    let mut args = Args { binary: PathBuf::new(), minutes: 1.0, seed: chance::fresh(), kept: Kept::Sqlite };
    let (mut store, mut url, mut restart) = ("sqlite".to_owned(), None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => args.binary = value.into(),
            "--minutes" => args.minutes = value.parse()?,
            "--seed" => args.seed = value.parse()?,
            "--store" => store = value,
            "--database-url" => url = Some(value),
            "--restart-database" => restart = Some(value),
            other => bail!("unknown: {other}"),
        }
    }
    args.kept = match (store.as_str(), url) {
        ("sqlite", None) => Kept::Sqlite,
        ("postgres", Some(url)) => Kept::Postgres { url, restart },
        ("postgres", None) => bail!("--store postgres needs --database-url"),
        _ => bail!("--store is sqlite or postgres; only postgres has a --database-url"),
    };
    Ok(args)
}

fn main() -> ExitCode {
    match args().and_then(|args| torture(&args)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns how many anomalies there were.
fn torture(args: &Args) -> Result<usize> {
    println!("seed {}", args.seed);
    let place = Place::new(args.minutes)?;
    let server = Server::new(&args.binary, &place, args.kept.clone())?;
    let key = server.start()?;
    let proxy = Proxy::start(server.address(), args.seed)?;
    let record = Arc::new(Record::default());
    let over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| {
                let chance = Chance::new(args.seed.wrapping_mul(31).wrapping_add(n));
                let client = clients::Client::new(n, chance, proxy.address(), &key, &record, &over);
                scope.spawn(move || client.work())
            })
            .collect();
        let time = Duration::from_secs_f64(args.minutes * 60.0);
        let struck = faults::strike(&server, &proxy, &place, &Chance::new(args.seed), time);
        over.store(true, Ordering::SeqCst);
        let panicked = clients.into_iter().map(std::thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        struck.map(|faults| (faults, panicked))
    });
    let (faults, panicked) = ended?;
    server.restart()?;
    let mut anomalies = check::all(&server, &place, &key, &record, &args.kept)?;
    if panicked > 0 {
        anomalies.push(format!("{panicked} clients came upon an answer that they could not read"));
    }
    record.print();
    println!("faults: {faults}");
    anomalies.iter().take(20).for_each(|anomaly| println!("ANOMALY {anomaly}"));
    println!("{} anomalies, seed {}", anomalies.len(), args.seed);
    server.kill();
    Ok(anomalies.len())
}
