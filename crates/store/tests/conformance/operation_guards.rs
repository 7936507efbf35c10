//! Operations under concurrency: changes and decisions since the freeze, other rounds and operations, restarts.

use redrive_core::operation::Steer;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::{BreakerAction, Canary, ItemOutcome, OperationState, OperationView};
use redrive_engine::{Bulk, FixedPayload, NewOperation, PayloadKind, Replay, RunFilter, Triage};

use crate::breakers::{TIMED_OUT, by_hand};
use crate::operations::{
    REPLICA, dead, fail_all, finish_due, items, look, make, named, over, replay, with_canary, work,
};
use crate::world::{World, failed, payload, success, under};

async fn preview(world: &World, new: NewOperation) -> OperationView {
    make(world, NewOperation { dry_run: true, ..new }).await
}

async fn start(world: &World, operation: &OperationView) {
    world.store.steer_operation(&operation.id, Steer::Start).await.unwrap();
    work(world).await;
}

async fn whys(world: &World, operation: &OperationView) -> Vec<(String, ItemOutcome, Option<String>)> {
    items(world, operation).await
}

/// An accepted replay stays: the set was found earlier, and each run is checked again when it is frozen.
pub async fn run_replayed_during_the_freeze_is_skipped(world: World) {
    for round in 0..4 {
        let runs: Vec<String> = (0..400).map(|n| format!("{round}-{n:03}")).collect();
        fail_all(&world, runs.clone()).await;
        let replays = async {
            let mut accepted = Vec::new();
            for run in &runs {
                if world.triage(run, Triage::replay(false)).await.is_ok() {
                    accepted.push(run.clone());
                }
            }
            accepted
        };
        let (accepted, _) = tokio::join!(replays, async {
            make(&world, over(dead(), Bulk::Discard)).await;
            work(&world).await;
        });
        for run in accepted {
            assert_eq!(world.state(&run).await, StateName::Scheduled, "{run} was replayed, and then discarded");
        }
    }
}

/// The run keeps its state, but its hold has ended: the filter no longer matches it.
pub async fn a_run_that_no_longer_matches_is_skipped(world: World) {
    let (_, lease) = world.start("held").await;
    by_hand(&world, BreakerAction::Open, None).await;
    world.store.fail(lease, failed(TIMED_OUT)).await.unwrap();
    let held = RunFilter { held: Some(true), ..RunFilter::default() };
    let operation = preview(&world, over(held, Bulk::Discard)).await;
    assert_eq!((operation.matched, operation.eligible), (1, 1));
    by_hand(&world, BreakerAction::Reset, None).await;
    world.store.release_held(10).await.unwrap();
    start(&world, &operation).await;
    assert_eq!(
        whys(&world, &operation).await,
        [("held".into(), ItemOutcome::Skipped, Some("no_longer_matches".into()))]
    );
    assert_eq!(world.state("held").await, StateName::Scheduled);
}

/// Each of these leaves state, attempt and revision as they were when the set was frozen.
pub async fn a_decision_since_the_freeze_skips_the_item(world: World) {
    let runs = ["rejected", "deferred", "unmerged", "reassigned", "assigned", "cancelled", "noted"];
    fail_all(&world, runs.into_iter().chain(["target"]).map(String::from)).await;
    let operation = preview(&world, named(&runs, Bulk::Resolve)).await;
    assert_eq!(operation.eligible, 7);
    let until = world.store.now().plus_ms(60_000);
    let decisions = [
        ("rejected", vec![Triage::Review, Triage::Reject]),
        ("deferred", vec![Triage::Defer { until }]),
        ("unmerged", vec![Triage::Merge { into: "target".parse().unwrap() }, Triage::Unmerge]),
        ("reassigned", vec![Triage::Reassign { agent: Some(Label::from("b")), queue: None }]),
        ("assigned", vec![Triage::Assign { to: Some(Label::from("mia")) }]),
        ("cancelled", vec![Triage::replay(false), Triage::Cancel]),
        ("noted", vec![Triage::Note]),
    ];
    for (run, verbs) in decisions {
        for verb in verbs {
            world.triage(run, verb).await.unwrap();
        }
        assert_eq!(world.state(run).await, StateName::Dead, "{run}");
    }
    start(&world, &operation).await;
    let told = whys(&world, &operation).await;
    for (run, outcome, why) in &told {
        let expected = match run.as_str() {
            "noted" => (ItemOutcome::Moved, None),
            _ => (ItemOutcome::Skipped, Some("decided_since")),
        };
        assert_eq!((*outcome, why.as_deref()), expected, "{run}");
    }
    let after = look(&world, &operation).await;
    assert_eq!((after.skipped, after.skipped_because["decided_since"], after.moved), (6, 6, 1));
}

