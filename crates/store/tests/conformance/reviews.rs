//! Approvals: bound to a plan, given by another person, expiring.

use redrive_core::lifecycle::Refused;
use redrive_core::policy::{PolicyLayer, ReplayApproval};
use redrive_core::run::StateName;
use redrive_core::text::{Label, Text};
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{EffectOutcome, QueueSettings, Severity, StepStatus};
use redrive_engine::{
    Error, FixedPayload, NewFailure, PayloadKind, Replay, Result, Triage, TriageAct, Triaged, encode,
};

use crate::reports::BUG;
use crate::world::{World, at, failed, new_run, payload, step, success};

const DAY_MS: u64 = 86_400_000;

async fn approving(world: &World, replay_approval: ReplayApproval) {
    let policy = PolicyLayer { replay_approval: Some(replay_approval), ..PolicyLayer::default() };
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue("default".parse().unwrap(), settings).await.unwrap();
}

async fn by(world: &World, actor: &str, triage: Triage) -> Result<Triaged> {
    let act = TriageAct { at: at("acme", "r1"), triage, actor: actor.into(), reason: Some(Text::from("why")) };
    world.store.triage(act).await
}

fn yes(hash: &str) -> Triage {
    Triage::Approve { plan_hash: Label::from(hash), own_too: false }
}

fn proposal() -> Replay {
    Replay {
        fix: Some(FixedPayload { from_revision: 1, payload: payload(PayloadKind::Json, b"[2]"), patch: None }),
        instruction: Some(Text::from("with care")),
        request: encode(br#"{"fix":{"payload":[2]},"instruction":"with care"}"#),
        ..Replay::default()
    }
}

/// Asks for the replay; gives the hash to approve.
async fn asked(world: &World, replay: Replay) -> String {
    let asked = by(world, "key:a", Triage::Replay(Box::new(replay))).await.unwrap();
    assert_eq!(asked.answer.state, StateName::Review);
    asked.review.unwrap().0
}

async fn events(world: &World) -> Vec<String> {
    let history = world.show("r1").await.body.history;
    history.into_iter().filter(|entry| entry.actor != "reporter").map(|entry| entry.event).collect()
}

pub async fn approved_replay_runs_as_requested(world: World) {
    approving(&world, ReplayApproval::Always).await;
    world.fail("r1", BUG).await;
    let hash = asked(&world, proposal()).await;
    assert!(world.lease(1).await.is_empty(), "nothing is done before somebody says yes");
    let shown = world.show("r1").await;
    let review = shown.body.review.unwrap();
    assert_eq!((review.asked_by.as_str(), &review.plan_hash, shown.summary.revision), ("key:a", &hash, 1));
    assert_eq!(review.proposed.unwrap().get(), r#"{"fix":{"payload":[2]},"instruction":"with care"}"#);
    assert_eq!(world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap().hash, hash);
    let done = by(&world, "key:b", yes(&hash)).await.unwrap();
    assert_eq!((done.answer.state, done.revision), (StateName::Scheduled, 2));
    world.wait(1);
    let (leased, under) = world.lease_one().await;
    assert_eq!((leased.payload.unwrap().get(), leased.changes.len(), leased.replay), ("[2]", 1, true));
    world.store.succeed(success(&under, "1")).await.unwrap();
    assert_eq!(events(&world).await, ["review", "fix", "approve", "succeeded"]);
}

pub async fn approval_of_one_plan_covers_no_other(world: World) {
    approving(&world, ReplayApproval::Always).await;
    let (_, under) = world.start_resumable("r1").await;
    let began = step("load", false, StepStatus::Started);
    world.store.step(under.clone(), began).await.unwrap();
    world.store.fail(under.clone(), failed(BUG)).await.unwrap();
    let hash = asked(&world, proposal()).await;
    let other = by(&world, "key:b", yes("0000")).await;
    assert!(matches!(&other, Err(Error::PlanChanged { hash: now }) if *now == hash), "{other:?}");
    // Its worker had done the step after all, and says so late.
    let late = world.store.step(under, step("load", false, StepStatus::Committed)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })), "{late:?}");
    let Err(Error::PlanChanged { hash: now }) = by(&world, "key:b", yes(&hash)).await else {
        panic!("the approval was for another plan")
    };
    assert_eq!((world.state("r1").await, now == hash), (StateName::Review, false));
    assert_eq!(world.show("r1").await.body.review.unwrap().plan_hash, now, "it asks again, for the plan as it is");
    assert_eq!(by(&world, "key:b", yes(&now)).await.unwrap().answer.state, StateName::Scheduled);
    let refused = events(&world).await.into_iter().filter(|event| event == "plan_changed").count();
    assert_eq!(refused, 2, "both refusals are in the history");
}

