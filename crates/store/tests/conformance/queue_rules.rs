//! Approvals and replay caps over several queues: the rules of every queue that a run has been in since it died apply, and
//! those of its target. A plan's hash covers force; an unmerge reopens nothing.

use redrive_core::lifecycle::Refused;
use redrive_core::policy::{PolicyLayer, ReplayApproval};
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{ItemOutcome, QueueSettings, StepStatus};
use redrive_engine::{
    Bulk, BulkReplay, Error, FailedAttempt, FixedPayload, NewFailure, NewRun, PayloadKind, Replay, Result, Triage,
};

use crate::operations::{items, make, named, work};
use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, at, failed, new_run, numbered, payload, report, step, success};

async fn set(world: &World, queue: &str, policy: PolicyLayer) {
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue(queue.parse().unwrap(), settings).await.unwrap();
}

/// `strict` asks for an approval of every replay; `scratch` and `other` ask for none.
async fn queues(world: &World) {
    let always = PolicyLayer { replay_approval: Some(ReplayApproval::Always), ..PolicyLayer::default() };
    set(world, "strict", always).await;
    set(world, "scratch", PolicyLayer::default()).await;
    set(world, "other", PolicyLayer::default()).await;
}

async fn dies_in(world: &World, queue: &str, run: &str) {
    let run = NewRun { queue: queue.parse().unwrap(), ..new_run(run) };
    let answer = world.store.report(NewFailure { run, failed: failed(BUG) }).await.unwrap().answer;
    assert_eq!(answer.state, StateName::Dead);
}

fn to(queue: &str) -> Triage {
    Triage::Reassign { agent: None, queue: Some(queue.parse().unwrap()) }
}

fn replay_into(queue: &str) -> Triage {
    Triage::Replay(Box::new(Replay { queue: Some(queue.parse().unwrap()), ..Replay::default() }))
}

fn is_approval_needed(said: &Result<StateName>) -> bool {
    matches!(said, Err(Error::Refused(refused)) if refused.code() == "approval_needed")
}

pub async fn replay_into_another_queue_needs_its_own_queues_approval(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "r1").await;
    let elsewhere = Replay { queue: Some("scratch".parse().unwrap()), ..Replay::default() };
    assert!(world.store.plan(&at("acme", "r1"), elsewhere).await.unwrap().approval_needed);
    assert_eq!(world.triage("r1", replay_into("scratch")).await.unwrap(), StateName::Review);
}

pub async fn a_reassigned_run_needs_the_approval_of_where_it_died(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "r1").await;
    assert_eq!(world.triage("r1", to("scratch")).await.unwrap(), StateName::Dead);
    assert_eq!(world.triage("r1", to("other")).await.unwrap(), StateName::Dead);
    // A report of its own producer is no death that would make it forget.
    world.store.report(numbered("r1", "a bug in another place: KeyError 'x'", 2)).await.unwrap();
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Review);
    assert_eq!(world.triage("r1", Triage::Reject).await.unwrap(), StateName::Dead);
    let hash = world.act("r1", Triage::replay(false)).await.unwrap().review.unwrap().0;
    let yes = Triage::Approve { plan_hash: Label::from(hash.as_str()), own_too: true };
    assert_eq!(world.triage("r1", yes).await.unwrap(), StateName::Scheduled);
    // It was approved and begins: its next failure is a new death, in another queue.
    let (_, lease) = world.lease_one().await;
    world.store.fail(lease, failed(BUG)).await.unwrap();
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
}

