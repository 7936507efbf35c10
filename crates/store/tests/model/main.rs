//! A store against a small reference model: random actions of several tenants with colliding ids. Each answer and each
//! touched run is compared after every group of actions, and counters are recounted now and then. A failure prints its
//! seed; `REDRIVE_SEED` repeats it.

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
mod one_lease;
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

/// Sizes of the tests: the full size on SQLite; fewer worlds of the same size on PostgreSQL, where each call costs round
/// trips.
struct Size {
    /// Over all worlds: L1.
    acts: usize,
    /// Many short lives: a run with hundreds of attempts is slow to read and teaches nothing new.
    worlds: usize,
    batches: usize,
    /// Over all oracles: R1.
    replays: usize,
    oracles: usize,
    /// Over all worlds: B1.
    rounds: usize,
    probings: usize,
    /// Over all worlds: B2.
    breaker_acts: usize,
    breakings: usize,
    fair_worlds: usize,
    /// Attempts in which everything happens at once, over as many worlds as there are at a time.
    busy_attempts: usize,
}

const SIZE: Size = Size {
    acts: 100_000,
    worlds: 50,
    batches: 1_000,
    replays: 10_000,
    oracles: 125,
    rounds: 10_000,
    probings: 20,
    breaker_acts: 20_000,
    breakings: 20,
    fair_worlds: 8,
    busy_attempts: 2_000,
};
const SIZE_OVER_THE_WIRE: Size = Size {
    acts: 8_000,
    worlds: 4,
    batches: 100,
    replays: 960,
    oracles: 12,
    rounds: 400,
    probings: 4,
    breaker_acts: 4_000,
    breakings: 4,
    fair_worlds: 2,
    busy_attempts: 400,
};

fn size() -> &'static Size {
    if private_postgres::is_meant(module_path!()) { &SIZE_OVER_THE_WIRE } else { &SIZE }
}

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
fn every_action_matches_the_model() {
    let (moved, skipped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    in_worlds(size().worlds, async |lot| {
        let mut play = Play::new(lot).await;
        play.acts(size().acts / size().worlds).await;
        play.audit().await;
        moved.fetch_add(play.moved, Ordering::Relaxed);
        skipped.fetch_add(play.skipped, Ordering::Relaxed);
    });
    let (moved, skipped) = (moved.into_inner(), skipped.into_inner());
    println!("{} acts, {moved} runs moved by operations, {skipped} left alone since they had changed", size().acts);
    // A short play may have none.
    assert!(size().acts < SIZE.acts || (moved > 0 && skipped > 0), "operations moved and skipped nothing");
}

/// B1: exactly one probe until it settles or its lease ends; a crashed one frees the slot.
#[test]
fn half_open_admits_one_probe_at_a_time() {
    let fates = Mutex::new(BTreeMap::new());
    in_worlds(size().probings, async |lot| {
        let mut probing = probes::Probing::new(lot).await;
        probing.rounds(size().rounds / size().probings).await;
        let mut all = fates.lock().unwrap();
        probing.fates.iter().for_each(|(fate, n)| *all.entry(*fate).or_insert(0) += n);
    });
    let fates = fates.into_inner().unwrap();
    println!("{} rounds: {fates:?}", size().rounds);
    assert_eq!((fates.len(), fates.values().sum::<usize>()), (probes::FATES.len(), size().rounds));
}

/// B2: a late result changes nothing, and one tenant's failures never move another's breaker. Limits hold.
#[test]
fn breakers_match_the_model() {
    let seen = Mutex::new(BTreeMap::new());
    in_worlds(size().breakings, async |lot| {
        let mut breaking = breaking::Breaking::new(lot).await;
        breaking.acts(size().breaker_acts / size().breakings).await;
        let mut all = seen.lock().unwrap();
        breaking.seen.iter().for_each(|(what, n)| *all.entry(*what).or_insert(0) += n);
    });
    let seen = seen.into_inner().unwrap();
    println!("{} acts: {seen:?}", size().breaker_acts);
    assert_eq!(seen.len(), breaking::KINDS, "what nobody saw proves nothing: {seen:?}");
}

const NEWCOMERS: usize = 25;

/// L7: ten due runs of a tenant get their turns, whatever the backlog of others.
#[test]
fn small_tenants_get_their_turn_despite_any_backlog() {
    in_worlds(size().fair_worlds, async |lot| {
        let mut fair = fairness::Fair::new(lot).await;
        for _ in 0..NEWCOMERS {
            fair.newcomer().await;
        }
    });
}

/// R1, L2 within one attempt: an effect is done by one call at a time and once in all, and an attempt ends once.
#[test]
fn parallel_calls_under_one_lease_do_an_effect_once() {
    let seen = Mutex::new(one_lease::Seen::new());
    in_worlds(AT_ONCE, async |lot| {
        let mut attempts = one_lease::OneLease::new(lot).await;
        for n in 0..size().busy_attempts / AT_ONCE {
            attempts.round(n).await;
        }
        let mut all = seen.lock().unwrap();
        attempts.seen.iter().for_each(|(what, n)| *all.entry(*what).or_insert(0) += n);
    });
    let seen = seen.into_inner().unwrap();
    println!("{} attempts: {seen:?}", size().busy_attempts);
    assert_eq!(seen.len(), one_lease::KINDS, "what nobody saw proves nothing: {seen:?}");
}

/// D2: good, repeated and conflicting items in one batch, each answered as if sent alone.
#[test]
fn a_batch_is_answered_item_by_item() {
    let seed = lot::seed();
    for world in 0..size().batches / BATCHES_IN_A_WORLD {
        block_on(async {
            let mut play = Play::new(Lot::new(seed.wrapping_add(world as u64))).await;
            for _ in 0..BATCHES_IN_A_WORLD {
                play.batch().await;
            }
            play.audit().await;
        });
    }
}

/// R1: a committed step is never offered for execution again, on any path there is.
#[test]
fn a_committed_step_is_never_offered_again() {
    let paths = Mutex::new(oracle::Paths::new());
    in_worlds(size().oracles, async |lot| {
        println!("world {}", lot.seed);
        let mut oracle = oracle::Oracle::new(lot).await;
        oracle.replays(size().replays / size().oracles).await;
        assert_eq!(oracle.done_more_than_once(), 0, "of {}", oracle.done());
        let mut all = paths.lock().unwrap();
        oracle.paths.iter().for_each(|(path, n)| *all.entry(path).or_default() += n);
    });
    let paths = paths.into_inner().unwrap();
    println!("{} replays: {paths:?}", size().replays);
    assert_eq!(paths.len(), PATHS, "a path that nobody took proves nothing: {paths:?}");
}

/// Ways for a run to begin, to end, and for a doubt to be settled.
const PATHS: usize = 19;
