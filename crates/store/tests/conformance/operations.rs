//! Bulk operations: the frozen set, the guard, the canary, the pace, and the counts.

use redrive_core::operation::Steer;
use redrive_core::run::StateName;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{Canary, Fix, ItemOutcome, OperationState, OperationView, StepStatus};
use redrive_engine::{
    Bulk, BulkReplay, Error, ItemsCall, NewFailure, NewOperation, Over, PayloadKind, RunFilter, Triage,
};

use crate::reports::{BUG, TIMEOUT};
use crate::verbs::bring;
use crate::world::{World, at, failed, new_run, payload, report, step, success, under};

pub const REPLICA: &str = "one";

pub fn over(filter: RunFilter, bulk: Bulk) -> NewOperation {
    NewOperation {
        over: Over::Filter(Box::new(filter)),
        bulk,
        reason: Some(Text::from("fixed")),
        rate_per_s: None,
        canary: None,
        settle_ms: 900_000,
        dry_run: false,
        filter: serde_json::value::RawValue::from_string("{}".into()).unwrap(),
    }
}

pub fn named(runs: &[&str], bulk: Bulk) -> NewOperation {
    let runs = runs.iter().map(|run| at("acme", run)).collect();
    NewOperation { over: Over::Runs(runs), ..over(RunFilter::default(), bulk) }
}

pub fn replay() -> Bulk {
    Bulk::Replay(Box::new(BulkReplay { payload_max_bytes: 1 << 20, ..BulkReplay::default() }))
}

pub fn dead() -> RunFilter {
    RunFilter { states: vec![StateName::Dead], ..RunFilter::default() }
}

pub async fn make(world: &World, new: NewOperation) -> OperationView {
    world.store.create_operation(new, "operator:ops".into()).await.unwrap()
}

/// Rounds until one has nothing more to do at once.
pub async fn work(world: &World) {
    while world.store.work_operations(REPLICA).await.unwrap().more {}
}

pub async fn look(world: &World, operation: &OperationView) -> OperationView {
    world.store.operation(&operation.id).await.unwrap()
}

pub async fn items(world: &World, operation: &OperationView) -> Vec<(String, ItemOutcome, Option<String>)> {
    let call = ItemsCall { outcomes: Vec::new(), limit: 500, cursor: None };
    let page = world.store.operation_items(&operation.id, call).await.unwrap();
    page.items.into_iter().map(|item| (item.run_id.unwrap().to_string(), item.outcome, item.why)).collect()
}

pub async fn fail_all(world: &World, runs: impl IntoIterator<Item = String>) {
    for answer in world.store.report_all(runs.into_iter().map(|run| report(&run, BUG)).collect()).await {
        assert_eq!(answer.unwrap().answer.state, StateName::Dead);
    }
}

async fn in_doubt(world: &World, run: &str) {
    let (_, under) = world.start(run).await;
    world.store.step(under.clone(), step(&format!("{run}:mail"), true, StepStatus::Started)).await.unwrap();
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
}

/// Succeeds or fails everything that is due.
pub async fn finish_due(world: &World, fails: impl Fn(&str) -> bool) {
    for leased in world.lease(1_000).await {
        let under = under(&leased);
        if fails(leased.run_id.as_str()) {
            world.store.fail(under, failed(BUG)).await.unwrap();
        } else {
            world.store.succeed(success(&under, "1")).await.unwrap();
        }
    }
}

pub async fn each_item_passes_the_guard_of_the_single_verb(world: World) {
    fail_all(&world, ["a", "b"].map(String::from)).await;
    in_doubt(&world, "doubt").await;
    let operation = make(&world, over(dead(), replay())).await;
    assert_eq!((operation.state, operation.matched, operation.eligible), (OperationState::Running, 3, 2));
    assert_eq!(operation.ineligible.into_iter().collect::<Vec<_>>(), [("effect_unknown".to_owned(), 1)]);
    assert_eq!(operation.reasons.values().sum::<u64>(), 3);
    work(&world).await;
    let states = [world.state("a").await, world.state("b").await, world.state("doubt").await];
    assert_eq!(states, [StateName::Scheduled, StateName::Scheduled, StateName::Dead]);
    let history = world.show("a").await.body.history;
    let last = history.last().unwrap();
    let note = last.note.as_ref().unwrap().decode().into_owned();
    assert_eq!(
        (last.actor.as_str(), last.event.as_str(), note.as_str()),
        ("operator:ops", "replay", "Operation op-1. fixed")
    );
}

