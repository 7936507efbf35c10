//! Worst cases: one ordinary tenant beside a hostile one that sends deep JSON, 300,000 attempts of one run, 100,000 queue
//! names, stalled bodies, floods of leases and `/readyz`, and steps with the largest outputs. Measures the ordinary
//! tenant's report latency alone and under attack, and the server's memory. Everything is bounded and stays local.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::Plan;
use crate::figures::Figures;
use crate::load::Connection;
use crate::process::{Server, StoreLocation, peak_memory_mib};

/// The ordinary tenant alone, beside everything at once, and beside one part of it.
const ALONE: Duration = Duration::from_secs(10);
const BESIDE: Duration = Duration::from_secs(45);
const BESIDE_PART: Duration = Duration::from_secs(5);
/// The ordinary tenant's connections, and how long each waits after an answer.
const ORDINARY: usize = 2;
const PAUSE: Duration = Duration::from_millis(5);
/// No request waits longer; a server that does not answer by then has been stopped by the other tenant.
const ANSWER_MAX: Duration = Duration::from_secs(40);
/// The hostile load runs at low priority: in reality it has its own machine.
const HOSTILE_NICE: i32 = 10;

const ATTEMPTS: usize = 300_000;
const QUEUES: usize = 100_000;
const LINES_PER_BODY: usize = 50_000;
const STEPS: usize = 400;
const OUTPUT_BYTES: usize = 60_000;
const DEEP: usize = 100_000;
const STALLED: usize = 8;
const BODY_BYTES: usize = 16 * 1024 * 1024;

/// The goals.
const SLOWER_MAX: f64 = 3.0;
const MEMORY_MAX_MIB: f64 = 512.0;

/// What the hostile tenant does. Those that send once come before those that read what they left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Attempts,
    Queues,
    Outputs,
    Deep,
    LongRun,
    WideRun,
    Plan,
    Leases,
    Readyz,
    Stalled,
}

const PARTS: [(Part, &str); 10] = [
    (Part::Attempts, "attempts"),
    (Part::Queues, "queues"),
    (Part::Outputs, "outputs"),
    (Part::Deep, "deep"),
    (Part::LongRun, "long-run"),
    (Part::WideRun, "wide-run"),
    (Part::Plan, "plan"),
    (Part::Leases, "leases"),
    (Part::Readyz, "readyz"),
    (Part::Stalled, "stalled"),
];

pub async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("\none hostile tenant beside an ordinary one");
    let chosen: Vec<(Part, &str)> = match plan.part.as_deref() {
        Some(name) => vec![*PARTS.iter().find(|(_, known)| *known == name).with_context(names)?],
        None => PARTS.to_vec(),
    };
    let folder = tempfile::tempdir()?;
    if plan.part.is_none() {
        let world = World::start(plan, StoreLocation::Folder(&folder.path().join("all")))?;
        world.all_at_once(figures).await?;
    }
    let world = World::start(plan, StoreLocation::Folder(&folder.path().join("parts")))?;
    world.one_by_one(&chosen, figures).await
}

fn names() -> String {
    format!("--part takes one of {}", PARTS.map(|(_, name)| name).join(", "))
}

/// A server, and both tenants' keys.
struct World {
    server: Server,
    ordinary: String,
    hostile: Hostile,
}

impl World {
    fn start(plan: &Plan, at: StoreLocation<'_>) -> Result<Self> {
        let server = Server::start(&plan.redrive, at)?;
        let hostile = Hostile {
            address: server.address.clone(),
            worker: key(plan, at, "worker", "hostile")?,
            tenant: key(plan, at, "tenant", "hostile")?,
            stop: Arc::new(AtomicBool::new(false)),
            answered: Arc::new(AtomicU64::new(0)),
        };
        Ok(Self { ordinary: key(plan, at, "worker", "ordinary")?, server, hostile })
    }

