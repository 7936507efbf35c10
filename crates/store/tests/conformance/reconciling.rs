//! Reconciling unknown effects: by a person, the step's own check, or the worker that left them.

use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::wire::EffectOutcome::{self, NotDone};
use redrive_core::wire::StepStatus::{Committed, Failed, Reconciled, Started, Unknown};
use redrive_core::wire::{EffectView, StepStatus};
use redrive_engine::{EffectRef, Error, NewStep, Reconcile, Result, Triage, UnderLease, encode};

use crate::reports::TIMEOUT;
use crate::world::{World, failed, step, unnamed};

const DONE: EffectOutcome = EffectOutcome::Committed;

impl World {
    pub async fn look_up(&self, key: &str, run: Option<&str>) -> Result<EffectView> {
        self.store.effect(&effect(key, run)).await
    }

    pub async fn reconcile(&self, key: &str, run: Option<&str>, outcome: EffectOutcome) -> Result<EffectView> {
        let output = (outcome == DONE).then(|| encode(br#"{"id": 7.0}"#));
        let (actor, reason) = ("key:ops".to_owned(), Some(Text::from("saw it at the bank")));
        let at = effect(key, run);
        self.store.reconcile(Reconcile { at, outcome, output, output_omitted: None, actor, reason }).await
    }
}

fn effect(key: &str, run: Option<&str>) -> EffectRef {
    let run_id = run.map(|run| run.parse().unwrap());
    EffectRef { tenant: "acme".parse().unwrap(), key: key.parse().unwrap(), run_id }
}

pub async fn reconciliation_and_worker_reports_keep_their_order(world: World) {
    for n in 0..50 {
        let (run, key) = (format!("r{n}"), format!("charge-{n}"));
        let (_, under) = world.start(&run).await;
        let (settled, done) = tokio::join!(
            biased;
            world.reconcile(&key, Some(&run), NotDone),
            world.store.step(under, step(&key, true, Committed)),
        );
        done.unwrap();
        assert!(matches!(settled, Err(Error::NotFound(_))), "it was asked before the step: {settled:?}");
    }
}

/// A run that died with this effect open.
async fn left_open(world: &World, run: &str, step: NewStep) -> UnderLease {
    let (_, under) = world.start(run).await;
    world.store.step(under.clone(), step).await.unwrap();
    world.store.fail(under.clone(), failed(TIMEOUT)).await.unwrap();
    under
}

fn charge(status: StepStatus) -> NewStep {
    step("charge", true, status)
}

pub async fn reconciled_effect_is_skipped_by_the_replay(world: World) {
    left_open(&world, "r1", charge(Started)).await;
    let settled = world.reconcile("charge", None, DONE).await.unwrap();
    assert_eq!((settled.status, settled.outcome, settled.run_id.as_str()), (Reconciled, Some(DONE), "r1"));
    assert_eq!((settled.settled_by.as_deref(), settled.attempt), (Some("key:ops"), 1));
    assert!(settled.started_at.is_some());
    let shown = world.show("r1").await;
    assert_eq!(shown.summary.state, StateName::Dead, "it stays where it is until somebody replays it");
    let last = shown.body.history.last().unwrap();
    let note = last.note.as_ref().unwrap().decode().into_owned();
    assert_eq!((last.actor.as_str(), last.event.as_str()), ("key:ops", "reconcile"));
    assert_eq!(note, "charge committed: saw it at the bank");
    // The doubt is gone; that an effect is done in a run that can't resume is not.
    assert!(matches!(world.triage("r1", Triage::replay(false)).await, Err(Error::Refused(Refused::Unsafe))));
    let again = world.replay("r1").await;
    let given_back = world.store.step(again, charge(Started)).await.unwrap();
    assert_eq!((given_back.replayed, given_back.output.unwrap().get()), (true, r#"{"id": 7.0}"#));
}

pub async fn effect_reconciled_as_not_done_can_start_again(world: World) {
    left_open(&world, "r1", charge(Started)).await;
    assert!(matches!(world.triage("r1", Triage::replay(false)).await, Err(Error::Refused(Refused::EffectUnknown))));
    assert_eq!(world.reconcile("charge", None, NotDone).await.unwrap().outcome, Some(NotDone));
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
    let (leased, under) = world.lease_one().await;
    assert_eq!((leased.steps[0].status, leased.steps[0].outcome), (Reconciled, Some(NotDone)));
    for status in [Started, Committed] {
        assert!(!world.replays(&under, charge(status)).await);
    }
    assert_eq!(world.look_up("charge", None).await.unwrap().outcome, None);
}

pub async fn only_unknown_effects_are_reconciled_and_once(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.step(under.clone(), charge(Started)).await.unwrap();
    let open = world.reconcile("charge", None, DONE).await;
    assert!(matches!(open, Err(Error::Refused(Refused::InFlight))), "its worker is at it: {open:?}");
    world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    for _ in 0..2 {
        world.reconcile("charge", None, DONE).await.unwrap();
    }
    let told = world.show("r1").await.body.history.iter().filter(|entry| entry.event == "reconcile").count();
    assert_eq!(told, 1, "the same again is the same");
    let other = world.reconcile("charge", None, NotDone).await;
    assert!(matches!(other, Err(Error::EffectSettled { status: Reconciled })), "{other:?}");
    let (_, under) = world.start("r2").await;
    world.store.step(under, step("mail", true, Committed)).await.unwrap();
    let known = world.reconcile("mail", None, NotDone).await;
    assert!(matches!(known, Err(Error::EffectSettled { status: Committed })), "{known:?}");
}

pub async fn unnamed_effect_is_found_through_its_run(world: World) {
    for run in ["r1", "r2"] {
        left_open(&world, run, unnamed("mail", Started)).await;
    }
    assert!(matches!(world.look_up("step:mail", None).await, Err(Error::NotFound("effect"))));
    let settled = world.reconcile("step:mail", Some("r2"), NotDone).await.unwrap();
    assert_eq!((settled.run_id.as_str(), settled.status), ("r2", Reconciled));
    assert_eq!(world.look_up("step:mail", Some("r1")).await.unwrap().status, Unknown);
    assert_eq!(world.triage("r2", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
}

pub async fn check_under_a_live_lease_settles_an_unknown_effect(world: World) {
    let how = encode(br#""GET /charges?key=charge""#);
    left_open(&world, "r1", NewStep { check: Some(how), ..charge(Started) }).await;
    let again = world.replay("r1").await;
    let told = &world.show("r1").await.body.steps[0];
    assert_eq!(
        told.check.as_ref().map(|check| check.decode().into_owned()).as_deref(),
        Some("GET /charges?key=charge")
    );
    assert!(matches!(world.store.step(again.clone(), charge(Started)).await, Err(Error::EffectUnknown)));
    assert!(
        matches!(world.store.step(again.clone(), charge(Failed)).await, Err(Error::EffectUnknown)),
        "that this attempt did nothing says nothing of the other"
    );
    let checked = world.store.step(again.clone(), NewStep { checked: true, ..charge(Failed) }).await.unwrap();
    assert_eq!((checked.status, checked.outcome), (Reconciled, Some(NotDone)));
    assert!(!world.replays(&again, charge(Started)).await, "now it may begin");
    let history = world.show("r1").await.body.history;
    assert!(history.iter().any(|entry| entry.event == "reconcile" && entry.actor == "worker"));
}

pub async fn worker_outcome_overrides_a_mistaken_reconciliation(world: World) {
    let old = left_open(&world, "r1", charge(Started)).await;
    world.reconcile("charge", None, NotDone).await.unwrap();
    let late = world.store.step(old.clone(), charge(Committed)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })), "{late:?}");
    assert!(matches!(world.triage("r1", Triage::replay(false)).await, Err(Error::Refused(Refused::Unsafe))));

    let old = left_open(&world, "r2", step("mail", true, Started)).await;
    world.reconcile("mail", None, NotDone).await.unwrap();
    let new = world.replay("r2").await;
    world.store.step(new, step("mail", true, Started)).await.unwrap();
    let late = world.store.step(old, step("mail", true, Committed)).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: false })), "another lease started it again: {late:?}");
}

