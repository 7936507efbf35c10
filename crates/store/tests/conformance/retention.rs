//! Retention: what is removed when, what never is, and what stays right.

use redrive_core::lifecycle::Refused;
use redrive_core::operation::Steer;
use redrive_core::policy::{PolicyLayer, RetentionLayer};
use redrive_core::run::StateName;
use redrive_core::time::DAY_MS;
use redrive_core::wire::{NotReplayableBecause, QueueSettings, Role, Sort, StepStatus};
use redrive_engine::{
    Error, FixedPayload, KeyRecord, NewFailure, NewOperation, PageCall, PayloadKind, Replay, RunFilter, StatsCall,
    TenantScope, Triage,
};
use redrive_store::Miscounted;

use crate::operations::{dead, make, over, replay, work};
use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, at, failed, new_run, payload, start, step, success};

const REPLICA: &str = "one";
/// Small, so that a pass takes several rounds.
const SLICE: usize = 3;
/// Every table that holds something of a run, and that is empty once all runs are gone.
const OF_RUNS: [&str; 9] =
    ["runs", "attempts", "late_failures", "payloads", "revisions", "sent", "history", "reviews", "merged_steps"];

/// A whole pass.
async fn retain(world: &World) {
    while world.store.retain(REPLICA, SLICE).await.unwrap().more {}
}

fn days(n: u64) -> u64 {
    n * DAY_MS
}

async fn resolved(world: &World, run: &str) {
    world.fail(run, BUG).await;
    world.triage(run, Triage::Resolve).await.unwrap();
}

async fn is_gone(world: &World, run: &str) -> bool {
    matches!(world.store.run(&at("acme", run)).await, Err(Error::NotFound("run")))
}

fn kept(closed: u32, dead: u32, payload: u32) -> PolicyLayer {
    let retention = RetentionLayer { closed_days: Some(closed), dead_days: Some(dead), payload_days: Some(payload) };
    PolicyLayer { retention: Some(retention), ..PolicyLayer::default() }
}

async fn set_queue(world: &World, queue: &str, policy: PolicyLayer) {
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue(queue.parse().unwrap(), settings, "admin:ops".into()).await.unwrap();
}

