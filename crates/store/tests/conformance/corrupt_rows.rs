//! Unreadable rows: each service sets them aside, counts them, and continues with the next.

use redrive_core::policy::{PolicyLayer, ReplayApproval};
use redrive_core::run::StateName;
use redrive_core::time::DAY_MS;
use redrive_core::wire::{BreakerAction, ItemOutcome, OperationState, QueueSettings};
use redrive_engine::{NewOperation, TenantScope, Triage};

use crate::breakers::{broken, by_hand};
use crate::operations::{dead, fail_all, items, make, over, replay, work};
use crate::reports::BUG;
use crate::world::{LEASE_MS, World, failed};

/// Longer than the first opening lasts, its jitter included.
const OPENING_MS: u64 = 40_000;

fn break_life(world: &World, run: &str) {
    world.alter(&format!("UPDATE runs SET life = '{{' WHERE run_id = '{run}'"));
}

/// A state that no binary knows.
fn break_state(world: &World, run: &str) {
    world.alter(&format!("UPDATE runs SET state = state + 90 WHERE run_id = '{run}'"));
}

async fn set_aside(world: &World) -> (u64, String) {
    let health = world.store.health(&TenantScope::All).await.unwrap();
    (health.set_aside, health.status)
}

pub async fn a_corrupt_row_does_not_stop_rescue(world: World) {
    for run in ["life", "state", "good"] {
        world.start(run).await;
        world.wait(1);
    }
    break_life(&world, "life");
    break_state(&world, "state");
    world.wait(LEASE_MS);
    let swept = world.store.rescue_expired(1).await.unwrap();
    assert_eq!((swept.looked_at, swept.moved), (1, 1));
    assert_eq!(world.state("good").await, StateName::Scheduled);
    assert_eq!(set_aside(&world).await, (2, "attention".to_owned()));
    assert_eq!(world.store.rescue_expired(10).await.unwrap().looked_at, 0, "it is met once");
    assert_eq!(set_aside(&world).await.0, 2);
}