pub async fn bulk_actions_equal_single_verbs_in_every_state(world: World) {
    world.fail("target", BUG).await;
    let until = world.store.now().plus_ms(60_000);
    let into: redrive_core::ids::RunId = "target".parse().unwrap();
    let (to, agent) = (Some(Label::from("ops")), Some(Label::from("b")));
    let actions = [
        (replay(), Triage::replay(false)),
        (Bulk::Resolve, Triage::Resolve),
        (Bulk::Discard, Triage::Discard),
        (Bulk::Assign { to: to.clone() }, Triage::Assign { to }),
        (Bulk::Reassign { agent: agent.clone(), queue: None }, Triage::Reassign { agent, queue: None }),
        (Bulk::Defer { until }, Triage::Defer { until }),
        (Bulk::Merge { into: into.clone() }, Triage::Merge { into }),
    ];
    for (bulk, triage) in actions {
        for state in StateName::ALL {
            let name = format!("{}-{state}", bulk.action());
            let (one, many) = (format!("{name}-one"), format!("{name}-many"));
            bring(&world, &one, *state).await;
            bring(&world, &many, *state).await;
            let operation = make(&world, named(&[&many], bulk.clone())).await;
            let single = world.triage(&one, triage.clone()).await;
            work(&world).await;
            let (_, outcome, why) = items(&world, &operation).await.remove(0);
            match single {
                Ok(moved) => assert_eq!((outcome, world.state(&many).await), (ItemOutcome::Moved, moved), "{name}"),
                Err(Error::Refused(refused)) => {
                    assert_eq!((outcome, why.as_deref()), (ItemOutcome::Ineligible, Some(refused.code())), "{name}");
                    assert_eq!(world.state(&many).await, *state, "{name}");
                }
                Err(other) => panic!("{name}: {other}"),
            }
            // Out of the way of the next lease.
            let _ = world.triage(&one, Triage::Resolve).await;
            let _ = world.triage(&many, Triage::Resolve).await;
        }
    }
}

pub async fn start_moves_exactly_the_previewed_set(world: World) {
    fail_all(&world, ["a", "b", "c", "d"].map(String::from)).await;
    in_doubt(&world, "doubt").await;
    let operation = make(&world, NewOperation { dry_run: true, ..over(dead(), replay()) }).await;
    assert_eq!((operation.state, operation.matched, operation.eligible), (OperationState::Preview, 5, 4));
    work(&world).await;
    assert_eq!(world.state("a").await, StateName::Dead, "a preview moves nothing");
    // Meanwhile: a new one dies, one is closed, one fails again, one is replayed by hand, a doubt is settled.
    world.fail("new", BUG).await;
    world.triage("b", Triage::Resolve).await.unwrap();
    world.fail("c", "a bug in another place: KeyError 'x'").await;
    world.triage("d", Triage::replay(false)).await.unwrap();
    world.store.steer_operation(&operation.id, Steer::Start).await.unwrap();
    work(&world).await;
    let told: Vec<(String, ItemOutcome, Option<String>)> = items(&world, &operation).await;
    let told: Vec<(&str, ItemOutcome, Option<&str>)> =
        told.iter().map(|(run, outcome, why)| (run.as_str(), *outcome, why.as_deref())).collect();
    assert_eq!(
        told,
        [
            ("a", ItemOutcome::Moved, None),
            ("b", ItemOutcome::Skipped, Some("closed")),
            ("c", ItemOutcome::Skipped, Some("changed")),
            ("d", ItemOutcome::Skipped, Some("decided_since")),
            ("doubt", ItemOutcome::Ineligible, Some("effect_unknown")),
        ]
    );
    let after = look(&world, &operation).await;
    assert_eq!((after.matched, after.moved, after.skipped), (5, 1, 3));
    assert_eq!(world.state("new").await, StateName::Dead);
}

