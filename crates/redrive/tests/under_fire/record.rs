//! Producers and workers, the record of what they were told, and the check of the store against it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::common::lot::Lot;
use crate::fleet::Caller;

const CHECKERS: u64 = 4;

/// A failed attempt that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) attempt: u64,
    pub(crate) mark: String,
}

#[derive(Default)]
struct OfRun {
    failures: Vec<Acknowledged>,
    /// The leases under which a success was acknowledged.
    successes: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Record {
    runs: Mutex<BTreeMap<String, OfRun>>,
    leases: Mutex<BTreeSet<(String, String)>>,
    produced: AtomicU64,
    ends: AtomicU64,
    quiet: AtomicU64,
    lost: AtomicU64,
}

/// How the runs ended.
#[derive(Default)]
pub(crate) struct Ended {
    succeeded: u64,
    dead: u64,
    failures: u64,
    quiet: u64,
    lost: u64,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { succeeded, dead, failures, quiet, lost } = self;
        write!(
            f,
            "{succeeded} succeeded once, {dead} dead, {failures} acknowledged failures there, {quiet} left unfinished, \
             {lost} endings refused because a newer attempt had begun"
        )
    }
}

fn add(to: &AtomicU64) {
    to.fetch_add(1, Ordering::SeqCst);
}

impl Record {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<String, OfRun>> {
        self.runs.lock().unwrap()
    }

    pub(crate) fn queued(&self, n: u64) {
        self.runs().entry(run_id(n)).or_default();
        add(&self.produced);
    }

    pub(crate) fn reported(&self, n: u64, acknowledged: Acknowledged) {
        self.runs().entry(run_id(n)).or_default().failures.push(acknowledged);
        add(&self.produced);
    }

    pub(crate) fn granted(&self, run: &str, lease: &str) {
        let first = self.leases.lock().unwrap().insert((run.to_owned(), lease.to_owned()));
        assert!(first, "{run}: the same lease was given to two");
    }

    pub(crate) fn failed(&self, run: &str, acknowledged: Acknowledged) {
        self.runs().entry(run.to_owned()).or_default().failures.push(acknowledged);
        add(&self.ends);
    }

    pub(crate) fn succeeded(&self, run: &str, lease: &str) {
        self.runs().entry(run.to_owned()).or_default().successes.push(lease.to_owned());
        add(&self.ends);
    }

    pub(crate) fn quiet(&self) {
        add(&self.quiet);
    }

    pub(crate) fn lost(&self) {
        add(&self.lost);
    }

    pub(crate) fn produced(&self) -> u64 {
        self.produced.load(Ordering::SeqCst)
    }

    pub(crate) fn ends(&self) -> u64 {
        self.ends.load(Ordering::SeqCst)
    }

    /// Every run is there and over: by one success that a worker was told of, or dead for silences and no success.
    pub(crate) fn check(&self, runs: u64, caller: &(impl Fn() -> Caller + Sync)) -> Ended {
        let known = self.runs();
        assert_eq!(known.len() as u64, runs);
        let part = |first: u64| {
            let (mut caller, mut ended) = (caller(), Ended::default());
            for n in (first..runs).step_by(CHECKERS as usize) {
                check_run(&mut caller, n, &known[&run_id(n)], &mut ended);
            }
            ended
        };
        let mut all = Ended {
            quiet: self.quiet.load(Ordering::SeqCst),
            lost: self.lost.load(Ordering::SeqCst),
            ..Ended::default()
        };
        std::thread::scope(|threads| {
            let part = &part;
            let checking: Vec<_> = (0..CHECKERS).map(|first| threads.spawn(move || part(first))).collect();
            for checked in checking {
                let checked = checked.join().unwrap();
                all.succeeded += checked.succeeded;
                all.dead += checked.dead;
                all.failures += checked.failures;
            }
        });
        all
    }
}

fn check_run(caller: &mut Caller, n: u64, known: &OfRun, ended: &mut Ended) {
    let answer = caller.get(&format!("/v1/runs/{}?tenant=acme", run_id(n)));
    assert!(answer.status == 200 && answer.text.contains(&payload(n)), "{n}: {} {}", answer.status, answer.text);
    let run = answer.json();
    match (run["state"].as_str().unwrap(), known.successes.as_slice()) {
        ("succeeded" | "recovered", [_]) => ended.succeeded += 1,
        ("dead", []) => {
            assert_eq!(run["dead_because"], "poison", "{run}");
            ended.dead += 1;
        }
        (state, successes) => panic!("{n} is {state}, and workers were told of {successes:?}: {run}"),
    }
    let attempts = run["attempts"].as_array().unwrap();
    let numbers: BTreeSet<u64> = attempts.iter().map(|attempt| attempt["attempt"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), attempts.len(), "an attempt has two outcomes: {run}");
    for one in &known.failures {
        let kept = attempts.iter().find(|attempt| attempt["attempt"] == one.attempt);
        let detail = kept.and_then(|kept| kept["error"]["detail"].as_str());
        assert_eq!(detail, Some(one.mark.as_str()), "attempt {}: {run}", one.attempt);
        ended.failures += 1;
    }
}

