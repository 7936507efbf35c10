//! R2: a worker process is killed between intent and outcome, at named and random moments. The intent is on disk before the
//! effect may start; the killed worker's effect is `unknown`; nothing continues without a person.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use redrive_client::{Client, start};
use serde_json::Value;

use crate::common::http::Http;
use crate::common::lot::{self, Lot};
use crate::replays::Bank;
use crate::support::{Server, folder, wait_for};

const KILLS: usize = 100;
const KILLS_AT_RANDOM: usize = 40;
const AT_ONCE: usize = 4;
/// The shortest lease there is: the dead are missed soon.
const LEASE_MS: u64 = 500;
/// A worker's whole life in milliseconds, more or less.
const LIFE_MS: u64 = 120;

/// Where a worker says that it is, and waits to be killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// The intent is acknowledged; nothing has happened yet.
    Intent,
    /// It has happened; nobody was told.
    Done,
    /// Wherever it is by then.
    Random,
}

impl Moment {
    fn word(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Done => "done",
            Self::Random => "random",
        }
    }
}

#[test]
fn effect_of_a_killed_worker_waits_for_a_person() {
    let (bank, folder) = (Bank::open(), folder());
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    let moments: Vec<Moment> = (0..KILLS).map(|n| if n % 2 == 0 { Moment::Intent } else { Moment::Done }).collect();
    kill_each(&server, &bank, &moments, &Lot::new(lot::seed()));

    let mut http = Http::new(&server.url, &key);
    for (n, moment) in moments.iter().enumerate() {
        let run = judged(&mut http, n);
        assert_eq!((&run["state"], &run["dead_because"]), (&"dead".into(), &"unsafe".into()), "run {n}: {run}");
        assert_eq!((&run["steps"][0]["status"], &run["next_attempt_at"]), (&"unknown".into(), &Value::Null));
        assert_eq!(bank.done.times(&charge(n)), u32::from(*moment == Moment::Done), "run {n}");
    }
    let leased = http.post("/v1/leases", r#"{"queues":["*"],"max":1000}"#).unwrap().json();
    assert_eq!(leased["leases"], Value::Array(Vec::new()), "none of them is handed out again");
    let replay = http.post("/v1/runs/run-0/replay?tenant=acme", "{}").unwrap();
    assert_eq!(replay.short(), (409, "effect_unknown".into()));
    println!("{KILLS} workers killed between intent and outcome");
}

#[test]
fn killed_worker_leaves_no_effect_unknown_to_the_ledger() {
    let (bank, folder) = (Bank::open(), folder());
    let server = Server::start(folder.path());
    let key = server.key.clone().unwrap();
    kill_each(&server, &bank, &[Moment::Random; KILLS_AT_RANDOM], &Lot::new(lot::seed()));

    let mut http = Http::new(&server.url, &key);
    let (mut before, mut between, mut after) = (0, 0, 0);
    for n in 0..KILLS_AT_RANDOM {
        if http.get(&format!("/v1/runs/run-{n}?tenant=acme")).unwrap().status == 404 {
            before += 1;
            assert_eq!(bank.done.times(&charge(n)), 0, "run {n}: an effect without a run");
            continue;
        }
        let run = judged(&mut http, n);
        let times = bank.done.times(&charge(n));
        match run["steps"][0]["status"].as_str() {
            None => {
                before += 1;
                assert_eq!(times, 0, "run {n}: an effect without an intent");
            }
            Some("unknown") => {
                between += 1;
                assert_eq!((&run["state"], times <= 1), (&"dead".into(), true), "{run}");
            }
            Some("committed") => {
                after += 1;
                assert_eq!(times, 1, "run {n}");
            }
            other => panic!("run {n} left {other:?}"),
        }
    }
    println!("{KILLS_AT_RANDOM} killed: {before} before the intent, {between} in between, {after} after the outcome");
}

fn charge(n: usize) -> String {
    format!("run-{n}:charge")
}

/// A run once its silence was noticed.
fn judged(http: &mut Http, n: usize) -> Value {
    wait_for("a verdict on the killed one's run", || {
        let shown = http.get(&format!("/v1/runs/run-{n}?tenant=acme")).unwrap().json();
        (shown["state"] != "running").then_some(shown)
    })
}

/// A worker for each, a few at a time, killed at its moment.
fn kill_each(server: &Server, bank: &Bank, moments: &[Moment], lot: &Lot) {
    let lives: Vec<u64> = moments.iter().map(|_| lot.below(LIFE_MS)).collect();
    let next = Mutex::new(0);
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                loop {
                    let n = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        *next - 1
                    };
                    let Some(moment) = moments.get(n) else { return };
                    let worker = worker(server, bank, n, *moment);
                    kill_at(worker, *moment, lives[n]);
                }
            });
        }
    });
}

/// This test program itself, as a worker.
fn worker(server: &Server, bank: &Bank, n: usize, moment: Moment) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["workers::work_until_killed", "--exact", "--ignored", "--nocapture"])
        .env("WORKER_URL", &server.url)
        .env("WORKER_KEY", server.key.as_ref().unwrap())
        .env("WORKER_BANK", &bank.url)
        .env("WORKER_RUN", format!("run-{n}"))
        .env("WORKER_WAITS_AT", moment.word())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill_at(mut worker: Child, moment: Moment, life_ms: u64) {
    let lines = BufReader::new(worker.stdout.take().unwrap()).lines().map_while(Result::ok);
    // At random: so long after it is ready, wherever it is by then.
    let awaited = if moment == Moment::Random { "ready" } else { moment.word() };
    let seen = lines.into_iter().any(|line| line.ends_with(awaited));
    assert!(seen, "the worker ended before {awaited}");
    if moment == Moment::Random {
        std::thread::sleep(std::time::Duration::from_millis(life_ms));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[test]
#[ignore = "the worker process that the tests above start and kill"]
fn work_until_killed() {
    let of = |name: &str| std::env::var(name).expect("started by the test");
    let waits_at = of("WORKER_WAITS_AT");
    let moment = |name: &str| {
        println!("{name}");
        if waits_at == name {
            loop {
                std::thread::park();
            }
        }
    };
    let (run_id, bank) = (of("WORKER_RUN"), of("WORKER_BANK"));
    let effect = format!("{run_id}:charge");
    let client = Client::new(&of("WORKER_URL"), &of("WORKER_KEY")).unwrap().for_tenant("acme".parse().unwrap());
    let mut begin = start(run_id.parse().unwrap());
    begin.lease_ms = Some(LEASE_MS);
    moment("ready");
    let work = async {
        let run = client.begin(begin).await.unwrap().expect_begun().unwrap();
        let times: Result<String, _> = run
            .effect("charge_card", &effect, async {
                moment("intent");
                let said = Http::new(&bank, "").post(&format!("/{effect}"), "")?;
                moment("done");
                Ok::<_, std::io::Error>(said.text)
            })
            .await;
        println!("charged {}", times.unwrap());
        run.succeed(&"done").await.unwrap();
    };
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work);
}