pub async fn outcomes_are_counted_and_end_the_operation(world: World) {
    fail_all(&world, (0..10).map(|n| format!("r{n}"))).await;
    let operation = make(&world, over(dead(), replay())).await;
    work(&world).await;
    assert_eq!(look(&world, &operation).await.state, OperationState::Running, "nothing has settled yet");
    finish_due(&world, |run| run == "r3").await;
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.moved, after.succeeded, after.failed), (OperationState::Completed, 10, 9, 1));
    let failed = items(&world, &operation).await.into_iter().find(|item| item.0 == "r3").unwrap();
    assert_eq!((failed.1, failed.2.as_deref()), (ItemOutcome::Failed, Some("dead")));
}

pub async fn unsettled_items_do_not_delay_the_end(world: World) {
    fail_all(&world, ["a", "b"].map(String::from)).await;
    let operation = make(&world, NewOperation { settle_ms: 60_000, ..over(dead(), replay()) }).await;
    work(&world).await;
    world.wait(59_000);
    work(&world).await;
    assert_eq!(look(&world, &operation).await.state, OperationState::Running);
    world.wait(1_000);
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.moved, after.succeeded + after.failed), (OperationState::Completed, 2, 0));
}

pub fn with_canary(size: u32, share: f64) -> NewOperation {
    let canary = Some(Canary { size, max_failure_share: share, wait_ms: 60_000 });
    NewOperation { canary, ..over(dead(), replay()) }
}

pub async fn failed_canary_stops_the_rest_and_names_new_failures(world: World) {
    fail_all(&world, (0..20).map(|n| format!("r{n:02}"))).await;
    let operation = make(&world, with_canary(4, 0.25)).await;
    work(&world).await;
    assert_eq!(look(&world, &operation).await.moved, 4);
    world.fail("late", BUG).await;
    finish_due(&world, |run| run < "r02").await;
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.moved, after.succeeded, after.failed), (OperationState::Stopped, 4, 2, 2));
    let why = after.stopped_because.unwrap();
    assert!(
        why.starts_with("2 of the first 4 failed") && why.ends_with("1 new run has failed the same way since."),
        "{why}"
    );
    assert_eq!(after.joined.unwrap().runs[0].run_id.as_str(), "late");
    assert_eq!(world.state("r04").await, StateName::Dead);
    let resumed = world.store.steer_operation(&operation.id, Steer::Resume).await;
    assert!(matches!(resumed, Err(Error::OperationIs(OperationState::Stopped))));
}

pub async fn passed_canary_releases_the_rest(world: World) {
    fail_all(&world, (0..20).map(|n| format!("r{n:02}"))).await;
    let operation = make(&world, with_canary(4, 0.25)).await;
    work(&world).await;
    finish_due(&world, |run| run == "r01").await;
    work(&world).await;
    assert_eq!(look(&world, &operation).await.moved, 20);
    finish_due(&world, |_| false).await;
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.succeeded, after.failed), (OperationState::Completed, 19, 1));
}

/// Found by the simulation: the engine committed over and over for a canary that nobody would judge before a resume.
pub async fn finished_canary_waits_while_the_operation_is_paused(world: World) {
    fail_all(&world, (0..10).map(|n| format!("r{n}"))).await;
    let canary = Some(Canary { size: 2, max_failure_share: 0.0, wait_ms: 60_000 });
    let operation = make(&world, NewOperation { canary, ..over(dead(), replay()) }).await;
    world.store.work_operations(REPLICA).await.unwrap();
    world.store.steer_operation(&operation.id, Steer::Pause).await.unwrap();
    world.wait(60_001);
    let rounds =
        [world.store.work_operations(REPLICA).await.unwrap(), world.store.work_operations(REPLICA).await.unwrap()];
    assert!(!rounds[1].more, "{rounds:?}");
    assert_eq!(look(&world, &operation).await.state, OperationState::Paused);
}

pub async fn a_canary_without_an_outcome_in_time_has_failed(world: World) {
    fail_all(&world, (0..6).map(|n| format!("r{n}"))).await;
    let operation = make(&world, with_canary(3, 0.5)).await;
    work(&world).await;
    world.wait(59_999);
    work(&world).await;
    assert_eq!(look(&world, &operation).await.state, OperationState::Running);
    world.wait(1);
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.moved), (OperationState::Stopped, 3));
    assert!(after.stopped_because.unwrap().contains("no outcome after 60000 ms"));
}