const LINES: usize = 20;

pub(crate) fn run_id(n: u64) -> String {
    format!("run-{n}")
}

pub(crate) fn payload(n: u64) -> String {
    format!(r#"{{"n": {n}.0e0,  "of":"{}"}}"#, run_id(n))
}

/// Every other run is queued, the rest are reported as failures, many in a call.
pub(crate) fn produce(mut caller: Caller, record: &Record, numbers: impl Iterator<Item = u64>) {
    let mut lines = Vec::new();
    for n in numbers {
        if n / 2 % 2 == 0 {
            let body =
                format!(r#"{{"mode":"enqueue","tenant":"acme","run_id":"{}","payload":{}}}"#, run_id(n), payload(n));
            let answer = caller.post("/v1/runs", &body);
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
            record.queued(n);
        } else {
            lines.push(n);
        }
        if lines.len() == LINES {
            report(&mut caller, record, &std::mem::take(&mut lines));
        }
    }
    report(&mut caller, record, &lines);
}

fn report(caller: &mut Caller, record: &Record, numbers: &[u64]) {
    let line = |n: &u64| {
        format!(
            r#"{{"tenant":"acme","run_id":"{}","attempt":1,"payload":{},"error":{{"message":"Request timed out","detail":"reported-{n}"}}}}"#,
            run_id(*n),
            payload(*n)
        )
    };
    let mut left = numbers.to_vec();
    while !left.is_empty() {
        let body = left.iter().map(line).collect::<Vec<_>>().join("\n");
        let answer = caller.post_lines("/v1/failures", &body);
        let statuses = answer.text.lines().map(|said| serde_json::from_str::<Value>(said).unwrap()["status"].clone());
        let said: Vec<(u64, Value)> = left.iter().copied().zip(statuses).collect();
        assert_eq!(said.len(), left.len(), "{}", answer.text);
        // A line that was refused for now is sent again; one that is there already is answered as before.
        left = said.iter().filter(|(_, status)| *status == 503).map(|(n, _)| *n).collect();
        for (n, status) in said.iter().filter(|(_, status)| *status != 503) {
            assert!(*status == 201 || *status == 200, "{}", answer.text);
            record.reported(*n, Acknowledged { attempt: 1, mark: format!("reported-{n}") });
        }
    }
}

/// Leases, and ends what it has leased: mostly well, now and then not, and now and then not at all.
pub(crate) fn work(mut caller: Caller, record: &Record, lot: &Lot, worker: u64, over: &AtomicBool) {
    let mut ended = 0_u64;
    while !over.load(Ordering::SeqCst) {
        let body = json!({"tenant": "acme", "queues": ["*"], "max": 1 + lot.below(10), "worker": format!("w{worker}"), "wait_ms": 200});
        // What a call without an answer was given, nobody hears of: it is missed, and comes again.
        let Some(answer) = caller.once("POST", "/v1/leases", "application/json", &body.to_string()) else { continue };
        assert_eq!(answer.status, 200, "{}", answer.text);
        for given in answer.json()["leases"].as_array().unwrap() {
            let (run, lease) = (given["run_id"].as_str().unwrap(), given["lease"].as_str().unwrap());
            record.granted(run, lease);
            ended += 1;
            end(&mut caller, record, lot, (run, lease), &format!("w{worker}-{ended}"));
        }
    }
}

fn end(caller: &mut Caller, record: &Record, lot: &Lot, (run, lease): (&str, &str), mark: &str) {
    match lot.below(50) {
        0 => record.quiet(),
        1..=5 => {
            let error = json!({"message": "Request timed out", "detail": mark});
            let body = json!({"tenant": "acme", "lease": lease, "error": error});
            let answer = caller.post(&format!("/v1/runs/{run}/fail"), &body.to_string());
            match answer.status {
                200 | 201 => {
                    let attempt = answer.json()["attempt"].as_u64().unwrap();
                    record.failed(run, Acknowledged { attempt, mark: mark.to_owned() });
                }
                _ => refused(record, &answer),
            }
        }
        _ => {
            let body = json!({"tenant": "acme", "lease": lease, "output": {"by": mark}});
            let answer = caller.post(&format!("/v1/runs/{run}/succeed"), &body.to_string());
            match answer.status {
                200 => record.succeeded(run, lease),
                _ => refused(record, &answer),
            }
        }
    }
}

/// The only reason to refuse a worker's ending: its lease expired, and a newer attempt has begun.
fn refused(record: &Record, answer: &crate::common::http::Answer) {
    assert_eq!(answer.short(), (409, "lease_lost".into()), "{}", answer.text);
    record.lost();
}