pub async fn review_without_a_decision_expires(world: World) {
    approving(&world, ReplayApproval::Always).await;
    world.fail("r1", BUG).await;
    let hash = asked(&world, proposal()).await;
    world.wait(DAY_MS - 1);
    assert_eq!(world.store.expire_reviews(10).await.unwrap().moved, 0);
    world.wait(1);
    let swept = world.store.expire_reviews(10).await.unwrap();
    assert_eq!((swept.moved, swept.more), (1, false));
    let shown = world.show("r1").await.summary;
    assert_eq!((shown.state, shown.dead_because), (StateName::Dead, Some(DeadBecause::Expired)));
    assert_eq!(events(&world).await, ["review", "review_expired"]);
    let late = by(&world, "key:b", yes(&hash)).await;
    assert!(matches!(late, Err(Error::Refused(Refused::WrongState(StateName::Dead)))), "{late:?}");
    // A new request replaces the earlier one.
    let again = asked(&world, Replay::default()).await;
    assert_ne!(again, hash);
}

pub async fn late_approval_expires_the_review(world: World) {
    approving(&world, ReplayApproval::Always).await;
    world.fail("r1", BUG).await;
    let hash = asked(&world, proposal()).await;
    world.wait(DAY_MS);
    let late = by(&world, "key:b", yes(&hash)).await;
    assert!(matches!(late, Err(Error::Refused(Refused::ReviewExpired))), "{late:?}");
    assert_eq!(world.show("r1").await.summary.dead_because, Some(DeadBecause::Expired));
}

pub async fn requester_cannot_approve_without_force(world: World) {
    approving(&world, ReplayApproval::Always).await;
    world.fail("r1", BUG).await;
    let hash = asked(&world, proposal()).await;
    assert!(matches!(by(&world, "key:a", yes(&hash)).await, Err(Error::OwnRequest)));
    let operator = Triage::Approve { plan_hash: Label::from(hash.as_str()), own_too: true };
    assert_eq!(by(&world, "key:a", operator).await.unwrap().answer.state, StateName::Scheduled);
}

pub async fn rejection_leaves_the_run_unchanged(world: World) {
    approving(&world, ReplayApproval::Always).await;
    world.fail("r1", BUG).await;
    asked(&world, proposal()).await;
    by(&world, "key:b", Triage::Reject).await.unwrap();
    let shown = world.show("r1").await;
    let stands = (shown.summary.state, shown.summary.dead_because, shown.summary.revision, shown.body.review.is_some());
    assert_eq!(stands, (StateName::Dead, Some(DeadBecause::Permanent), 1, false));
    // A run that was closed when somebody asked to open it again stays closed.
    world.triage("r1", Triage::Resolve).await.unwrap();
    let closed = by(&world, "key:a", Triage::replay(false)).await;
    assert!(matches!(closed, Err(Error::Refused(Refused::Closed(StateName::Resolved)))), "{closed:?}");
    asked(&world, Replay { force: true, ..Replay::default() }).await;
    by(&world, "key:b", Triage::Reject).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Resolved);
}

pub async fn only_force_replaces_a_forced_request(world: World) {
    approving(&world, ReplayApproval::Always).await;
    world.fail("r1", BUG).await;
    world.triage("r1", Triage::Resolve).await.unwrap();
    let hash = asked(&world, Replay { force: true, ..Replay::default() }).await;
    for unforced in [Triage::replay(false), Triage::Review] {
        let refused = by(&world, "key:tenant", unforced).await;
        assert!(matches!(refused, Err(Error::Refused(Refused::Closed(StateName::Resolved)))), "{refused:?}");
    }
    assert_eq!(by(&world, "key:b", yes(&hash)).await.unwrap().answer.state, StateName::Scheduled);
}

pub async fn one_person_requests_review_and_another_decides(world: World) {
    world.fail("r1", BUG).await;
    let aside = by(&world, "key:a", Triage::Review).await.unwrap();
    let hash = aside.review.unwrap().0;
    assert!(world.show("r1").await.body.review.unwrap().proposed.is_none());
    assert_eq!(by(&world, "key:b", yes(&hash)).await.unwrap().answer.state, StateName::Scheduled);
    let (leased, _) = world.lease_one().await;
    assert_eq!((leased.revision, leased.replay), (1, true));
}

