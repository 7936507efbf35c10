//! Replays with a fix: revisions, targets, repeated steps, plans, and replays that fail again.

use redrive_core::ledger::Will;
use redrive_core::lifecycle::Refused;
use redrive_core::policy::PolicyLayer;
use redrive_core::run::StateName;
use redrive_core::text::{Label, Text};
use redrive_core::verdict::{Change, DeadBecause};
use redrive_core::wire::{QueueSettings, StepStatus, WarningCode};
use redrive_engine::{Error, FixedPayload, LeaseCall, NewFailure, PayloadKind, Replay, TenantScope, Triage};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, at, failed, new_run, payload, start, step, success};

const ORIGINAL: &[u8] = br#"{"n": 12345678901234567890.10, "z":"\ud800"}"#;

fn fixed(from_revision: u32, bytes: &[u8]) -> Replay {
    let fix = FixedPayload { from_revision, payload: payload(PayloadKind::Json, bytes), patch: None };
    Replay { fix: Some(fix), ..Replay::default() }
}

fn with(replay: Replay) -> Triage {
    Triage::Replay(Box::new(replay))
}

async fn dead_with_original(world: &World) {
    let mut report = NewFailure { run: new_run("r1"), failed: failed(BUG) };
    report.run.payload = payload(PayloadKind::Json, ORIGINAL);
    report.run.idempotency_key = Some("key-1".parse().unwrap());
    assert_eq!(world.store.report(report).await.unwrap().answer.state, StateName::Dead);
}

async fn payload_at(world: &World, revision: u32) -> String {
    world.store.revision(&at("acme", "r1"), Some(revision)).await.unwrap().payload.unwrap().get().to_owned()
}

