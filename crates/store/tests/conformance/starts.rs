//! Runs that begin: every case of `POST /v1/runs`.

use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_store::{Error, PayloadKind, Start, StartHow};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, payload, start, success};

pub async fn a_start_gets_a_lease_and_the_same_start_id_the_same_one(world: World) {
    let first = world.store.start(start("r1")).await.unwrap();
    assert!(first.created);
    assert_eq!((first.answer.state, first.answer.attempt, first.answer.replay), (StateName::Running, 1, false));
    let again = world.store.start(start("r1")).await.unwrap();
    assert_eq!((again.created, &again.answer.lease), (false, &first.answer.lease));
    let how = StartHow::Start { start_id: Some(Label::from("another")), lease_ms: None };
    let other = world.store.start(Start { how, ..start("r1") }).await;
    assert!(matches!(other, Err(Error::Refused(Refused::InFlight))));
}

pub async fn a_scheduled_run_starts_when_it_is_due_and_not_before(world: World) {
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

pub async fn whoever_enqueues_again_gets_nobodys_lease(world: World) {
    let (_, under) = world.start("r1").await;
    let how = StartHow::Enqueue { due_at: None };
    let again = world.store.start(Start { how, ..start("r1") }).await.unwrap().answer;
    assert_eq!((again.state, again.lease, again.lease_expires_at), (StateName::Running, None, None));
    assert!(world.store.heartbeat(under).await.is_ok());
}