pub async fn force_passes_guards_but_not_approval(world: World) {
    approving(&world, ReplayApproval::Unsafe).await;
    let (_, under) = world.start("r1").await;
    world.store.step(under.clone(), step("charge", true, StepStatus::Started)).await.unwrap();
    world.store.fail(under, failed(BUG)).await.unwrap();
    let plain = by(&world, "key:a", Triage::replay(false)).await;
    assert!(matches!(plain, Err(Error::Refused(Refused::EffectUnknown))), "{plain:?}");
    let hash = asked(&world, Replay { force: true, ..Replay::default() }).await;
    assert_eq!(by(&world, "key:b", yes(&hash)).await.unwrap().answer.state, StateName::Scheduled);
    let history = world.show("r1").await.body.history;
    let said =
        history.iter().find(|entry| entry.event == "review").unwrap().note.as_ref().unwrap().decode().into_owned();
    assert_eq!(said, "A forced replay waits for approval. why");
}

/// What a run has done decides, not what it is dead for.
pub async fn cancelling_does_not_get_around_the_approval_of_unsafe(world: World) {
    approving(&world, ReplayApproval::Unsafe).await;
    for (run, settled) in [("doubt", EffectOutcome::NotDone), ("lapsed", EffectOutcome::NotDone)] {
        let (_, under) = world.start(run).await;
        world.store.step(under, step(run, true, StepStatus::Started)).await.unwrap();
        assert_eq!(world.triage(run, Triage::Cancel).await.unwrap(), StateName::Dead);
        world.reconcile(run, None, settled).await.unwrap();
        assert_eq!(world.because(run).await, Some(DeadBecause::Manual));
        assert_eq!(world.triage(run, Triage::replay(false)).await.unwrap(), StateName::Review, "{run}");
    }
    world.wait(DAY_MS);
    world.store.expire_reviews(10).await.unwrap();
    assert_eq!(world.triage("lapsed", Triage::replay(false)).await.unwrap(), StateName::Review);
    // An approved replay that was cancelled before anybody began it has changed nothing.
    let approve = async |run: &str| {
        let shown = world.triage(run, Triage::replay(false)).await.unwrap();
        assert_eq!(shown, StateName::Review, "{run}");
        let hash = world.show(run).await.body.review.unwrap().plan_hash;
        let yes = Triage::Approve { plan_hash: Label::from(hash.as_str()), own_too: true };
        assert_eq!(world.triage(run, yes).await.unwrap(), StateName::Scheduled);
    };
    approve("doubt").await;
    world.triage("doubt", Triage::Cancel).await.unwrap();
    approve("doubt").await;
    let (_, under) = world.lease_one().await;
    world.store.fail(under, failed(BUG)).await.unwrap();
    assert_eq!(
        world.triage("doubt", Triage::replay(false)).await.unwrap(),
        StateName::Scheduled,
        "it was made, in peace"
    );
}

pub async fn approval_by_severity_covers_that_level_and_above(world: World) {
    approving(&world, ReplayApproval::Severity(Severity::High)).await;
    for (run, severity, expected) in
        [("low", Severity::Normal, StateName::Scheduled), ("high", Severity::Critical, StateName::Review)]
    {
        let mut report = NewFailure { run: new_run(run), failed: failed(BUG) };
        report.run.severity = severity;
        world.store.report(report).await.unwrap();
        assert_eq!(world.triage(run, Triage::replay(false)).await.unwrap(), expected, "{run}");
    }
}

pub async fn downtime_does_not_expire_a_review(world: World) {
    let stamp = async || world.store.stamp("a").await.unwrap();
    let policy = PolicyLayer {
        replay_approval: Some(ReplayApproval::Always),
        approval_expires_ms: Some(10_000),
        ..PolicyLayer::default()
    };
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue("default".parse().unwrap(), settings).await.unwrap();
    world.fail("r1", BUG).await;
    stamp().await;
    asked(&world, proposal()).await;
    // Four seconds before the first absence, two between them, four after: those count.
    for (there, away_ms) in [(2, 5_000), (1, DAY_MS)] {
        for _ in 0..there {
            world.wait(2_000);
            stamp().await;
        }
        world.wait(away_ms);
        assert_eq!(world.store.expire_reviews(10).await.unwrap().moved, 0, "the first service records our absence");
    }
    world.wait(2_000);
    stamp().await;
    world.wait(1_999);
    assert_eq!(world.store.expire_reviews(10).await.unwrap().moved, 0);
    assert_eq!(world.show("r1").await.body.review.unwrap().expires_at.since(world.store.now()), 1);
    world.wait(1);
    assert_eq!(world.store.expire_reviews(10).await.unwrap().moved, 1);
    let hash = asked(&world, proposal()).await;
    stamp().await;
    world.wait(DAY_MS);
    // Since the downtime only the approval has read the store.
    assert_eq!(by(&world, "key:b", yes(&hash)).await.unwrap().answer.state, StateName::Scheduled);
}