pub async fn another_tenants_effect_is_not_found(world: World) {
    left_open(&world, "r1", charge(Started)).await;
    world.enqueue("globex", "r1").await;
    for run_id in [None, Some("r1".parse().unwrap())] {
        let at = EffectRef { tenant: "globex".parse().unwrap(), key: "charge".parse().unwrap(), run_id };
        assert!(matches!(world.store.effect(&at).await, Err(Error::NotFound("effect"))));
        let reconcile =
            Reconcile { at, outcome: DONE, output: None, output_omitted: None, actor: "key:them".into(), reason: None };
        assert!(matches!(world.store.reconcile(reconcile).await, Err(Error::NotFound("effect"))));
    }
    assert_eq!(world.look_up("charge", None).await.unwrap().status, Unknown);
}

pub async fn lookup_prefers_the_keys_holder_over_previous_owners(world: World) {
    let (_, one) = world.start("r1").await;
    let (_, two) = world.start("r2").await;
    for status in [Started, Failed] {
        world.store.step(one.clone(), charge(status)).await.unwrap();
    }
    let found = world.look_up("charge", None).await.unwrap();
    assert_eq!((found.run_id.as_str(), found.status), ("r1", Failed));
    world.wait(5);
    world.store.step(two, charge(Committed)).await.unwrap();
    let found = world.look_up("charge", None).await.unwrap();
    assert_eq!((found.run_id.as_str(), found.status, found.started_at), ("r2", Committed, None));
    let (at, used) = (found.at, found.last_used_at);
    world.wait(5);
    assert!(world.replays(&one, charge(Started)).await);
    let found = world.look_up("charge", None).await.unwrap();
    assert_eq!((found.at, found.last_used_at.since(used)), (at, 5), "given back is in use");
    assert_eq!(world.look_up("charge", Some("r1")).await.unwrap().status, Failed);
}