/// Not even an assignment overrides a later decision.
pub async fn an_assignment_since_the_freeze_is_kept(world: World) {
    fail_all(&world, ["a", "b"].map(String::from)).await;
    let operation = preview(&world, over(dead(), Bulk::Assign { to: Some(Label::from("ops")) })).await;
    world.triage("a", Triage::Assign { to: Some(Label::from("mia")) }).await.unwrap();
    start(&world, &operation).await;
    let owner = async |run: &str| world.show(run).await.summary.assigned_to;
    assert_eq!(owner("a").await, Some(Label::from("mia")));
    assert_eq!(owner("b").await, Some(Label::from("ops")));
}

pub async fn a_payload_edited_since_the_freeze_is_not_moved(world: World) {
    fail_all(&world, ["a"].map(String::from)).await;
    let operation = preview(&world, over(dead(), replay())).await;
    let fix = FixedPayload { from_revision: 1, payload: payload(PayloadKind::Json, b"[2]"), patch: None };
    let edit = Replay { fix: Some(fix), ..Replay::default() };
    world.triage("a", Triage::Replay(Box::new(edit))).await.unwrap();
    world.triage("a", Triage::Cancel).await.unwrap();
    start(&world, &operation).await;
    assert_eq!(whys(&world, &operation).await, [("a".into(), ItemOutcome::Skipped, Some("decided_since".into()))]);
    assert_eq!((world.state("a").await, world.show("a").await.summary.revision), (StateName::Dead, 2));
}

pub async fn rounds_at_the_same_time_move_each_item_once(world: World) {
    fail_all(&world, (0..1_500).map(|n| format!("r{n:04}"))).await;
    let missing = (0..2_500).map(|n| format!("missing{n}"));
    let runs: Vec<String> = (0..1_500).map(|n| format!("r{n:04}")).chain(missing).collect();
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    for _ in 0..3 {
        // The creating call freezes the set, and so does the engine, which has found it meanwhile.
        let assign = named(&runs, Bulk::Assign { to: Some(Label::from("ops")) });
        let (operation, ()) = tokio::join!(make(&world, assign), async {
            for _ in 0..20 {
                world.store.work_operations(REPLICA).await.unwrap();
            }
        });
        let mut more = true;
        while more {
            let (one, two, three) = tokio::join!(
                world.store.work_operations(REPLICA),
                world.store.work_operations(REPLICA),
                world.store.work_operations(REPLICA)
            );
            more = [one, two, three].into_iter().any(|swept| swept.unwrap().more);
        }
        let after = look(&world, &operation).await;
        assert_eq!(
            (after.state, after.matched, after.moved, after.skipped),
            (OperationState::Completed, 1_500, 1_500, 0)
        );
        assert_eq!(after.ineligible.get("not_found"), Some(&2_500));
    }
}

/// Its filter has more values than a statement takes, or what it asks for can't be read back: it stops, the next goes on.
pub async fn broken_operation_blocks_no_other(world: World) {
    fail_all(&world, ["a", "b"].map(String::from)).await;
    let environments = (0..40_000).map(|n| Label::from(format!("e{n}").as_str())).collect();
    let too_many = RunFilter { environments, ..dead() };
    let large = make(&world, over(too_many, Bulk::Discard)).await;
    let unreadable = Some(Canary { size: 1, max_failure_share: f64::NAN, wait_ms: 1_000 });
    let made =
        world.store.create_operation(NewOperation { canary: unreadable, ..over(dead(), replay()) }, "ops".into());
    assert!(made.await.is_err());
    let next = make(&world, over(dead(), Bulk::Resolve)).await;
    work(&world).await;
    assert_eq!((look(&world, &next).await.state, look(&world, &next).await.moved), (OperationState::Completed, 2));
    let large = look(&world, &large).await;
    match large.state {
        OperationState::Stopped => assert!(large.stopped_because.unwrap().contains("too many SQL variables")),
        OperationState::Completed => assert_eq!(large.moved, 0),
        other => panic!("{other}"),
    }
    let again = world.store.work_operations(REPLICA).await.unwrap();
    assert_eq!((again.moved, again.more), (0, false), "what is stopped costs nothing any more");
}