    async fn all_at_once(self, figures: &mut Figures) -> Result<()> {
        let alone = self.reports("alone", ALONE).await?;
        let mut attack = self.hostile.begin(PARTS.map(|(part, _)| part).to_vec())?;
        let beside = self.reports("beside", BESIDE).await?;
        attack.end().await;
        figures.note("ordinary tenant alone, p99 of a report", alone.p99_ms, "ms");
        figures.note("… half of them within", alone.p50_ms, "ms");
        figures.note("… beside a hostile one, half of them within", beside.p50_ms, "ms");
        figures.note("… beside a hostile one", beside.p99_ms, "ms");
        figures.note("… the slowest", beside.worst_ms, "ms");
        figures.at_most("… beside to alone", beside.p99_ms / alone.p99_ms, "×", SLOWER_MAX);
        figures.at_most("… reports that were refused or lost", beside.refused as f64, "", 0.0);
        figures.at_most("server's peak memory", peak_memory_mib(self.server.id()), "MiB", MEMORY_MAX_MIB);
        figures.note("answers that the hostile tenant got", self.hostile.answered.load(Ordering::Relaxed) as f64, "");
        self.server.stop()
    }

    /// Each part alone, after what it reads has been written.
    async fn one_by_one(self, chosen: &[(Part, &str)], figures: &mut Figures) -> Result<()> {
        let alone = self.reports("alone", BESIDE_PART).await?;
        for (part, name) in chosen {
            for written in part.reads() {
                if !chosen.iter().any(|(other, _)| other == written) {
                    self.hostile.begin(vec![*written])?.finish().await;
                }
            }
            let before = self.hostile.answered.load(Ordering::Relaxed);
            let mut attack = self.hostile.begin(vec![*part])?;
            let beside = self.reports(name, BESIDE_PART).await?;
            // What is only sent once is there for the parts that read it.
            if part.is_sent_once() {
                attack.finish().await;
            } else {
                attack.end().await;
            }
            let answered = self.hostile.answered.load(Ordering::Relaxed) - before;
            figures.note(format!("… beside {name} alone, {answered} answers, half within"), beside.p50_ms, "ms");
            figures.note(format!("… beside {name} alone, p99"), beside.p99_ms, "ms");
            figures.note(format!("… beside {name} to alone"), beside.p99_ms / alone.p99_ms, "×");
        }
        figures.note("server's peak memory, part by part", peak_memory_mib(self.server.id()), "MiB");
        self.server.stop()
    }

    /// The ordinary tenant has a thread of its own, so that no answer to it waits behind one to the other.
    async fn reports(&self, name: &str, lasts: Duration) -> Result<OrdinaryLoad> {
        let (address, key, name) = (self.server.address.clone(), self.ordinary.clone(), name.to_owned());
        let thread = std::thread::Builder::new().name("ordinary".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(reports(&address, &key, &name, lasts))
        })?;
        tokio::task::spawn_blocking(move || thread.join())
            .await?
            .map_err(|_| anyhow!("the ordinary tenant panicked"))?
    }
}

impl Part {
    fn is_sent_once(self) -> bool {
        matches!(self, Self::Attempts | Self::Queues | Self::Outputs)
    }

    /// What has to be there before.
    fn reads(self) -> &'static [Self] {
        match self {
            Self::LongRun => &[Self::Attempts],
            Self::WideRun | Self::Plan => &[Self::Outputs],
            Self::Leases => &[Self::Queues],
            Self::Attempts | Self::Queues | Self::Outputs | Self::Deep | Self::Readyz | Self::Stalled => &[],
        }
    }
}

/// A hostile load under way, on a thread of its own.
struct Attack {
    stop: Arc<AtomicBool>,
    cut: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    /// Cuts off calls that still wait for an answer.
    async fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(cut) = self.cut.take() {
            let _ = cut.send(());
        }
        self.finish().await;
    }

    /// Waits for the answers of what is sent once.
    async fn finish(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

fn key(plan: &Plan, at: StoreLocation<'_>, role: &str, tenant: &str) -> Result<String> {
    let made = Command::new(&plan.redrive)
        .args(["keys", "create", "--role", role, "--tenant", tenant, "--json"])
        .args(at.flags())
        .output()
        .context("no key")?;
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).context("no key")?;
    Ok(made["key"].as_str().context("no key")?.to_owned())
}

