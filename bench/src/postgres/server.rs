//! The PostgreSQL server under test (one of our own on the disk of `target`, or an existing one), stores of generated rows
//! on it, and the CPU time that each process takes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use private_postgres::{Database, sql};
use redrive_core::policy::Policies;
use redrive_engine::{Store as _, SystemDice, encode};
use redrive_store::postgres::{Options, PgStore, WRITER_CONNECTIONS};
use tokio_postgres::{Client, NoTls};

use crate::Plan;
use crate::figures::Figures;
use crate::process::Server;

pub struct Postgres {
    url: String,
    /// Gone with us.
    _own: Option<private_postgres::Server>,
}

impl Postgres {
    pub fn of(plan: &Plan) -> Result<Self> {
        if let Some(url) = &plan.server {
            return Ok(Self { url: url.clone(), _own: None });
        }
        let folder = tempfile::tempdir_in("target")?;
        let own = private_postgres::Server::start_in(folder.keep().canonicalize()?).map_err(|e| anyhow!(e))?;
        Ok(Self { url: own.url().to_owned(), _own: Some(own) })
    }

    /// Its version and the settings that figures hang on; without durable commits there is nothing to compare.
    pub fn describe(&self) -> Result<String> {
        let durable = "SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') = 'on'";
        ensure!(
            self.sql(durable)? == "t",
            "fsync or synchronous_commit is off: what is measured would be worth nothing"
        );
        self.sql(
            "SELECT format('PostgreSQL %s, shared_buffers %s, max_wal_size %s, full_page_writes %s',
                 current_setting('server_version'), current_setting('shared_buffers'),
                 current_setting('max_wal_size'), current_setting('full_page_writes'))",
        )
    }

    pub fn sql(&self, statement: &str) -> Result<String> {
        sql(&self.url, statement).map_err(|e| anyhow!(e))
    }

    /// An empty database.
    pub fn database(&self) -> Result<Database> {
        Database::on(&self.url).map_err(|e| anyhow!(e))
    }

    pub fn copy_of(&self, name: &str) -> Result<Database> {
        let copy = Database::copy_of(name, &self.url).map_err(|e| anyhow!(e))?;
        // What was copied is on disk before anybody is measured.
        self.sql("CHECKPOINT")?;
        Ok(copy)
    }

    /// An empty store.
    pub async fn store(&self) -> Result<Database> {
        let database = self.database()?;
        open(&database).await?.close().await;
        Ok(database)
    }
}

/// A replica in this process.
pub async fn open(database: &Database) -> Result<Arc<PgStore>> {
    let options = Options {
        url: database.url().to_owned(),
        clock: None,
        dice: Arc::new(SystemDice),
        policies: Policies::default(),
        writer_connections: WRITER_CONNECTIONS,
    };
    Ok(Arc::new(PgStore::open(options).await?))
}

pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// What a statement says in one number.
pub fn number(database: &Database, statement: &str) -> Result<f64> {
    Ok(database.sql(statement).map_err(|e| anyhow!(e))?.parse()?)
}

/// What the runs of a store are.
#[derive(Debug, Clone, Copy)]
pub enum Dataset {
    /// In every state, in turn.
    Mixed,
    Due,
    Dead,
}

impl Dataset {
    fn name(self, runs: u64) -> String {
        format!("made_{self:?}_{runs}").to_lowercase()
    }

    /// The state of run `n`, as a number.
    fn state(self) -> &'static str {
        match self {
            Self::Mixed => "(n / 7) % 9",
            Self::Due => "0",
            Self::Dead => "2",
        }
    }
}

pub async fn copy(postgres: &Postgres, made: Dataset, runs: u64) -> Result<Database> {
    let name = made.name(runs);
    if postgres.sql(&format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'"))? == "0" {
        println!("  filling a store: {name}");
        let database = postgres.store().await?;
        database.sql(&fill(made, runs)).map_err(|e| anyhow!(e))?;
        database.sql("VACUUM ANALYZE").map_err(|e| anyhow!(e))?;
        database.keep_as(&name).map_err(|e| anyhow!(e))?;
    }
    postgres.copy_of(&name)
}

fn fill(made: Dataset, runs: u64) -> String {
    let state = made.state();
    let payload = format!("{{\"lines\":[1,2,3],\"note\":\"{}\"}}", "x".repeat(300));
    let bytes = payload.len();
    let [payload, about] = [payload.as_bytes(), b"{}"].map(|bytes| hex(&encode(bytes)));
    // Only the embedded store looks for runs by their hash.
    format!(
        "INSERT INTO tenants (name) SELECT 'tenant-' || i FROM generate_series(1, 100) AS i;
         INSERT INTO queues (name, settings, created_at) SELECT 'queue-' || i, '{{}}', 1 FROM generate_series(1, 10) AS i;
         INSERT INTO runs (tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision, reason,
             category, severity, received_at, updated_at, environment, agent, merged_into, replays, life)
         SELECT 1 + (n * 7919) % 100, 1 + n % 10, hashint8extended(n, 0), 'run-' || n, {state},
             CASE {state} WHEN 2 THEN 1 ELSE 0 END, CASE {state} WHEN 0 THEN 1000 + n END,
             CASE {state} WHEN 1 THEN 4000000000000 END, 1, 1,
             CASE n % 3 WHEN 0 THEN 'timeout' WHEN 1 THEN 'bug' ELSE 'rate_limited' END, n % 3, 1, 1000 + n, 1000 + n,
             'production', 'biller', CASE {state} WHEN 8 THEN 'target' END, 0, '{{\"pb\":{bytes}}}'
         FROM generate_series(1::bigint, {runs}) AS n;
         INSERT INTO payloads (run, revision, kind, digest, about, body)
         SELECT id, 1, 1, decode(repeat('05', 16), 'hex'), '\\x{about}', '\\x{payload}' FROM runs ORDER BY id;
         INSERT INTO counts (state, tenant, queue, reason, detail, n)
         SELECT state, tenant, queue, reason, detail, count(*) FROM runs GROUP BY 1, 2, 3, 4, 5;
         INSERT INTO totals (state, queue, reason, detail, n)
         SELECT state, queue, reason, detail, sum(n)::bigint FROM counts GROUP BY 1, 2, 3, 4;"
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The kernel counts in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds that were spent until now.
pub struct CpuTime {
    /// PostgreSQL's first process; all others are its children.
    postgres: u32,
    servers: Vec<u32>,
    before: [f64; 3],
}

impl CpuTime {
    pub fn since(postgres: &Postgres, servers: &[&Server]) -> Result<Self> {
        let first = postgres.sql("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)")?;
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