pub async fn a_waiting_replay_is_not_reassigned_past_an_approval(world: World) {
    queues(&world).await;
    dies_in(&world, "scratch", "r1").await;
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
    let refused = world.triage("r1", to("strict")).await;
    assert!(is_approval_needed(&refused), "{refused:?}");
    assert_eq!(world.show("r1").await.summary.queue.as_str(), "scratch");
    // Merged and taken back it still waits for a replay.
    dies_in(&world, "scratch", "target").await;
    world.triage("r1", Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
    assert_eq!(world.triage("r1", Triage::Unmerge).await.unwrap(), StateName::Scheduled);
    let refused = world.triage("r1", to("strict")).await;
    assert!(is_approval_needed(&refused), "{refused:?}");
    assert_eq!(world.triage("r1", to("other")).await.unwrap(), StateName::Scheduled);
    // A replay into the queue needs approval.
    assert_eq!(world.triage("r1", replay_into("strict")).await.unwrap(), StateName::Review);
    // A run that never died can be reassigned freely.
    world.enqueue("acme", "fresh").await;
    assert_eq!(world.triage("fresh", to("strict")).await.unwrap(), StateName::Scheduled);
}

pub async fn a_fix_needs_the_approval_of_where_its_run_waited(world: World) {
    queues(&world).await;
    let fix = || {
        let made = payload(PayloadKind::Json, br#"{"n":2}"#);
        let fix = FixedPayload { from_revision: 1, payload: made, patch: None };
        Triage::Replay(Box::new(Replay { fix: Some(fix), ..Replay::default() }))
    };
    for (run, cancels) in [("r1", false), ("r2", true)] {
        let waits = NewRun { queue: "strict".parse().unwrap(), ..new_run(run) };
        world.store.report(NewFailure { run: waits, failed: failed(TIMEOUT) }).await.unwrap();
        assert_eq!(world.triage(run, to("scratch")).await.unwrap(), StateName::Scheduled);
        if cancels {
            assert_eq!(world.triage(run, Triage::Cancel).await.unwrap(), StateName::Dead);
        }
        assert_eq!(world.triage(run, fix()).await.unwrap(), StateName::Review, "{run}");
    }
    // Without a replay it goes back to where it came from.
    let waits = NewRun { queue: "strict".parse().unwrap(), ..new_run("r3") };
    world.store.report(NewFailure { run: waits, failed: failed(TIMEOUT) }).await.unwrap();
    for queue in ["scratch", "strict"] {
        assert_eq!(world.triage("r3", to(queue)).await.unwrap(), StateName::Scheduled);
    }
}

pub async fn what_waits_for_a_decision_is_not_reassigned(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "r1").await;
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Review);
    for change in [to("scratch"), Triage::Reassign { agent: Some(Label::from("b")), queue: None }] {
        let refused = world.triage("r1", change).await;
        let wrong = matches!(refused, Err(Error::Refused(Refused::WrongState(StateName::Review))));
        assert!(wrong, "{refused:?}");
    }
}

pub async fn an_approved_replay_is_not_given_to_another_agent(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "r1").await;
    let hash = world.act("r1", Triage::replay(false)).await.unwrap().review.unwrap().0;
    let yes = Triage::Approve { plan_hash: Label::from(hash.as_str()), own_too: true };
    world.triage("r1", yes).await.unwrap();
    let refused = world.triage("r1", Triage::Reassign { agent: Some(Label::from("b")), queue: None }).await;
    assert!(is_approval_needed(&refused), "{refused:?}");
}

pub async fn a_replay_cap_holds_in_every_queue_since_the_death(world: World) {
    set(&world, "capped", PolicyLayer { max_replays: Some(1), ..PolicyLayer::default() }).await;
    set(&world, "scratch", PolicyLayer::default()).await;
    dies_in(&world, "capped", "r1").await;
    world.triage("r1", Triage::replay(false)).await.unwrap();
    let (_, lease) = world.lease_one().await;
    world.store.fail(lease, failed(BUG)).await.unwrap();
    world.triage("r1", to("scratch")).await.unwrap();
    let refused = world.triage("r1", Triage::replay(false)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::ReplaysUsed(1)))), "{refused:?}");
    assert_eq!(world.show("r1").await.summary.dead_because, Some(DeadBecause::Exhausted));
    // A run with more replays behind it than the queue allows does not get in while it waits.
    dies_in(&world, "scratch", "r2").await;
    for _ in 0..2 {
        world.triage("r2", Triage::replay(false)).await.unwrap();
    }
    let refused = world.triage("r2", to("capped")).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::ReplaysUsed(2)))), "{refused:?}");
}

pub async fn past_many_queues_a_replay_always_needs_an_approval(world: World) {
    let names: Vec<String> = (0..12).map(|n| format!("q{n}")).collect();
    for name in &names {
        set(&world, name, PolicyLayer::default()).await;
    }
    dies_in(&world, "q0", "r1").await;
    for name in &names {
        world.triage("r1", to(name)).await.unwrap();
    }
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Review);
}

pub async fn bulk_replays_and_reassignments_obey_the_same_queues(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "dead").await;
    dies_in(&world, "scratch", "waits").await;
    world.triage("waits", Triage::replay(false)).await.unwrap();
    let scratch = Some("scratch".parse().unwrap());
    let replay = Bulk::Replay(Box::new(BulkReplay { queue: scratch, ..BulkReplay::default() }));
    let replays = make(&world, named(&["dead"], replay)).await;
    let strict = Bulk::Reassign { agent: None, queue: Some("strict".parse().unwrap()) };
    let reassigns = make(&world, named(&["waits"], strict)).await;
    work(&world).await;
    assert_eq!(items(&world, &replays).await, [("dead".into(), ItemOutcome::Moved, None)]);
    assert_eq!(world.state("dead").await, StateName::Review);
    let refused = ("waits".into(), ItemOutcome::Ineligible, Some("approval_needed".into()));
    assert_eq!(items(&world, &reassigns).await, [refused]);
}

