//! A bulk operation looks its items up one by one, each in its index: what a piece of a large set costs is what a piece of a
//! small one does.

use redrive_core::run::StateName;
use redrive_engine::{Bulk, BulkReplay, NewOperation, Over, RunFilter};

use crate::due_watermarks::entries_read;
use crate::world::{World, report};

/// As many as one piece holds.
const PIECE: usize = 1_000;
const PIECES: usize = 4;
const ITEMS: &str = "operation_items_pkey";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_cost_the_same_in_large_and_small_sets() {
    let (small, large) = (read_by_a_replay(PIECE, ITEMS).await, read_by_a_replay(PIECES * PIECE, ITEMS).await);
    // Half as much again: the pieces' own beginnings and ends.
    let most = small * i64::try_from(PIECES).unwrap() * 3 / 2;
    assert!(large <= most, "{PIECE} items read {small} entries, and {PIECES} times as many {large}");
}

/// Its moves are in the log of changes as well, which is followed for what has become of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operation_moved_is_looked_at_once() {
    let runs = i64::try_from(PIECES * PIECE).unwrap();
    let read = read_by_a_replay(PIECES * PIECE, "runs_pkey").await;
    // Frozen, locked, written and looked at, dead entries and all, and the filter tested again in the commits that freeze and
    // that move; two more where the log is read from its beginning again.
    assert!(read <= 9 * runs, "{read} entries were read of {runs} runs");
}

/// Entries of an index that a replay of so many runs reads.
async fn read_by_a_replay(runs: usize, index: &str) -> i64 {
    let world = World::postgres().await;
    for first in (0..runs).step_by(PIECE) {
        let reports = (first..first + PIECE).map(|n| report(&format!("run{n}"), "KeyError: 'invoice'"));
        assert!(world.store.report_all(reports.collect()).await.iter().all(Result::is_ok));
    }
    // As it is sooner or later everywhere: the planner knows that there are no items yet.
    world.sql("VACUUM ANALYZE");
    let new = NewOperation {
        over: Over::Filter(Box::new(RunFilter { states: vec![StateName::Dead], ..RunFilter::default() })),
        bulk: Bulk::Replay(Box::new(BulkReplay { payload_max_bytes: 1 << 20, ..BulkReplay::default() })),
        reason: None,
        rate_per_s: None,
        canary: None,
        settle_ms: 0,
        dry_run: false,
        filter: serde_json::value::to_raw_value(&()).unwrap(),
    };
    let made = world.store.create_operation(new, "operator:ops".into()).await.unwrap();
    while world.store.work_operations("replica").await.unwrap().more {}
    let done = world.store.operation(&made.id).await.unwrap();
    assert_eq!(done.moved, u64::try_from(runs).unwrap());
    entries_read(&world, index).await
}
