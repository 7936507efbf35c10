//! Many seeds, played. A broken promise prints its seed, the smallest plan that still breaks it, and that play.
//! The first seeds are the same each time, so that a change is judged by the plays of the one before it; `REDRIVE_SEED`
//! begins elsewhere, `REDRIVE_SIM_SEEDS` and `REDRIVE_SIM_OPERATIONS` say how many.

#![allow(clippy::panic, clippy::expect_used, clippy::print_stdout, reason = "a promise that does not hold fails")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use redrive_engine::{Clock as _, SystemClock};
use redrive_sim::{Kind, Outcome, Plan, play, shrink};

fn number(name: &str, otherwise: impl FnOnce() -> u64) -> u64 {
    std::env::var(name).ok().map_or_else(otherwise, |given| given.parse().expect("a number"))
}

fn store() -> Kind {
    std::env::var("REDRIVE_SIM_STORE").ok().map(|name| name.parse().expect("a store")).unwrap_or_default()
}

/// Ends with the play to be read.
fn tell(plan: Plan, outcome: &Outcome) -> ! {
    let (small, told) = shrink(plan, outcome);
    let from = told.trace.len().saturating_sub(400);
    told.trace[from..].iter().for_each(|line| println!("{line}"));
    println!("{}", outcome.violation.as_deref().unwrap_or_default());
    panic!("seed {} breaks {}; smaller: {small:?}", plan.seed, told.violation.unwrap_or_default());
}

#[test]
fn every_promise_holds_over_many_seeds() {
    let (first, seeds) = (number("REDRIVE_SEED", || 1), number("REDRIVE_SIM_SEEDS", || 12));
    let operations = number("REDRIVE_SIM_OPERATIONS", || 1_000);
    println!("REDRIVE_SEED={first}");
    let (next, done, broken) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(None));
    let began = SystemClock.now();
    let play_on = || {
        while broken.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let n = next.fetch_add(1, Ordering::SeqCst);
            if n >= seeds {
                return;
            }
            let plan = Plan { store: store(), ..Plan::new(first.wrapping_add(n), operations) };
            let outcome = play(plan);
            done.fetch_add(outcome.operations, Ordering::SeqCst);
            if outcome.violation.is_some() {
                *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some((plan, outcome));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(play_on);
        }
    });
    let took = SystemClock.now().since(began).max(1);
    let done = done.into_inner();
    println!("{seeds} seeds, {done} operations, {} a second", done * 1_000 / took);
    if let Some((plan, outcome)) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        tell(plan, &outcome);
    }
}

#[test]
fn the_same_seed_gives_the_same_play() {
    for seed in [1, 2, 3] {
        let plan = Plan { trace_lines: usize::MAX, store: store(), ..Plan::new(seed, 600) };
        let (one, other) = (play(plan), play(plan));
        let differ = one.trace.iter().zip(&other.trace).position(|(one, other)| one != other);
        if let Some(at) = differ {
            panic!("seed {seed}, line {at}:\n{}\n{}", one.trace[at], other.trace[at]);
        }
        assert_eq!((one.hash, one.operations), (other.hash, other.operations), "seed {seed}");
    }
}

/// Seeds that once broke a promise, with how many operations it took.
const KEPT: &[(u64, u64)] = &[(5_045, 1_000), (2_483_917_661, 1_000)];

#[test]
fn seeds_that_once_broke_a_promise_keep_it() {
    for (seed, operations) in KEPT {
        let plan = Plan { store: store(), ..Plan::new(*seed, *operations) };
        let outcome = play(plan);
        if outcome.violation.is_some() {
            tell(plan, &outcome);
        }
    }
}
