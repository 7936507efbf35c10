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
mod lot;
mod oracle;
mod play;
mod reference;
mod steps;
mod workers;
#[path = "../conformance/world.rs"]
mod world;

use lot::Lot;
use play::Play;

/// How far a store is tried: SQLite as far as the promises ask; a PostgreSQL, which costs a round trip where SQLite costs
/// a look, over fewer worlds of the same size.
struct Size {
    /// Over all worlds: L1.
    acts: usize,
    /// Many short lives: a run with hundreds of attempts is slow to read and teaches nothing new.
    worlds: usize,
    batches: usize,
    /// Over all oracles: R1.
    replays: usize,
    oracles: usize,
}

const SIZE: Size = Size { acts: 100_000, worlds: 50, batches: 1_000, replays: 10_000, oracles: 125 };
const SIZE_OVER_THE_WIRE: Size = Size { acts: 8_000, worlds: 4, batches: 100, replays: 960, oracles: 12 };

fn size() -> &'static Size {
    if private_postgres::is_meant(module_path!()) { &SIZE_OVER_THE_WIRE } else { &SIZE }
}

const BATCHES_IN_A_WORLD: usize = 25;
const AT_ONCE: usize = 4;

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

/// L1, L2, L6, T2: leases, epochs, attempts and counters, whatever happens in which order.
#[test]
fn every_act_does_what_the_model_says_and_nothing_else() {
    let seed = lot::seed();
    std::thread::scope(|threads| {
        for first in 0..AT_ONCE {
            threads.spawn(move || {
                for world in (first..size().worlds).step_by(AT_ONCE) {
                    block_on(async {
                        let mut play = Play::new(Lot::new(seed.wrapping_add(world as u64))).await;
                        play.acts(size().acts / size().worlds).await;
                        play.audit().await;
                    });
                }
            });
        }
    });
}

/// D2: good, repeated and conflicting items in one batch, each answered as if it had come alone.
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
    let seed = lot::seed();
    let paths = std::sync::Mutex::new(oracle::Paths::new());
    std::thread::scope(|threads| {
        for first in 0..AT_ONCE {
            let paths = &paths;
            threads.spawn(move || {
                for world in (first..size().oracles).step_by(AT_ONCE) {
                    block_on(async {
                        let lot = Lot::new(seed.wrapping_add(world as u64));
                        println!("world {}", lot.seed);
                        let mut oracle = oracle::Oracle::new(lot).await;
                        oracle.replays(size().replays / size().oracles).await;
                        assert_eq!(oracle.done_more_than_once(), 0, "of {}", oracle.done());
                        let mut all = paths.lock().unwrap();
                        oracle.paths.iter().for_each(|(path, n)| *all.entry(path).or_default() += n);
                    });
                }
            });
        }
    });
    let paths = paths.into_inner().unwrap();
    println!("{} replays: {paths:?}", size().replays);
    assert_eq!(paths.len(), PATHS, "a path that nobody took proves nothing: {paths:?}");
}

/// Ways for a run to begin, to end, and for a doubt to be settled.
const PATHS: usize = 19;