pub async fn closed_runs_go_with_all_that_belongs_to_them(world: World) {
    for n in 0..10 {
        resolved(&world, &format!("r{n}")).await;
    }
    let fix = FixedPayload { from_revision: 1, payload: payload(PayloadKind::Json, b"{}"), patch: Some(vec![1]) };
    let fixed = Replay { fix: Some(fix), force: true, ..Replay::default() };
    world.act("r1", Triage::Replay(Box::new(fixed))).await.unwrap();
    let (_, under) = world.lease_one().await;
    world.store.succeed(success(&under, "1")).await.unwrap();
    world.wait(days(30) - 1);
    retain(&world).await;
    assert_eq!(world.number("SELECT count(*) FROM runs"), 10);
    world.wait(1);
    retain(&world).await;
    for table in OF_RUNS {
        assert_eq!(world.number(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert!(is_gone(&world, "r1").await);
    let page = PageCall { sort: Sort::Received, limit: 50, cursor: None, count: true };
    let page = world.store.runs(&TenantScope::All, RunFilter::default(), page).await.unwrap();
    assert_eq!((page.runs.len(), page.total), (0, Some(0)));
}

pub async fn reports_and_patterns_keep_their_counts(world: World) {
    let pattern = world.fail("r1", BUG).await.pattern.id;
    world.triage("r1", Triage::Resolve).await.unwrap();
    world.fail("r2", BUG).await;
    let since = Some(world.store.now());
    world.wait(days(30));
    retain(&world).await;
    assert!(is_gone(&world, "r1").await);
    let shown = world.store.pattern(&TenantScope::All, &pattern).await.unwrap().pattern;
    assert_eq!((shown.count, shown.open), (2, 1));
    let stats = world.store.stats(&TenantScope::All, StatsCall { since, ..StatsCall::default() }).await.unwrap();
    assert_eq!(stats.hours.iter().map(|point| point.failed).sum::<u64>(), 2);
    assert_eq!(world.miscounted().await, Miscounted::default());
}

pub async fn a_report_after_the_removal_is_a_new_run(world: World) {
    let first = world.fail("r1", BUG).await;
    world.triage("r1", Triage::Resolve).await.unwrap();
    world.wait(days(30));
    retain(&world).await;
    let again = world.fail("r1", BUG).await;
    assert_eq!((again.attempt, again.state), (first.attempt, StateName::Dead));
    assert_eq!(world.show("r1").await.body.attempts.len(), 1);
    assert_eq!(world.miscounted().await, Miscounted::default());
}

pub async fn dead_letters_stay_without_an_archive_and_health_says_so(world: World) {
    world.fail("r1", BUG).await;
    world.wait(days(89));
    retain(&world).await;
    let told = world.store.health(&TenantScope::All).await.unwrap().retention;
    assert_eq!((told.archive, told.removed_soon, told.kept_without_archive), (false, 0, 0));
    world.wait(days(2));
    retain(&world).await;
    assert_eq!(world.state("r1").await, StateName::Dead);
    assert_eq!(world.show("r1").await.body.retention.unwrap().remove_at, None);
    let told = world.store.health(&TenantScope::All).await.unwrap().retention;
    assert_eq!((told.archive, told.removed_soon, told.kept_without_archive), (false, 0, 1));
    let other = world.store.health(&TenantScope::One("globex".parse().unwrap())).await.unwrap().retention;
    assert_eq!(other.kept_without_archive, 0, "another tenant's dead letters are not counted");
    world.triage("r1", Triage::Resolve).await.unwrap();
    retain(&world).await;
    let told = world.store.health(&TenantScope::All).await.unwrap().retention;
    assert_eq!(told.kept_without_archive, 0, "it is closed now");
    assert_eq!(world.number("SELECT count(*) FROM retention_notices"), 0);
}

pub async fn payloads_go_first_and_a_new_one_replays(world: World) {
    set_queue(&world, "default", kept(30, 90, 7)).await;
    world.fail("r1", BUG).await;
    let shown = world.show("r1").await;
    let countdown = shown.body.retention.unwrap();
    assert_eq!((countdown.remove_at, countdown.payload_until), (None, Some(world.store.now().plus_ms(days(7)))));
    world.wait(days(7) - 1);
    retain(&world).await;
    assert!(world.show("r1").await.body.payload.is_some());
    world.wait(1);
    retain(&world).await;
    let shown = world.show("r1").await;
    assert_eq!((shown.summary.state, shown.body.replayable), (StateName::Dead, false));
    assert!(shown.body.payload.is_none() && shown.body.retention.unwrap().payload_expired);
    assert_eq!(shown.body.not_replayable_because, Some(NotReplayableBecause::PayloadExpired));
    assert_eq!(world.number("SELECT count(*) FROM payloads"), 0);
    let refused = world.triage("r1", Triage::replay(false)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::NotReplayable))), "{refused:?}");
    let fix = FixedPayload { from_revision: 1, payload: payload(PayloadKind::Json, b"{}"), patch: None };
    let fixed = Replay { fix: Some(fix), ..Replay::default() };
    world.act("r1", Triage::Replay(Box::new(fixed))).await.unwrap();
    let (leased, under) = world.lease_one().await;
    assert_eq!(leased.payload.unwrap().get(), "{}");
    world.store.fail(under, failed(BUG)).await.unwrap();
    let shown = world.show("r1").await;
    assert!(shown.body.replayable && !shown.body.retention.unwrap().payload_expired);
}

pub async fn open_runs_are_never_removed(world: World) {
    world.enqueue("acme", "waits").await;
    world.store.start(start("runs")).await.unwrap();
    world.fail("review", BUG).await;
    world.triage("review", Triage::Review).await.unwrap();
    world.fail("again", TIMEOUT).await;
    resolved(&world, "reopened").await;
    world.wait(days(29));
    world.triage("reopened", Triage::replay(true)).await.unwrap();
    world.wait(days(400));
    retain(&world).await;
    for run in ["waits", "runs", "review", "again", "reopened"] {
        assert!(world.show(run).await.body.payload.is_some(), "{run}");
    }
}

/// Defaults ← tier ← queue ← tenant, and a change holds for runs that ended before it.
pub async fn each_layer_has_its_days_and_changes_hold_at_once(world: World) {
    set_queue(&world, "short", kept(1, 90, 1)).await;
    set_queue(&world, "long", kept(300, 90, 300)).await;
    for queue in ["default", "short", "long"] {
        let mut new = NewFailure { run: new_run(queue), failed: failed(BUG) };
        new.run.queue = queue.parse().unwrap();
        world.store.report(new).await.unwrap();
        world.triage(queue, Triage::Resolve).await.unwrap();
    }
    let at_noon = world.store.now();
    let shown = world.store.queue(&"short".parse().unwrap()).await.unwrap();
    assert_eq!((shown.retention.closed_days, shown.next_removal_at), (1, Some(at_noon.plus_ms(days(1)))));
    assert_eq!(world.show("long").await.body.retention.unwrap().remove_at, Some(at_noon.plus_ms(days(300))));
    world.wait(days(1));
    retain(&world).await;
    assert!(is_gone(&world, "short").await && !is_gone(&world, "default").await);
    world.wait(days(29));
    retain(&world).await;
    assert!(is_gone(&world, "default").await && !is_gone(&world, "long").await);
    set_queue(&world, "long", kept(30, 90, 30)).await;
    retain(&world).await;
    assert!(is_gone(&world, "long").await);
}

