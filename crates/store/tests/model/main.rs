//! Any store against a small reference model: random acts of several tenants whose ids collide, each answer and each
//! touched run compared after every group of acts, every counter recounted now and then. A failure prints its seed;
//! `REDRIVE_SEED` repeats it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    dead_code,
    reason = "a law that does not hold fails; the world is shared with the conformance suite"
)]

mod act;
mod audit;
mod begins;
mod breakers;
mod breaking;
mod fairness;
mod lot;
mod operations;
mod oracle;
mod oracle_attempts;
mod oracle_ways;
mod play;
mod probes;
mod reference;
mod steps;
mod workers;
#[path = "../conformance/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lot::Lot;
use play::Play;

/// Over all worlds: what the promise L1 asks for.
const ACTS: usize = 100_000;
/// Many short lives: a run with hundreds of attempts is slow to read and teaches nothing new.
const WORLDS: usize = 50;
const BATCHES: usize = 1_000;
const BATCHES_IN_A_WORLD: usize = 25;
const AT_ONCE: usize = 4;

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

/// Some worlds at a time, each from its own seed.
fn in_worlds(worlds: usize, live: impl AsyncFn(Lot) + Sync) {
    let seed = lot::seed();
    std::thread::scope(|threads| {
        for first in 0..AT_ONCE {
            let live = &live;
            threads.spawn(move || {
                for world in (first..worlds).step_by(AT_ONCE) {
                    block_on(live(Lot::new(seed.wrapping_add(world as u64))));
                }
            });
        }
    });
}

/// L1, L2, L6, T2: leases, epochs, attempts and counters, whatever happens in which order. R5: what was previewed is
/// exactly what is started.
#[test]
fn every_act_does_what_the_model_says_and_nothing_else() {
    let (moved, skipped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    in_worlds(WORLDS, async |lot| {
        let mut play = Play::new(lot).await;
        play.acts(ACTS / WORLDS).await;
        play.audit().await;
        moved.fetch_add(play.moved, Ordering::Relaxed);
        skipped.fetch_add(play.skipped, Ordering::Relaxed);
    });
    let (moved, skipped) = (moved.into_inner(), skipped.into_inner());
    println!("{ACTS} acts, {moved} runs moved by operations, {skipped} left alone since they had changed");
    assert!(moved > 0 && skipped > 0, "operations that do nothing prove nothing");
}

/// Over all worlds: what the promise B1 asks for.
const ROUNDS: usize = 10_000;
const PROBINGS: usize = 20;

/// B1: exactly one probe until it settles or its lease ends; a crashed one frees the slot.
#[test]
fn half_open_admits_one_probe_at_a_time() {
    let fates = Mutex::new(BTreeMap::new());
    in_worlds(PROBINGS, async |lot| {
        let mut probing = probes::Probing::new(lot).await;
        probing.rounds(ROUNDS / PROBINGS).await;
        let mut all = fates.lock().unwrap();
        probing.fates.iter().for_each(|(fate, n)| *all.entry(*fate).or_insert(0) += n);
    });
    let fates = fates.into_inner().unwrap();
    println!("{ROUNDS} rounds: {fates:?}");
    assert_eq!((fates.len(), fates.values().sum::<usize>()), (probes::FATES.len(), ROUNDS));
}

const BREAKER_ACTS: usize = 20_000;
const BREAKINGS: usize = 20;

/// B2: a late result moves nothing, one tenant's failures never move another's breaker. Limits are kept.
#[test]
fn breakers_stand_where_the_model_says() {
    let seen = Mutex::new(BTreeMap::new());
    in_worlds(BREAKINGS, async |lot| {
        let mut breaking = breaking::Breaking::new(lot).await;
        breaking.acts(BREAKER_ACTS / BREAKINGS).await;
        let mut all = seen.lock().unwrap();
        breaking.seen.iter().for_each(|(what, n)| *all.entry(*what).or_insert(0) += n);
    });
    let seen = seen.into_inner().unwrap();
    println!("{BREAKER_ACTS} acts: {seen:?}");
    assert_eq!(seen.len(), breaking::KINDS, "what nobody saw proves nothing: {seen:?}");
}

const FAIR_WORLDS: usize = 8;
const NEWCOMERS: usize = 25;

/// L7: whatever the others' backlog, ten due runs of another tenant come in their turns.
#[test]
fn ten_due_runs_come_within_their_turns_whatever_the_backlog_of_others() {
    in_worlds(FAIR_WORLDS, async |lot| {
        let mut fair = fairness::Fair::new(lot).await;
        for _ in 0..NEWCOMERS {
            fair.newcomer().await;
        }
    });
}

/// D2: good, repeated and conflicting items in one batch, each answered as if it had come alone.
#[test]
fn a_batch_is_answered_item_by_item() {
    let seed = lot::seed();
    for world in 0..BATCHES / BATCHES_IN_A_WORLD {
        block_on(async {
            let mut play = Play::new(Lot::new(seed.wrapping_add(world as u64))).await;
            for _ in 0..BATCHES_IN_A_WORLD {
                play.batch().await;
            }
            play.audit().await;
        });
    }
}

/// Over all worlds: what the promise R1 asks for.
const REPLAYS: usize = 10_000;
const ORACLES: usize = 125;

/// R1: a committed step is never offered for execution again, on any path there is.
#[test]
fn a_committed_step_is_never_offered_again() {
    let paths = Mutex::new(oracle::Paths::new());
    in_worlds(ORACLES, async |lot| {
        println!("world {}", lot.seed);
        let mut oracle = oracle::Oracle::new(lot, play::folder()).await;
        oracle.replays(REPLAYS / ORACLES).await;
        assert_eq!(oracle.done_more_than_once(), 0, "of {}", oracle.done());
        let mut all = paths.lock().unwrap();
        oracle.paths.iter().for_each(|(path, n)| *all.entry(path).or_default() += n);
    });
    let paths = paths.into_inner().unwrap();
    println!("{REPLAYS} replays: {paths:?}");
    assert_eq!(paths.len(), PATHS, "a path that nobody took proves nothing: {paths:?}");
}

/// Ways for a run to begin, to end, and for a doubt to be settled.
const PATHS: usize = 19;
