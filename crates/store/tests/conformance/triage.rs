//! Triage of single runs.

use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::wire::StepStatus;
use redrive_engine::{Error, Triage};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, failed, step};

pub async fn a_replay_gives_a_fresh_budget(world: World) {
    for attempt in 1..=4 {
        let answer = world.fail("r1", &format!("{TIMEOUT} {}", "!".repeat(attempt))).await;
        assert_eq!(answer.state == StateName::Dead, attempt == 4);
    }
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
    let (leased, under) = world.lease_one().await;
    assert_eq!((leased.attempt, leased.replay), (5, true));
    let answer = world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert_eq!((answer.state, answer.attempt), (StateName::Scheduled, 5));
}

pub async fn closed_runs_open_only_by_force(world: World) {
    world.fail("r1", BUG).await;
    world.triage("r1", Triage::Resolve).await.unwrap();
    let refused = world.triage("r1", Triage::replay(false)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::Closed(StateName::Resolved)))));
    assert_eq!(world.triage("r1", Triage::replay(true)).await.unwrap(), StateName::Scheduled);
    let (_, _) = world.lease_one().await;
    assert!(matches!(world.triage("r1", Triage::replay(true)).await, Err(Error::Refused(Refused::InFlight))));
}

pub async fn effects_guard_a_replay(world: World) {
    let (_, under) = world.start("r1").await;
    for status in [StepStatus::Started, StepStatus::Committed] {
        world.store.step(under.clone(), step("mail", true, status)).await.unwrap();
    }
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert!(matches!(world.triage("r1", Triage::replay(false)).await, Err(Error::Refused(Refused::Unsafe))));
    assert_eq!(world.triage("r1", Triage::replay(true)).await.unwrap(), StateName::Scheduled);
}

pub async fn triage_history_names_actor_and_reason(world: World) {
    world.fail("r1", BUG).await;
    world.triage("r1", Triage::Note).await.unwrap();
    world.triage("r1", Triage::Discard).await.unwrap();
    let history = world.show("r1").await.body.history;
    let moves: Vec<_> = history
        .iter()
        .filter(|entry| entry.actor == "key:ops")
        .map(|entry| (entry.event.as_str(), entry.to, entry.note.as_ref().map(|note| note.decode().into_owned())))
        .collect();
    let because = Some("because".to_owned());
    assert_eq!(
        moves,
        [("note", Some(StateName::Dead), because.clone()), ("discard", Some(StateName::Discarded), because)]
    );
}

pub async fn replays_are_capped(world: World) {
    world.fail("r1", BUG).await;
    for n in 0..10 {
        assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled, "replay {n}");
        world.triage("r1", Triage::Cancel).await.unwrap();
    }
    assert!(matches!(world.triage("r1", Triage::replay(false)).await, Err(Error::Refused(Refused::ReplaysUsed(10)))));
    assert_eq!(world.triage("r1", Triage::replay(true)).await.unwrap(), StateName::Scheduled);
}
