//! Whose processor time a load takes: the servers', PostgreSQL's, the bench's own.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::place::Place;
use crate::figures::Figures;
use crate::process::Server;

/// The kernel counts in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds that were spent until now.
pub struct Spent {
    /// PostgreSQL's first process; all others are its children.
    postgres: u32,
    servers: Vec<u32>,
    before: [f64; 3],
}

impl Spent {
    pub fn since(place: &Place, servers: &[&Server]) -> Result<Self> {
        let first = place.sql("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")?;
        let postgres = first.parse().context("PostgreSQL's first process")?;
        let servers = servers.iter().map(|server| server.id()).collect();
        let mut spent = Self { postgres, servers, before: [0.0; 3] };
        spent.before = spent.now();
        Ok(spent)
    }

    fn now(&self) -> [f64; 3] {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = processes.filter_map(|entry| Times::of(entry.file_name().to_str()?.parse().ok()?));
        let of_postgres = |times: &Times| times.process == self.postgres || times.parent == self.postgres;
        let of = |process: u32| Times::of(process).map_or(0.0, |times| times.seconds);
        [
            self.servers.iter().map(|server| of(*server)).sum(),
            all.filter(of_postgres).map(|times| times.seconds).sum(),
            of(std::process::id()),
        ]
    }

    /// In µs of one processor for each report, and how busy the machine's processors were with it.
    pub fn note(&self, figures: &mut Figures, work: &str, reports: u64, took: Duration) -> Result<()> {
        let now = self.now();
        let mut all = 0.0;
        for ((who, before), now) in ["redrive", "PostgreSQL", "the load"].iter().zip(self.before).zip(now) {
            figures.note(format!("{work}: processor time of {who}"), (now - before) * 1e6 / reports as f64, "µs");
            all += now - before;
        }
        let processors = std::thread::available_parallelism()?.get() as f64;
        figures.note(format!("{work}: processors busy"), all / took.as_secs_f64() / processors, "x");
        Ok(())
    }
}

struct Times {
    process: u32,
    parent: u32,
    /// Its own, and of its children that have ended.
    seconds: f64,
}

impl Times {
    fn of(process: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Behind the name, which may hold anything: the state, the parent, and from the twelfth the times.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks: f64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
        Some(Self { process, parent: fields.get(1)?.parse().ok()?, seconds: ticks / TICKS_PER_SECOND })
    }
}