pub async fn pause_resume_and_cancel_apply_from_the_next_batch(world: World) {
    fail_all(&world, (0..2_500).map(|n| format!("r{n:04}"))).await;
    let operation = make(&world, over(dead(), Bulk::Resolve)).await;
    world.store.work_operations(REPLICA).await.unwrap();
    world.store.steer_operation(&operation.id, Steer::Pause).await.unwrap();
    work(&world).await;
    assert_eq!(look(&world, &operation).await.moved, 1_000, "one bounded batch, and none after the pause");
    world.store.steer_operation(&operation.id, Steer::Resume).await.unwrap();
    world.store.work_operations(REPLICA).await.unwrap();
    let cancelled = world.store.steer_operation(&operation.id, Steer::Cancel).await.unwrap();
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!(
        (cancelled.state, after.state, after.moved),
        (OperationState::Cancelled, OperationState::Cancelled, 2_000)
    );
    assert_eq!(world.state("r2499").await, StateName::Dead, "nothing is lost by a cancel");
    let again = world.store.steer_operation(&operation.id, Steer::Start).await;
    assert!(matches!(again, Err(Error::OperationIs(OperationState::Cancelled))));
}

/// Whatever the round had already looked at.
pub async fn nothing_moves_after_a_cancel_is_answered(world: World) {
    fail_all(&world, (0..3_000).map(|n| format!("r{n:04}"))).await;
    for _ in 0..6 {
        let operation = make(&world, over(dead(), Bulk::Assign { to: Some(Label::from("ops")) })).await;
        let cancel = async {
            while look(&world, &operation).await.moved == 0 {
                tokio::task::yield_now().await;
            }
            world.store.steer_operation(&operation.id, Steer::Cancel).await.unwrap()
        };
        let ((), cancelled) = tokio::join!(work(&world), cancel);
        assert_eq!(look(&world, &operation).await.moved, cancelled.moved);
        assert!(cancelled.moved < 3_000, "it was over before the cancel");
    }
}

pub async fn a_rate_is_kept(world: World) {
    fail_all(&world, (0..100).map(|n| format!("r{n:03}"))).await;
    let operation = make(&world, NewOperation { rate_per_s: Some(10.0), ..over(dead(), Bulk::Resolve) }).await;
    let mut moved = Vec::new();
    for _ in 0..6 {
        work(&world).await;
        moved.push(look(&world, &operation).await.moved);
        world.wait(500);
    }
    assert_eq!(moved, [0, 5, 10, 15, 20, 25]);
    // No server ran for an hour: the unused allowance is not made up for.
    world.wait(3_600_000);
    work(&world).await;
    assert_eq!(look(&world, &operation).await.moved, 35);
    for _ in 0..20 {
        world.wait(1_000);
        work(&world).await;
    }
    assert_eq!(look(&world, &operation).await.moved, 100, "every item has had its turn");
}