pub async fn a_plan_looked_at_without_force_is_not_forced(world: World) {
    let (_, lease) = world.start("r1").await;
    world.store.step(lease.clone(), step("charge", true, StepStatus::Started)).await.unwrap();
    world.store.fail(lease, failed(BUG)).await.unwrap();
    let plan = async |force| {
        let replay = Replay { force, ..Replay::default() };
        world.store.plan(&at("acme", "r1"), replay).await.unwrap().hash
    };
    let (looked_at, forced) = (plan(false).await, plan(true).await);
    let replay = |hash: &str| {
        Triage::Replay(Box::new(Replay { force: true, plan_hash: Some(Label::from(hash)), ..Replay::default() }))
    };
    let refused = world.triage("r1", replay(&looked_at)).await;
    assert!(matches!(&refused, Err(Error::PlanChanged { hash }) if *hash == forced), "{refused:?}");
    assert_eq!(world.triage("r1", replay(&forced)).await.unwrap(), StateName::Scheduled);
}

pub async fn a_forced_review_shows_the_hash_that_approves_it(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "r1").await;
    let hash = world.act("r1", Triage::replay(true)).await.unwrap().review.unwrap().0;
    assert_eq!(world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap().hash, hash);
    let yes = Triage::Approve { plan_hash: Label::from(hash.as_str()), own_too: true };
    assert_eq!(world.triage("r1", yes).await.unwrap(), StateName::Scheduled);
}

pub async fn a_merge_taken_back_leaves_a_closed_run_closed(world: World) {
    queues(&world).await;
    dies_in(&world, "strict", "target").await;
    dies_in(&world, "strict", "r1").await;
    world.triage("r1", Triage::Resolve).await.unwrap();
    // A request to reopen it is open when it is merged.
    assert_eq!(world.triage("r1", Triage::replay(true)).await.unwrap(), StateName::Review);
    world.triage("r1", Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
    assert_eq!(world.triage("r1", Triage::Unmerge).await.unwrap(), StateName::Resolved);
    let replayed = world.triage("r1", Triage::replay(false)).await;
    assert!(matches!(replayed, Err(Error::Refused(Refused::Closed(StateName::Resolved)))), "{replayed:?}");
}

/// Its worker reported late, while it was merged.
pub async fn a_late_success_of_a_merged_run_closes_it(world: World) {
    world.fail("target", BUG).await;
    let (_, lease) = world.start("r1").await;
    world.wait(60_000);
    world.store.rescue_expired(10).await.unwrap();
    world.triage("r1", Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
    assert!(world.store.succeed(success(&lease, "1")).await.unwrap().late);
    assert_eq!(world.state("r1").await, StateName::Merged);
    assert_eq!(world.triage("r1", Triage::Unmerge).await.unwrap(), StateName::Recovered);
    world.wait(600_000);
    assert!(world.lease(10).await.is_empty(), "what is done is not handed out again");
}

const TOOL: &str = "Error executing tool 'x' with kwargs {}";

/// A person decides on it, or it counts for another: a verdict's target moves neither.
pub async fn report_keeps_a_run_in_review_or_merged(world: World) {
    let fallback = PolicyLayer { fallback_queue: Some("simple".parse().unwrap()), ..PolicyLayer::default() };
    set(&world, "default", fallback).await;
    world.fail("target", BUG).await;
    for run in ["review", "merged"] {
        let first = FailedAttempt { attempt: Some(1), ..failed(TOOL) };
        world.store.report(NewFailure { failed: first, ..report(run, TOOL) }).await.unwrap();
    }
    world.triage("review", Triage::Review).await.unwrap();
    world.triage("merged", Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
    for run in ["review", "merged"] {
        let answer = world.store.report(numbered(run, TOOL, 2)).await.unwrap().answer;
        assert_eq!(answer.verdict.target.queue, Some("simple".parse().unwrap()), "the verdict names where it would go");
        assert_eq!(world.show(run).await.summary.queue.as_str(), "default", "{run}");
    }
    assert_eq!(world.state("merged").await, StateName::Merged);
}