/// R3.
pub async fn fix_is_a_new_revision_of_an_immutable_original(world: World) {
    dead_with_original(&world).await;
    for revision in 1..=3_u32 {
        let fix = format!(r#"{{"fix":{revision}}}"#);
        let done = world.act("r1", with(fixed(revision, fix.as_bytes()))).await.unwrap();
        assert_eq!((done.answer.state, done.revision), (StateName::Scheduled, revision + 1));
        let (leased, under) = world.lease_one().await;
        assert_eq!(leased.payload.unwrap().get(), fix);
        let told = (leased.attempt, leased.revision, leased.replay, leased.idempotency_key.unwrap().to_string());
        assert_eq!(told, (revision + 1, revision + 1, true, "key-1".to_owned()));
        world.store.fail(under, failed(BUG)).await.unwrap();
        assert_eq!(payload_at(&world, 1).await.as_bytes(), ORIGINAL);
    }
    let shown = world.show("r1").await;
    let of_attempts: Vec<u32> = shown.body.attempts.iter().map(|attempt| attempt.revision).collect();
    assert_eq!((of_attempts, payload_at(&world, 2).await), (vec![1, 2, 3, 4], r#"{"fix":1}"#.to_owned()));
    let second = world.store.revision(&at("acme", "r1"), Some(2)).await.unwrap();
    assert_eq!((second.actor.as_str(), second.revision), ("key:ops", 2));
    let beyond = world.store.revision(&at("acme", "r1"), Some(5)).await;
    assert!(matches!(beyond, Err(Error::NotFound("revision"))));
    // A start with the original payload means this run.
    world.act("r1", Triage::replay(false)).await.unwrap();
    let mut again = start("r1");
    again.run.payload = payload(PayloadKind::Json, ORIGINAL);
    let started = world.store.start(again).await.unwrap().answer;
    assert_eq!((started.revision, started.payload.unwrap().get()), (4, r#"{"fix":3}"#));
}

pub async fn a_fix_made_from_another_revision_is_refused(world: World) {
    dead_with_original(&world).await;
    world.act("r1", with(fixed(1, b"1"))).await.unwrap();
    let late = world.act("r1", with(fixed(1, b"2"))).await;
    assert!(matches!(late, Err(Error::RevisionChanged)), "{late:?}");
    assert_eq!(world.show("r1").await.summary.revision, 2);
}

pub async fn supplied_payload_makes_a_run_replayable(world: World) {
    let mut report = NewFailure { run: new_run("r1"), failed: failed(BUG) };
    report.run.payload = payload(PayloadKind::Omitted, b"");
    world.store.report(report).await.unwrap();
    let refused = world.act("r1", Triage::replay(true)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::NotReplayable))), "{refused:?}");
    world.act("r1", with(fixed(1, b"[1]"))).await.unwrap();
    let (leased, _) = world.lease_one().await;
    assert_eq!(leased.payload.unwrap().get(), "[1]");
    assert!(world.show("r1").await.body.replayable);
}

pub async fn replay_can_change_agent_queue_model_and_instruction(world: World) {
    world.store.put_queue("simple".parse().unwrap(), QueueSettings::default()).await.unwrap();
    world.fail("r1", BUG).await;
    let replay = Replay {
        agent: Some(Label::from("careful")),
        model: Some(Label::from("larger")),
        queue: Some("simple".parse().unwrap()),
        instruction: Some(Text::from("do not guess")),
        ..Replay::default()
    };
    world.act("r1", with(replay)).await.unwrap();
    let (leased, _) = world.lease_one().await;
    let told = (leased.queue.as_str(), leased.agent.unwrap().to_string(), leased.model.unwrap().to_string());
    assert_eq!(told, ("simple", "careful".to_owned(), "larger".to_owned()));
    let changes: Vec<Change> = leased.changes.into_iter().map(|handed| handed.change).collect();
    let model = "larger".to_owned();
    assert_eq!(changes, [Change::SetModel { model }, Change::AddInstruction { text: "do not guess".into() }]);
    let history = world.show("r1").await.body.history;
    let fix = history.iter().find(|entry| entry.event == "fix").unwrap().note.as_ref().unwrap().decode().into_owned();
    assert_eq!(fix, "With an instruction, model larger, agent careful, queue simple.");
    let nowhere = Replay { queue: Some("nowhere".parse().unwrap()), force: true, ..Replay::default() };
    assert!(matches!(world.act("r1", with(nowhere)).await, Err(Error::NotFound("queue"))));
    let everywhere = world.store.health(&redrive_engine::TenantScope::All).await.unwrap();
    assert_eq!((everywhere.running, everywhere.dead), (1, 0), "counted where it is, and nowhere else");
}

pub async fn replay_from_a_step_repeats_steps_but_no_effects(world: World) {
    let (_, under) = world.start_resumable("r1").await;
    for (key, effect) in [("load", false), ("charge", true), ("write", false)] {
        for status in [StepStatus::Started, StepStatus::Committed] {
            world.store.step(under.clone(), step(key, effect, status)).await.unwrap();
        }
    }
    world.store.fail(under, failed(BUG)).await.unwrap();
    let from = |step: &str, force| Replay { from_step: Some(Label::from(step)), force, ..Replay::default() };
    assert!(matches!(world.act("r1", with(from("nothing", false))).await, Err(Error::NoSuchStep)));
    let over = world.act("r1", with(from("load", false))).await;
    assert!(matches!(over, Err(Error::Refused(Refused::Unsafe))), "{over:?}");
    let plan = world.store.plan(&at("acme", "r1"), from("write", false)).await.unwrap();
    assert_eq!(plan.steps.iter().map(|step| step.will).collect::<Vec<_>>(), [Will::Skip, Will::Skip, Will::Run]);
    world.act("r1", with(from("load", true))).await.unwrap();
    let (_, under) = world.lease_one().await;
    // R1: even by force the effect comes back done, while the plain steps around it start again.
    for (key, effect, done) in [("load", false, false), ("charge", true, true), ("write", false, false)] {
        let begun = world.store.step(under.clone(), step(key, effect, StepStatus::Started)).await.unwrap();
        assert_eq!(begun.replayed, done, "{key}");
    }
}

pub async fn replay_of_an_outdated_plan_returns_the_current_one(world: World) {
    world.fail("r1", BUG).await;
    let plan = world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap();
    world.wait(3_600_000);
    let later = world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap();
    assert_eq!(later.hash, plan.hash, "time alone changes no plan");
    let bound = |hash: &str| Replay { plan_hash: Some(Label::from(hash)), ..fixed(1, b"2") };
    let Err(Error::PlanChanged { hash }) = world.act("r1", with(bound(&plan.hash))).await else {
        panic!("the fix was no part of the plan")
    };
    assert_eq!(world.act("r1", with(bound(&hash))).await.unwrap().revision, 2);
}

pub async fn plan_warns_of_versions_workers_no_longer_run(world: World) {
    let leased_by = async |version: &str| {
        let mut call = crate::world::lease_call(1);
        call.versions = [("worker".to_owned(), Label::from(version))].into();
        world.store.lease(call).await.unwrap().pop()
    };
    world.enqueue("acme", "r1").await;
    let under = crate::world::under(&leased_by("v1").await.unwrap());
    world.store.fail(under, failed(BUG)).await.unwrap();
    let plan = async || world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap();
    let before = plan().await;
    assert_eq!(before.versions_changed, []);
    world.wait(60_000);
    assert!(leased_by("v2").await.is_none());
    let after = plan().await;
    let change = &after.versions_changed[0];
    assert_eq!((change.kind.as_str(), change.recorded.as_str(), change.now.as_str()), ("worker", "v1", "v2"));
    assert_eq!(after.warnings[0].code, WarningCode::VersionsChanged);
    assert_ne!(after.hash, before.hash, "an approval given before a deployment is none after it");
}

/// R7.
pub async fn failed_replays_keep_history_and_park_past_the_cap(world: World) {
    let policy = PolicyLayer { max_replays: Some(2), max_attempts: Some(3), ..PolicyLayer::default() };
    let settings = QueueSettings { owner: Some(Label::from("ops")), policy, ..QueueSettings::default() };
    world.store.put_queue("mail".parse().unwrap(), settings).await.unwrap();
    let mut report = NewFailure { run: new_run("r1"), failed: failed(BUG) };
    report.run.queue = "mail".parse().unwrap();
    world.store.report(report).await.unwrap();
    for n in 1..=2_u32 {
        let done = world.act("r1", Triage::replay(false)).await.unwrap();
        assert_eq!(done.answer.state, StateName::Scheduled);
        let (leased, under) = world.lease_one().await;
        assert_eq!((leased.queue.as_str(), leased.attempt), ("mail", n + 1));
        let answer = world.store.fail(under, failed(TIMEOUT)).await.unwrap();
        // The policy is the queue's: the fresh budget gives it another retry, which fails for good.
        assert_eq!(answer.state, StateName::Scheduled);
        let cancelled = world.act("r1", Triage::Cancel).await.unwrap();
        assert_eq!(cancelled.answer.state, StateName::Dead);
    }
    let refused = world.act("r1", Triage::replay(false)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::ReplaysUsed(2)))), "{refused:?}");
    let shown = world.show("r1").await;
    assert_eq!((shown.summary.dead_because, shown.summary.replays), (Some(DeadBecause::Exhausted), 2));
    assert_eq!(shown.summary.queue.as_str(), "mail");
    assert_eq!(
        shown.body.attempts.iter().map(|a| (a.attempt, a.replay)).collect::<Vec<_>>(),
        [(1, false), (2, true), (3, true)]
    );
    assert!(shown.body.history.iter().any(|entry| entry.event == "parked"));
    assert_eq!(world.act("r1", Triage::replay(true)).await.unwrap().answer.state, StateName::Scheduled);
    let (_, under) = world.lease_one().await;
    assert_eq!(world.store.succeed(success(&under, "1")).await.unwrap().state, StateName::Recovered);
    assert!(world.show("r1").await.body.history.iter().any(|entry| entry.event == "force_replay"));
}

