//! What producers and workers were told, and whether the store says the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::caller::Caller;
use crate::work::{payload, run_id};

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
             {lost} endings refused since somebody had begun anew"
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
