//! Starting runs: every case of `POST /v1/runs`.

use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::verdict::DeadBecause;
use redrive_engine::{Error, PayloadKind, Start, StartHow, Triage, UnderLease};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, at, failed, payload, start, success};

pub async fn repeated_start_id_returns_the_same_lease(world: World) {
    let first = world.store.start(start("r1")).await.unwrap();
    assert!(first.created);
    assert_eq!((first.answer.state, first.answer.attempt, first.answer.replay), (StateName::Running, 1, false));
    let again = world.store.start(start("r1")).await.unwrap();
    assert_eq!((again.created, &again.answer.lease), (false, &first.answer.lease));
    let how = StartHow::Start { start_id: Some(Label::from("another")), lease_ms: None };
    let other = world.store.start(Start { how, ..start("r1") }).await;
    assert!(matches!(other, Err(Error::Refused(Refused::InFlight))));
}

pub async fn scheduled_run_starts_only_when_due(world: World) {
    world.fail("r1", TIMEOUT).await;
    let early = world.store.start(start("r1")).await;
    assert!(matches!(early, Err(Error::Refused(Refused::NotDue))));
    world.wait(30_001);
    let begun = world.store.start(start("r1")).await.unwrap();
    assert!(!begun.created);
    assert_eq!((begun.answer.state, begun.answer.attempt), (StateName::Running, 2));
}

pub async fn a_caller_may_start_before_the_due_time(world: World) {
    world.retried_by_caller("default").await;
    world.fail("r1", TIMEOUT).await;
    assert_eq!(world.store.start(start("r1")).await.unwrap().answer.attempt, 2);
}

pub async fn a_dead_run_refuses_a_start_with_its_verdict(world: World) {
    let answer = world.fail("r1", BUG).await;
    let Err(Error::DeadLettered(verdict)) = world.store.start(start("r1")).await else {
        panic!("dead runs do not start")
    };
    assert_eq!(*verdict, Some(answer.verdict.into_verdict()));
}

pub async fn a_closed_run_answers_with_its_output_and_no_lease(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.succeed(success(&under, r#"{"total": 1.0}"#)).await.unwrap();
    let answer = world.store.start(start("r1")).await.unwrap().answer;
    assert_eq!((answer.state, answer.lease), (StateName::Succeeded, None));
    assert_eq!(answer.output.unwrap().get(), r#"{"total": 1.0}"#);
}

pub async fn another_payload_under_the_same_run_is_a_conflict(world: World) {
    world.enqueue("acme", "r1").await;
    let mut other = start("r1");
    other.run.payload = payload(PayloadKind::Json, b"2");
    assert!(matches!(world.store.start(other).await, Err(Error::RunConflict)));
    assert_eq!(world.state("r1").await, StateName::Scheduled);
}

pub async fn enqueuing_again_returns_no_lease(world: World) {
    let (_, under) = world.start("r1").await;
    let how = StartHow::Enqueue { due_at: None };
    let again = world.store.start(Start { how, ..start("r1") }).await.unwrap().answer;
    assert_eq!((again.state, again.lease, again.lease_expires_at), (StateName::Running, None, None));
    assert!(world.store.heartbeat(under).await.is_ok());
}

pub async fn an_order_key_holds_for_starts_too(world: World) {
    let ordered = |run: &str, tenant: &str| {
        let mut start = start(run);
        start.run.order_key = Some("cart-7".parse().unwrap());
        start.run.tenant = tenant.parse().unwrap();
        start
    };
    let held = |said: Result<redrive_engine::Started, Error>| {
        assert!(matches!(&said, Err(Error::Refused(Refused::Held(by))) if by == "order_key:cart-7"), "{said:?}");
    };
    let first = world.store.start(ordered("o-1", "acme")).await.unwrap().answer;
    held(world.store.start(ordered("o-2", "acme")).await);
    assert!(matches!(world.store.run(&at("acme", "o-2")).await, Err(Error::NotFound(_))), "nothing was begun");
    assert!(world.store.start(ordered("o-1", "globex")).await.is_ok(), "another tenant's key is another one");
    assert_eq!(world.store.start(ordered("o-1", "acme")).await.unwrap().answer.lease, first.lease);
    // One that waits is held as well, and so are starts by callers who retry themselves.
    world.retried_by_caller("callers").await;
    for queue in ["default", "callers"] {
        let mut waiting = ordered(&format!("w-{queue}"), "acme");
        waiting.run.queue = queue.parse().unwrap();
        let how = StartHow::Enqueue { due_at: None };
        world.store.start(Start { how, ..waiting.clone() }).await.unwrap();
        held(world.store.start(waiting).await);
    }
    let under = UnderLease { at: at("acme", "o-1"), lease: first.lease.unwrap().parse().unwrap() };
    world.store.succeed(success(&under, "1")).await.unwrap();
    assert!(world.store.start(ordered("o-2", "acme")).await.is_ok());
    assert!(world.lease(10).await.is_empty(), "and a start holds leases up");
}

pub async fn an_early_begin_ends_a_deferral(world: World) {
    world.retried_by_caller("default").await;
    world.fail("r1", TIMEOUT).await;
    let until = world.store.now().plus_ms(3_600_000);
    world.triage("r1", Triage::Defer { until }).await.unwrap();
    assert_eq!(world.show("r1").await.summary.deferred_until, Some(until));
    let (_, under) = world.start("r1").await;
    assert_eq!(world.show("r1").await.summary.deferred_until, None);
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert_eq!(world.show("r1").await.summary.deferred_until, None, "it was for the attempt before");
}

pub async fn an_enqueued_run_without_payload_is_a_dead_letter(world: World) {
    let mut omitted = start("r1");
    omitted.run.payload = payload(PayloadKind::Omitted, b"");
    omitted.how = StartHow::Enqueue { due_at: None };
    let answer = world.store.start(omitted).await.unwrap().answer;
    assert_eq!((answer.state, answer.lease), (StateName::Dead, None));
    let shown = world.show("r1").await;
    assert_eq!(shown.summary.dead_because, Some(DeadBecause::Rejected));
    assert!(shown.body.history.iter().any(|entry| entry.event == "not_replayable" && entry.actor == "engine"));
    assert!(matches!(world.triage("r1", Triage::replay(true)).await, Err(Error::Refused(Refused::NotReplayable))));
}