/// What the ordinary tenant saw.
struct OrdinaryLoad {
    p50_ms: f64,
    p99_ms: f64,
    worst_ms: f64,
    refused: usize,
}

/// Reports one by one for so long, over a few connections.
async fn reports(address: &str, key: &str, name: &str, lasts: Duration) -> Result<OrdinaryLoad> {
    let until = Instant::now() + lasts;
    let mut set = JoinSet::new();
    for line in 0..ORDINARY {
        let (address, key, name) = (address.to_owned(), key.to_owned(), name.to_owned());
        set.spawn(async move {
            let (mut connection, mut waits, mut refused) = (None, Vec::new(), 0);
            let mut number = 0;
            while Instant::now() < until {
                number += 1;
                let body = format!(
                    r#"{{"run_id":"{name}-{line}-{number}","payload":{{"n":{number}}},"error":{{"message":"Request timed out"}}}}"#
                );
                let request = request("POST", "/v1/failures", &key, "application/json", body.as_bytes());
                let sent = Instant::now();
                let answered = tokio::time::timeout(ANSWER_MAX, ask(&mut connection, &address, &request)).await;
                waits.push(sent.elapsed());
                if !matches!(answered, Ok(Ok(200 | 201))) {
                    (refused, connection) = (refused + 1, None);
                }
                tokio::time::sleep(PAUSE).await;
            }
            (waits, refused)
        });
    }
    let (mut waits, mut refused) = (Vec::new(), 0);
    while let Some(done) = set.join_next().await {
        let (more, lost) = done?;
        waits.extend(more);
        refused += lost;
    }
    waits.sort();
    let ms = |wait: Option<&Duration>| wait.map_or(f64::NAN, |wait| wait.as_secs_f64() * 1e3);
    Ok(OrdinaryLoad {
        p50_ms: ms(waits.get(waits.len() / 2)),
        p99_ms: ms(waits.get(waits.len() * 99 / 100)),
        worst_ms: ms(waits.last()),
        refused,
    })
}