pub async fn bulk_patch_previews_and_changes_every_payload(world: World) {
    for (run, body) in [("a", r#"{"n":1,"model":"old"}"#), ("b", r#"{"model":"old"}"#), ("c", r#"{"n":2}"#)] {
        let run = redrive_engine::NewRun { payload: payload(PayloadKind::Json, body.as_bytes()), ..new_run(run) };
        world.store.report(NewFailure { run, failed: failed(BUG) }).await.unwrap();
    }
    let bytes = redrive_engine::NewRun { payload: payload(PayloadKind::Bytes, b"x"), ..new_run("d") };
    world.store.report(NewFailure { run: bytes, failed: failed(BUG) }).await.unwrap();
    let fix: Fix = serde_json::from_str(r#"{"json_patch":[{"op":"replace","path":"/model","value":"new"}]}"#).unwrap();
    let bulk = Bulk::Replay(Box::new(BulkReplay { fix: Some(fix), payload_max_bytes: 1_000, ..BulkReplay::default() }));
    let operation = make(&world, NewOperation { dry_run: true, ..over(dead(), bulk) }).await;
    assert_eq!((operation.matched, operation.eligible), (4, 2));
    assert_eq!(
        operation.ineligible.into_iter().collect::<Vec<_>>(),
        [("bad_patch".to_owned(), 1), ("not_json".to_owned(), 1)]
    );
    let sample = serde_json::to_string(&operation.samples[0]).unwrap();
    assert!(sample.contains(r#""path":"/model""#) && sample.contains("old") && sample.contains("new"), "{sample}");
    world.store.steer_operation(&operation.id, Steer::Start).await.unwrap();
    work(&world).await;
    let shown = world.show("a").await;
    assert_eq!(shown.body.payload.unwrap().get(), r#"{"n":1,"model":"new"}"#);
    assert_eq!((shown.summary.state, shown.summary.revision), (StateName::Scheduled, 2));
    assert_eq!(world.show("c").await.summary.revision, 1);
}

pub async fn listed_runs_move_once_and_missing_ones_are_counted(world: World) {
    fail_all(&world, ["a", "b"].map(String::from)).await;
    let operation = make(&world, named(&["b", "a", "b", "nobody"], Bulk::Discard)).await;
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.matched, after.moved), (OperationState::Completed, 2, 2));
    assert_eq!(after.ineligible.into_iter().collect::<Vec<_>>(), [("not_found".to_owned(), 1)]);
}

pub async fn one_replica_at_a_time_works_an_operation(world: World) {
    fail_all(&world, (0..1_700).map(|n| format!("r{n:04}"))).await;
    let operation = make(&world, over(dead(), Bulk::Resolve)).await;
    world.store.work_operations("one").await.unwrap();
    assert_eq!(world.store.work_operations("two").await.unwrap().moved, 0);
    assert_eq!(look(&world, &operation).await.moved, 1_000);
    // The first one is gone: the second takes over, and nothing is done twice.
    world.wait(10_000);
    while world.store.work_operations("two").await.unwrap().more {}
    let after = look(&world, &operation).await;
    assert_eq!((after.state, after.moved, after.skipped), (OperationState::Completed, 1_700, 0));
}

pub async fn large_set_freezes_in_pieces_before_anything_moves(world: World) {
    fail_all(&world, (0..10_000).map(|n| format!("r{n:05}"))).await;
    let exactly = make(&world, NewOperation { dry_run: true, ..over(dead(), Bulk::Resolve) }).await;
    assert_eq!((exactly.preparing, exactly.matched), (false, 10_000));
    fail_all(&world, (10_000..11_500).map(|n| format!("r{n:05}"))).await;
    let operation = make(&world, over(dead(), Bulk::Resolve)).await;
    assert_eq!((operation.preparing, operation.matched), (true, 10_000));
    // Runs that arrive while the set is being frozen are not part of it.
    fail_all(&world, (0..5).map(|n| format!("late{n}"))).await;
    world.store.work_operations(REPLICA).await.unwrap();
    let rising = look(&world, &operation).await;
    assert_eq!((rising.preparing, rising.matched, rising.moved), (true, 11_000, 0));
    work(&world).await;
    let after = look(&world, &operation).await;
    assert_eq!(
        (after.state, after.preparing, after.matched, after.moved),
        (OperationState::Completed, false, 11_500, 11_500)
    );
    assert_eq!(world.state("late0").await, StateName::Dead);
}

pub async fn item_pages_show_each_item_once(world: World) {
    fail_all(&world, (0..25).map(|n| format!("r{n:02}"))).await;
    let operation = make(&world, over(dead(), Bulk::Resolve)).await;
    work(&world).await;
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let call = ItemsCall { outcomes: vec![ItemOutcome::Moved], limit: 10, cursor };
        let page = world.store.operation_items(&operation.id, call).await.unwrap();
        seen.extend(page.items.into_iter().map(|item| item.run_id.unwrap().to_string()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..25).map(|n| format!("r{n:02}")).collect::<Vec<_>>());
    let none = ItemsCall { outcomes: vec![ItemOutcome::Failed], limit: 10, cursor: None };
    assert!(world.store.operation_items(&operation.id, none).await.unwrap().items.is_empty());
    assert!(matches!(world.store.operation("op-99").await, Err(Error::NotFound(_))));
    assert!(matches!(world.store.operation("op-01").await, Err(Error::NotFound(_))));
}