pub async fn a_plan_knows_only_workers_that_serve_its_tenant(world: World) {
    let leased_by = async |scope: TenantScope, version: &str| {
        let versions = [("worker".to_owned(), Label::from(version))].into();
        world.wait(60_000);
        world.store.lease(LeaseCall { scope, versions, ..crate::world::lease_call(1) }).await.unwrap()
    };
    let of = |tenant: &str| TenantScope::One(tenant.parse().unwrap());
    for tenant in ["acme", "globex"] {
        world.enqueue(tenant, "r1").await;
    }
    let under = crate::world::under(&leased_by(of("acme"), "v1").await[0]);
    world.store.fail(under, failed(BUG)).await.unwrap();
    let now = async || {
        let plan = world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap();
        plan.versions_changed.first().map(|change| change.now.to_string())
    };
    assert_eq!(leased_by(of("globex"), "v2").await.len(), 1);
    assert_eq!(now().await, None, "another tenant's workers run other versions");
    assert!(leased_by(TenantScope::All, "v3").await.is_empty());
    assert_eq!(now().await.as_deref(), Some("v3"), "a key that spans tenants serves them all");
    assert!(leased_by(of("acme"), "v4").await.is_empty());
    assert_eq!(now().await.as_deref(), Some("v4"), "of the latest call");
}

pub async fn a_plan_warns_of_its_own_tenants_order_key_only(world: World) {
    let ordered = |tenant: &str, run: &str| {
        let mut start = crate::world::start(run);
        start.run.tenant = tenant.parse().unwrap();
        start.run.order_key = Some("cart-7".parse().unwrap());
        start
    };
    let begun = world.store.start(ordered("acme", "r1")).await.unwrap().answer;
    let under = redrive_engine::UnderLease { at: at("acme", "r1"), lease: begun.lease.unwrap().parse().unwrap() };
    world.store.fail(under, failed(BUG)).await.unwrap();
    world.store.start(ordered("globex", "r2")).await.unwrap();
    let warned = async || {
        let plan = world.store.plan(&at("acme", "r1"), Replay::default()).await.unwrap();
        plan.warnings.iter().any(|warning| warning.code == WarningCode::OrderKeyBusy)
    };
    assert!(!warned().await);
    world.store.start(ordered("acme", "r2")).await.unwrap();
    assert!(warned().await);
}