pub async fn merged_runs_go_with_their_target(world: World) {
    for run in ["target", "part", "part-of-part"] {
        world.fail(run, BUG).await;
    }
    world.triage("part-of-part", Triage::Merge { into: "part".parse().unwrap() }).await.unwrap();
    world.triage("target", Triage::Resolve).await.unwrap();
    world.wait(days(20));
    world.triage("part", Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
    world.wait(days(10));
    retain(&world).await;
    for run in ["target", "part", "part-of-part"] {
        assert!(is_gone(&world, run).await, "{run}");
    }
    assert_eq!(world.miscounted().await, Miscounted::default());
}

pub async fn runs_of_an_open_operation_stay(world: World) {
    for n in 0..5 {
        world.fail(&format!("r{n}"), BUG).await;
    }
    let operation = make(&world, NewOperation { dry_run: true, ..over(dead(), replay()) }).await;
    for n in 0..5 {
        world.triage(&format!("r{n}"), Triage::Resolve).await.unwrap();
    }
    resolved(&world, "other").await;
    world.wait(days(30));
    retain(&world).await;
    assert!(is_gone(&world, "other").await, "runs behind those of the operation are found");
    assert!(!is_gone(&world, "r0").await);
    world.store.steer_operation(&operation.id, Steer::Cancel, "operator:ops".into()).await.unwrap();
    work(&world).await;
    retain(&world).await;
    assert!(is_gone(&world, "r0").await);
    let items = "SELECT count(*) FROM operation_items";
    assert_eq!(world.number(items), 5, "the operation keeps its record");
    world.wait(days(91));
    retain(&world).await;
    assert!(matches!(world.store.operation(&operation.id).await, Err(Error::NotFound("operation"))));
    assert_eq!(world.number(items), 0);
}

/// What was done stays done: another run may not repeat the effect of a removed one.
pub async fn the_ledger_outlives_its_run(world: World) {
    let (_, under) = world.start("r1").await;
    for status in [StepStatus::Started, StepStatus::Committed] {
        world.store.step(under.clone(), step("charge", true, status)).await.unwrap();
    }
    world.store.succeed(success(&under, "1")).await.unwrap();
    world.wait(days(30));
    retain(&world).await;
    assert!(is_gone(&world, "r1").await);
    let (_, under) = world.start("r1").await;
    let again = world.store.step(under, step("charge", true, StepStatus::Started)).await.unwrap();
    assert_eq!(again.status, StepStatus::Committed);
    world.store.trim_ledger(100).await.unwrap();
    assert_eq!(world.number("SELECT count(*) FROM steps"), 1);
}

pub async fn old_keys_hours_and_positions_are_bounded(world: World) {
    resolved(&world, "r1").await;
    let expires_at = Some(world.store.now().plus_ms(DAY_MS));
    let good = KeyRecord::new("good".into(), [1; 32], Role::Worker, None, world.store.now());
    let old = KeyRecord { id: "old".into(), hash: [2; 32], expires_at, ..good.clone() };
    world.store.put_key(good, "admin:ops".into()).await.unwrap();
    world.store.put_key(old, "admin:ops".into()).await.unwrap();
    world.store.fold_figures().await.unwrap();
    world.wait(days(181));
    retain(&world).await;
    world.store.fold_figures().await.unwrap();
    retain(&world).await;
    let keys: Vec<String> = world.store.keys().await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(keys, ["good"]);
    assert_eq!(world.number("SELECT count(*) FROM hours"), 0);
    assert_eq!(world.number("SELECT count(*) FROM retention_progress"), 1);
}

/// Two replicas share the work: the second one leaves it to the first until its claim has ended.
pub async fn one_replica_at_a_time_removes(world: World) {
    for n in 0..10 {
        resolved(&world, &format!("r{n}")).await;
    }
    world.wait(days(30));
    assert_eq!(world.store.retain("one", SLICE).await.unwrap().moved, SLICE);
    assert_eq!(world.store.retain("two", SLICE).await.unwrap().moved, 0);
    world.wait(6 * 60_000);
    assert_eq!(world.store.retain("two", SLICE).await.unwrap().moved, SLICE, "it continues where the first stopped");
    assert_eq!(world.number("SELECT count(*) FROM runs"), 4);
    assert_eq!(world.store.retain("one", SLICE).await.unwrap().moved, 0);
}
