//! Several replicas over one PostgreSQL, each killed again and again, the database restarted in between: every run ends once
//! by the workers' own record, and nothing that was acknowledged is lost. `REDRIVE_CHAOS_RUNS` says how many runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on should say where, and one that can should say how far it went"
)]

#[path = "../common/mod.rs"]
mod common;
mod fleet;
mod record;
#[path = "../support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use common::lot::{self, Lot};
use fleet::{Caller, Fleet};
use record::Record;
use support::wait_for;

const REPLICAS: usize = 3;
const WORKERS: u64 = 8;
const PRODUCERS: u64 = 6;
const RUNS: u64 = 2_000;
/// A replica is killed each time so many attempts have ended; of many runs, so many that it is every few seconds.
const ENDS_A_KILL: u64 = 100;
const KILLS_MAX: u64 = 250;

/// A lease that nobody heard of, and a retry, cost a second or two: the budget is wide, and two silences poison nothing.
const QUEUE: &str = r#"{"owner":"chaos","policy":{"max_attempts":50,"schedule_ms":[1000],"lease_ms":5000,
    "strategy":{"silent":{"delay_ms":1000}}}}"#;

#[test]
fn every_run_ends_once_despite_kills_and_database_restarts() {
    let runs = std::env::var("REDRIVE_CHAOS_RUNS").map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    let lot = Lot::new(lot::seed());
    let mut fleet = Fleet::start(REPLICAS);
    let (urls, key) = (fleet.urls(), fleet.key().to_owned());
    let caller = || Caller::new(&urls, &key);
    assert_eq!(caller().put("/v1/queues/default", QUEUE).status, 200);
    let (record, over) = (Record::default(), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let _over = Over(&over);
        for n in 0..PRODUCERS {
            let (caller, record) = (caller(), &record);
            threads
                .spawn(move || record::produce(caller, record, (n..runs).step_by(usize::try_from(PRODUCERS).unwrap())));
        }
        for n in 0..WORKERS {
            let (caller, record, over, lot) = (caller(), &record, &over, Lot::new(lot.below(u64::MAX)));
            threads.spawn(move || record::work(caller, record, &lot, n, over));
        }
        strike(&mut fleet, &record, &lot, runs);
        let mut asking = caller();
        wait_for_all(&mut asking, &record, runs);
    });
    let ended = record.check(runs, &caller);
    fleet.check();
    println!("{runs} runs over {REPLICAS} replicas: {ended}; {fleet}");
}

/// Lets the workers go home, also when this test can't go on.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Kills replica after replica as the work goes on, and restarts the database after a third of it as a crash would, after
/// two as an administrator would.
fn strike(fleet: &mut Fleet, record: &Record, lot: &Lot, runs: u64) {
    let step = ENDS_A_KILL.max(runs / KILLS_MAX);
    let mut restarts = [(runs / 3, "immediate"), (runs * 2 / 3, "fast")].into_iter().peekable();
    for at in (step..runs).step_by(usize::try_from(step).unwrap()) {
        // The timeout restarts with each run that ends: a slow machine is no failure.
        let mut seen = record.ends();
        while seen < at {
            seen = wait_for("work to go on", || Some(record.ends()).filter(|ends| *ends > seen));
        }
        if let Some((_, mode)) = restarts.next_if(|(due, _)| *due <= at) {
            fleet.restart_database(mode);
        }
        fleet.kill_and_restart(lot.upto(REPLICAS));
    }
}

fn wait_for_all(asking: &mut Caller, record: &Record, runs: u64) {
    let open = |asking: &mut Caller| {
        let listed = asking.get("/v1/runs?tenant=acme&state=scheduled,running&limit=1&count=true").json();
        listed["total"].as_u64().unwrap()
    };
    // The timeout restarts with the remaining runs: the last ones may have to expire first.
    let mut left = u64::MAX;
    while record.produced() < runs || left > 0 {
        left = wait_for("one run fewer", || {
            let now = open(asking);
            (now < left || record.produced() < runs).then_some(now)
        });
    }
}
