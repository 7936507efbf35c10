//! Noninterference: no call of one tenant changes the answers of another. Each play runs twice from one seed:
//! tenant B's calls alone, and the same calls with tenant A's between them. Both call every route and every page, with names
//! that collide and with hostile numbers, names and sizes, and B must get the same bytes. Both come from one generator, so
//! that A's answers do not depend on B either.
//!
//! `REDRIVE_PLAYS=10000` plays more, and a failure prints the `REDRIVE_SEED` that repeats it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test's own tools may give up as loudly as the test itself"
)]

mod answers;
mod calls;
mod play;
mod player;
mod rng;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::play::{Batch, Difference, PLAYS_PER_WORLD};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// SQLite plays most of the 2,000: a play over PostgreSQL takes several times as long.
fn plays() -> u64 {
    number("REDRIVE_PLAYS", if is_postgres() { 200 } else { 1_800 })
}

fn is_postgres() -> bool {
    private_postgres::is_meant(module_path!())
}

/// Plays batches on all cores until enough differences are found: one, unless `REDRIVE_DIFFERENCES` says otherwise.
fn play_all(plays: u64, wire: bool) {
    let (first, batches) = (number("REDRIVE_SEED", 1), plays.div_ceil(PLAYS_PER_WORLD));
    let enough = usize::try_from(number("REDRIVE_DIFFERENCES", 1)).unwrap();
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::<Difference>::new()));
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while found.lock().unwrap().len() < enough {
            let n = next.fetch_add(1, Ordering::SeqCst);
            if n >= batches {
                return;
            }
            let batch = Batch { seed: first + n, plays: PLAYS_PER_WORLD.min(plays - n * PLAYS_PER_WORLD), wire };
            let differences = runtime.block_on(batch.play(enough));
            found.lock().unwrap().extend(differences);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().unwrap();
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", told.join("\n"));
}

#[test]
fn no_tenant_changes_what_another_is_answered() {
    play_all(plays(), false);
}

#[test]
fn no_tenant_changes_anothers_answers_on_the_wire() {
    play_all(number("REDRIVE_PLAYS", 25), true);
}

#[test]
fn every_route_and_page_is_called() {
    let missing = calls::routes_without_a_body();
    assert!(missing.is_empty(), "no body is written down for {missing:?}");
}