fn request(method: &str, path: &str, key: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Over the connection that is there, or a new one; one that failed is let go.
async fn ask(connection: &mut Option<Connection>, address: &str, request: &[u8]) -> Result<u16> {
    let mut line = match connection.take() {
        Some(line) => line,
        None => Connection::open(address).await?,
    };
    let status = line.post(request).await?;
    *connection = Some(line);
    Ok(status)
}

#[derive(Clone)]
struct Hostile {
    address: String,
    worker: String,
    tenant: String,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Hostile {
    /// These parts at once, each in a thread that gives way to the server.
    fn begin(&self, parts: Vec<Part>) -> Result<Attack> {
        self.stop.store(false, Ordering::Relaxed);
        let (cut, until) = oneshot::channel();
        let hostile = self.clone();
        let thread = std::thread::Builder::new().name("hostile".into()).spawn(move || {
            let _ = rustix::process::setpriority_process(None, HOSTILE_NICE);
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
            runtime.block_on(async {
                let mut set = JoinSet::new();
                parts.into_iter().for_each(|part| hostile.add(part, &mut set));
                let done = async { while set.join_next().await.is_some() {} };
                // Dropped with the runtime, whatever still waits.
                tokio::select! { () = done => {} Ok(()) = until => {} }
            });
        })?;
        Ok(Attack { stop: self.stop.clone(), cut: Some(cut), thread: Some(thread) })
    }

    fn add(&self, part: Part, set: &mut JoinSet<()>) {
        match part {
            Part::Attempts => self.once(set, self.many_attempts()),
            Part::Queues => self.once(set, self.many_queues()),
            Part::Outputs => self.once(set, self.large_outputs()),
            Part::Deep => self.again(set, 2, self.deep()),
            Part::LongRun => self.again(set, 8, self.get("/v1/runs/long?limit=500")),
            Part::WideRun => self.again(set, 2, self.get("/v1/runs/wide?limit=500")),
            Part::Plan => self.again(set, 2, self.get("/v1/runs/wide/plan")),
            Part::Leases => {
                let lease = br#"{"queues":["*"],"max":1000,"lease_ms":5000}"#;
                self.again(set, 4, request("POST", "/v1/leases", &self.worker, "application/json", lease));
            }
            Part::Readyz => self.again(set, 4, self.get("/readyz")),
            Part::Stalled => {
                for at in 0..STALLED {
                    self.stall(set, if at % 2 == 0 { "/v1/failures" } else { "/login" });
                }
            }
        }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        request("GET", path, &self.tenant, "application/json", b"")
    }

    fn bodies(&self, lines: usize, line: impl Fn(usize) -> String) -> Vec<Vec<u8>> {
        let numbers: Vec<usize> = (0..lines).collect();
        let body = |piece: &[usize]| piece.iter().map(|n| line(*n)).collect::<Vec<_>>().join("\n");
        let send =
            |piece| request("POST", "/v1/failures", &self.worker, "application/x-ndjson", body(piece).as_bytes());
        numbers.chunks(LINES_PER_BODY).map(send).collect()
    }

    fn many_attempts(&self) -> Vec<Vec<u8>> {
        self.bodies(ATTEMPTS, |n| format!(r#"{{"run_id":"long","error":{{"message":"KeyError: 'k{n}'"}}}}"#))
    }

    fn many_queues(&self) -> Vec<Vec<u8>> {
        self.bodies(QUEUES, |n| {
            format!(r#"{{"run_id":"q-{n}","queue":"queue-{n}","error":{{"message":"Request timed out"}}}}"#)
        })
    }

    /// A report of one run with as many large outputs as a body takes.
    fn large_outputs(&self) -> Vec<Vec<u8>> {
        let output = "x".repeat(OUTPUT_BYTES);
        let body = |from: usize| {
            let step =
                |n: usize| format!(r#"{{"name":"s{n}","effect":false,"status":"committed","output":"{output}"}}"#);
            let steps: Vec<String> = (from..from + STEPS / 4).map(step).collect();
            let error = format!(r#"{{"message":"KeyError: 'wide {from}'"}}"#);
            format!(r#"{{"run_id":"wide","error":{error},"steps":[{}]}}"#, steps.join(","))
        };
        let send = |at| request("POST", "/v1/failures", &self.worker, "application/json", body(at).as_bytes());
        (0..4).map(|part| send(part * STEPS / 4)).collect()
    }

    fn deep(&self) -> Vec<u8> {
        let payload = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
        let body = format!(r#"{{"run_id":"deep","payload":{payload},"error":{{"message":"Request timed out"}}}}"#);
        request("POST", "/v1/failures", &self.worker, "application/json", body.as_bytes())
    }

    /// Sends each of them once, one after the other.
    fn once(&self, set: &mut JoinSet<()>, requests: Vec<Vec<u8>>) {
        let (address, answered) = (self.address.clone(), self.answered.clone());
        set.spawn(async move {
            for request in requests {
                if ask(&mut None, &address, &request).await.is_ok() {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }

    /// Sends it again and again over so many connections.
    fn again(&self, set: &mut JoinSet<()>, connections: usize, request: Vec<u8>) {
        let request = Arc::new(request);
        for _ in 0..connections {
            let (address, request) = (self.address.clone(), request.clone());
            let (stop, answered) = (self.stop.clone(), self.answered.clone());
            set.spawn(async move {
                let mut connection = None;
                while !stop.load(Ordering::Relaxed) {
                    match ask(&mut connection, &address, &request).await {
                        Ok(_) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                        // Refused connections must not become a loop that eats the bench's own processor.
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
            });
        }
    }

    /// Promises a large body and sends one byte of it; hung up on, it begins again.
    fn stall(&self, set: &mut JoinSet<()>, path: &'static str) {
        let (address, key, stop) = (self.address.clone(), self.worker.clone(), self.stop.clone());
        set.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let stalled = async {
                    let mut stream = TcpStream::connect(&address).await?;
                    let head = format!(
                        "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n{{"
                    );
                    stream.write_all(head.as_bytes()).await?;
                    let mut answer = [0; 1024];
                    tokio::io::AsyncReadExt::read(&mut stream, &mut answer).await
                };
                let _ = stalled.await;
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
}