pub async fn a_corrupt_row_does_not_stop_a_lease(world: World) {
    for run in ["life", "state", "good"] {
        world.enqueue("acme", run).await;
        world.wait(1);
    }
    break_life(&world, "life");
    break_state(&world, "state");
    let leased = world.lease(1).await;
    assert_eq!(leased.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(set_aside(&world).await, (2, "attention".to_owned()));
    assert!(world.lease(10).await.is_empty());
}

pub async fn corrupt_payload_costs_a_lease_call_one_run(world: World) {
    for run in ["bad", "good"] {
        world.enqueue("acme", run).await;
        world.wait(1);
    }
    world.alter("UPDATE payloads SET kind = 90 WHERE run = (SELECT id FROM runs WHERE run_id = 'bad')");
    let leased = world.lease(2).await;
    assert_eq!(leased.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["good"]);
    world.wait(LEASE_MS);
    assert_eq!(world.store.rescue_expired(10).await.unwrap().moved, 2, "nobody had it: its lease ran out");
}

pub async fn a_corrupt_row_does_not_stop_the_unclaimed_sweep(world: World) {
    for run in ["life", "state", "good"] {
        world.enqueue("acme", run).await;
        world.wait(1);
    }
    break_life(&world, "life");
    break_state(&world, "state");
    world.wait(DAY_MS);
    assert_eq!(world.store.reject_unclaimed(1).await.unwrap().moved, 1);
    assert_eq!(world.state("good").await, StateName::Dead);
    assert_eq!(set_aside(&world).await.0, 2);
}

pub async fn a_corrupt_row_does_not_stop_expiring_reviews(world: World) {
    let policy = PolicyLayer { replay_approval: Some(ReplayApproval::Always), ..PolicyLayer::default() };
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue("default".parse().unwrap(), settings).await.unwrap();
    for run in ["life", "state", "good"] {
        world.fail(run, BUG).await;
        assert_eq!(world.triage(run, Triage::replay(false)).await.unwrap(), StateName::Review);
        world.wait(1);
    }
    break_life(&world, "life");
    break_state(&world, "state");
    world.wait(DAY_MS);
    assert_eq!(world.store.expire_reviews(10).await.unwrap().moved, 1);
    assert_eq!(world.state("good").await, StateName::Dead);
    assert_eq!(set_aside(&world).await.0, 2);
    assert_eq!(world.store.expire_reviews(10).await.unwrap().looked_at, 0, "it is met once");
}

pub async fn a_corrupt_row_does_not_stop_a_release(world: World) {
    let mut begun = Vec::new();
    for run in ["life", "state", "good"] {
        begun.push(world.start(run).await.1);
    }
    by_hand(&world, BreakerAction::Open, None).await;
    for under in begun {
        world.store.fail(under, failed("Request timed out")).await.unwrap();
    }
    break_life(&world, "life");
    break_state(&world, "state");
    by_hand(&world, BreakerAction::Close, None).await;
    assert_eq!(world.store.release_held(1).await.unwrap().moved, 1);
    world.wait(5_000);
    let leased = world.lease(10).await;
    assert_eq!(leased.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(set_aside(&world).await.0, 2);
}

pub async fn a_corrupt_probe_frees_its_breaker(world: World) {
    broken(&world).await;
    world.wait(OPENING_MS);
    world.store.release_held(500).await.unwrap();
    let probe = world.lease(1_000).await.pop().unwrap();
    assert!(world.lease(1_000).await.is_empty());
    break_life(&world, probe.run_id.as_str());
    world.store.release_held(500).await.unwrap();
    assert_eq!(world.lease(1_000).await.len(), 1, "another run finds out");
}

pub async fn a_corrupt_offer_goes_to_another_run(world: World) {
    broken(&world).await;
    for n in 0..19 {
        break_life(&world, &format!("broke{n}"));
    }
    world.wait(OPENING_MS);
    assert_eq!(world.store.release_held(500).await.unwrap().moved, 1);
    let leased = world.lease(1_000).await;
    assert_eq!(leased.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["broke19"]);
}

/// It is set aside and counts as closed: its held runs are released, and reports, endings and claims continue.
pub async fn a_corrupt_breaker_counts_as_closed(world: World) {
    let (_, running) = world.start("running").await;
    broken(&world).await;
    assert!(world.lease(10).await.is_empty());
    world.alter("UPDATE breakers SET life = '{'");
    let world = world.restarted().await;
    assert_eq!(world.store.breakers(&TenantScope::All).await.unwrap().breakers, []);
    world.store.fail(running, failed("Request timed out")).await.unwrap();
    assert_eq!(set_aside(&world).await, (1, "attention".to_owned()));
    world.fail("other", BUG).await;
    world.store.release_held(500).await.unwrap();
    world.wait(60_000);
    assert!(world.lease(1_000).await.len() >= 20, "nothing holds them any more");
    assert_eq!(set_aside(&world).await.0, 1, "it is met once");
}

pub async fn operation_skips_corrupt_rows(world: World) {
    fail_all(&world, ["before", "between", "good"].map(String::from)).await;
    break_life(&world, "before");
    let preview = make(&world, NewOperation { dry_run: true, ..over(dead(), replay()) }).await;
    assert_eq!((preview.state, preview.matched, preview.eligible), (OperationState::Preview, 2, 2));
    assert_eq!(preview.ineligible.into_iter().collect::<Vec<_>>(), [("unreadable".to_owned(), 1)]);
    break_life(&world, "between");
    world.store.steer_operation(&preview.id, redrive_core::operation::Steer::Start).await.unwrap();
    work(&world).await;
    assert_eq!(world.state("good").await, StateName::Scheduled);
    let shown = world.store.operation(&preview.id).await.unwrap();
    assert_eq!((shown.state, shown.moved, shown.skipped), (OperationState::Running, 1, 1));
    let outcomes = items(&world, &shown).await;
    let skipped = ("between".to_owned(), ItemOutcome::Skipped, Some("unreadable".to_owned()));
    assert_eq!(outcomes, [skipped, ("good".to_owned(), ItemOutcome::Moved, None)]);
}

/// Ten minutes later it is read again, and it waits where it waited before.
pub async fn a_repaired_row_comes_back(world: World) {
    world.enqueue("acme", "r1").await;
    let (_, running) = world.start("r2").await;
    break_state(&world, "r1");
    break_state(&world, "r2");
    world.wait(LEASE_MS);
    assert!(world.lease(10).await.is_empty());
    world.store.rescue_expired(10).await.unwrap();
    assert_eq!(set_aside(&world).await.0, 2);
    world.wait(600_000);
    world.store.reject_unclaimed(10).await.unwrap();
    assert_eq!(set_aside(&world).await.0, 2, "still unreadable");
    world.alter("UPDATE runs SET state = state - 90");
    world.wait(600_000);
    world.store.reject_unclaimed(10).await.unwrap();
    assert_eq!(set_aside(&world).await.0, 0);
    assert_eq!(world.lease_one().await.0.run_id.as_str(), "r1");
    world.store.rescue_expired(10).await.unwrap();
    assert_eq!(world.state("r2").await, StateName::Scheduled);
    assert!(world.store.heartbeat(running).await.is_err());
}