pub async fn an_operation_continues_at_once_after_a_restart(world: World) {
    fail_all(&world, (0..1_700).map(|n| format!("r{n:04}"))).await;
    let operation = make(&world, over(dead(), Bulk::Resolve)).await;
    world.store.work_operations("before").await.unwrap();
    assert_eq!(look(&world, &operation).await.moved, 1_000);
    let world = world.restarted().await;
    while world.store.work_operations("after").await.unwrap().more {}
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.moved, after.skipped), (OperationState::Completed, 1_700, 0));
}

/// Killed, not closed: its claim was not released.
pub async fn a_dead_replicas_claim_ends_within_two_seconds(world: World) {
    fail_all(&world, (0..1_100).map(|n| format!("r{n:04}"))).await;
    let operation = make(&world, over(dead(), Bulk::Resolve)).await;
    world.store.work_operations("killed").await.unwrap();
    assert_eq!(world.store.work_operations("other").await.unwrap().moved, 0);
    world.wait(2_000);
    while world.store.work_operations("other").await.unwrap().more {}
    assert_eq!(look(&world, &operation).await.state, OperationState::Completed);
}

/// Its lease expired, the canary was judged, and then its worker reported late.
pub async fn a_canary_items_outcome_is_its_first_attempts(world: World) {
    fail_all(&world, (0..3).map(|n| format!("r{n}"))).await;
    let operation = make(&world, with_canary(1, 0.0)).await;
    work(&world).await;
    let (_, lease) = world.lease_one().await;
    world.wait(60_000);
    world.store.rescue_expired(10).await.unwrap();
    work(&world).await;
    let stopped = look(&world, &operation).await;
    assert_eq!((stopped.state, stopped.succeeded, stopped.failed), (OperationState::Stopped, 0, 1));
    assert!(stopped.stopped_because.unwrap().starts_with("1 of the first 1 failed"));
    assert!(world.store.succeed(success(&lease, "1")).await.unwrap().late);
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.succeeded, after.failed), (0, 1), "one truth");
    let (_, outcome, why) = items(&world, &operation).await.remove(0);
    assert_eq!((outcome, why.as_deref()), (ItemOutcome::Failed, Some("first_attempt_failed")));
}

pub async fn a_canary_item_that_recovers_on_a_retry_has_failed(world: World) {
    fail_all(&world, (0..3).map(|n| format!("r{n}"))).await;
    let operation = make(&world, with_canary(2, 0.5)).await;
    work(&world).await;
    let leased = world.lease(2).await;
    world.store.fail(under(&leased[0]), failed(TIMED_OUT)).await.unwrap();
    world.wait(40_000);
    let retried = world.lease(1).await;
    world.store.succeed(success(&under(&retried[0]), "1")).await.unwrap();
    world.store.succeed(success(&under(&leased[1]), "1")).await.unwrap();
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.succeeded, after.failed, after.moved), (1, 1, 3), "the canary passed with one failure of two");
    finish_due(&world, |_| false).await;
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.succeeded, after.failed), (OperationState::Completed, 2, 1));
}

pub async fn a_canary_item_without_an_outcome_in_time_stays_failed(world: World) {
    fail_all(&world, (0..3).map(|n| format!("r{n}"))).await;
    let operation = make(&world, with_canary(1, 0.0)).await;
    work(&world).await;
    world.wait(60_000);
    work(&world).await;
    finish_due(&world, |_| false).await;
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.succeeded, after.failed), (OperationState::Stopped, 0, 1));
    let (_, outcome, why) = items(&world, &operation).await.remove(0);
    assert_eq!((outcome, why.as_deref()), (ItemOutcome::Failed, Some("no_outcome_in_time")));
}

pub async fn pausing_again_and_again_does_not_stop_a_slow_operation(world: World) {
    fail_all(&world, (0..5).map(|n| format!("r{n}"))).await;
    let operation = make(&world, NewOperation { rate_per_s: Some(0.1), ..over(dead(), Bulk::Resolve) }).await;
    for _ in 0..60 {
        world.wait(500);
        world.store.steer_operation(&operation.id, Steer::Pause).await.unwrap();
        work(&world).await;
        world.store.steer_operation(&operation.id, Steer::Resume).await.unwrap();
        work(&world).await;
    }
    assert_eq!(look(&world, &operation).await.moved, 3, "one in ten seconds, for thirty");
}
