//! The real binary under faults: killed, stopped, cut off, delayed, out of disk space, while many clients work and record
//! every answer. At the end the store is checked against that record. A call without an answer counts as *maybe*.

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
mod proxy;
mod server;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::chance::Chance;
use crate::check::Record;
use crate::faults::{FaultCounts, FaultInjector};
use crate::proxy::{CLIENT_CONNECTIONS, Proxy};
use crate::server::Server;
use crate::store::Store;

const CLIENTS: u64 = 12;

struct Args {
    binary: PathBuf,
    minutes: f64,
    seed: u64,
    store: String,
}

fn args() -> Result<Args> {
    let mut args = Args { binary: PathBuf::new(), minutes: 1.0, seed: chance::fresh(), store: "sqlite".into() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--binary" => args.binary = value.into(),
            "--minutes" => args.minutes = value.parse()?,
            "--seed" => args.seed = value.parse()?,
            "--store" => args.store = value,
            other => bail!("unknown: {other}"),
        }
    }
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
    let store = Store::of(&args.store, args.minutes, args.seed)?;
    let server = Server::new(&args.binary, &store)?;
    let key = server.start()?;
    let proxy = Proxy::start(server.address(), CLIENT_CONNECTIONS, args.seed)?;
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
        let (chance, counts) = (Chance::new(args.seed), FaultCounts::default());
        let strike = FaultInjector { server: &server, proxy: &proxy, store: &store, record: &record, chance, counts };
        let counts = strike.run_for(time);
        over.store(true, Ordering::SeqCst);
        let panicked = clients.into_iter().map(std::thread::ScopedJoinHandle::join).filter(Result::is_err).count();
        counts.map(|faults| (faults, panicked))
    });
    let (faults, panicked) = ended?;
    server.restart_in_peace()?;
    let mut anomalies = check::all(&server, &store, &key, &record)?;
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
