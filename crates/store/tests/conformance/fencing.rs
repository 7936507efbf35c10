//! L2 with its one exception: an ended lease changes nothing, but outcomes of its own effects are still recorded.

use redrive_core::run::StateName;
use redrive_core::wire::StepStatus::{Committed, Failed, Started, Unknown};
use redrive_core::wire::{EffectOutcome, StepStatus};
use redrive_engine::{Error, FailedAttempt, LeaseToken, NewFailure, Success, UnderLease};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{LEASE_MS, World, at, failed, new_run, step, success, unnamed};

/// An attempt that left `charge` open and went quiet, and the forced replay that took its place.
async fn superseded(world: &World) -> (UnderLease, UnderLease) {
    let (_, old) = world.start("r1").await;
    world.store.step(old.clone(), step("charge", true, Started)).await.unwrap();
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(100).await.unwrap();
    (old, world.replay("r1").await)
}

fn lost<T: std::fmt::Debug>(said: &Result<T, Error>, recorded: bool, what: &str) {
    assert!(matches!(said, Err(Error::LeaseLost { recorded: found }) if *found == recorded), "{what}: {said:?}");
}

async fn charge(world: &World) -> StepStatus {
    world.show("r1").await.body.steps[0].status
}

pub async fn old_epoch_settles_only_what_it_began(world: World) {
    let (old, new) = superseded(&world).await;
    let before = world.show("r1").await.summary;
    lost(&world.store.heartbeat(old.clone()).await, false, "heartbeat");
    lost(&world.store.release(old.clone()).await, false, "release");
    lost(&world.store.succeed(success(&old, "1")).await, false, "succeed");
    lost(&world.store.fail(old.clone(), failed(BUG)).await, true, "fail is kept as evidence");
    for (key, effect) in [("load", false), ("mail", true)] {
        for status in [Started, Committed, Failed] {
            lost(&world.store.step(old.clone(), step(key, effect, status)).await, false, "what it never began");
        }
    }
    lost(&world.store.step(old.clone(), step("charge", true, Started)).await, false, "it begins nothing");
    assert_eq!((charge(&world).await, world.entries("r1").await.len()), (Unknown, 1));
    for again in ["first", "again"] {
        lost(&world.store.step(old.clone(), step("charge", true, Committed)).await, true, again);
    }
    lost(&world.store.step(old, step("charge", true, Failed)).await, false, "done stays done");
    let mut after = world.show("r1").await.summary;
    after.updated_at = before.updated_at;
    assert_eq!((charge(&world).await, after), (Committed, before));
    assert!(world.replays(&new, step("charge", true, Started)).await, "the attempt under way is spared it");
}

pub async fn late_ending_still_records_outcomes_of_its_effects(world: World) {
    let (old, _) = superseded(&world).await;
    let steps = vec![step("charge", true, Committed), step("mail", true, Committed)];
    let told = Success { steps: steps.clone(), ..success(&old, "1") };
    lost(&world.store.succeed(told).await, true, "succeed");
    assert_eq!(world.entries("r1").await, [("charge".to_owned(), Committed)], "and of nothing else");

    let (_, quiet) = world.start("r2").await;
    world.store.step(quiet.clone(), step("r2:charge", true, Started)).await.unwrap();
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(100).await.unwrap();
    let steps = vec![step("r2:charge", true, Failed)];
    lost(&world.store.fail(quiet, FailedAttempt { steps, ..failed(TIMEOUT) }).await, true, "fail");
    assert_eq!(world.entries("r2").await, [("r2:charge".to_owned(), Failed)]);
}

pub async fn forged_lease_settles_nothing(world: World) {
    let (old, _) = superseded(&world).await;
    let forged = [
        LeaseToken { run: old.lease.run + 1, ..old.lease },
        LeaseToken { attempt: 9, ..old.lease },
        LeaseToken { proof: old.lease.proof ^ 1, ..old.lease },
    ];
    for forged in forged {
        let under = UnderLease { lease: forged, ..old.clone() };
        lost(&world.store.step(under, step("charge", true, Committed)).await, false, "forged");
    }
    assert_eq!(charge(&world).await, Unknown);
}

pub async fn lease_of_another_run_changes_neither_run(world: World) {
    let ((_, one), (_, other)) = (world.start("r1").await, world.start("r2").await);
    for (run, lease) in [(&one, other.lease), (&other, one.lease)] {
        let under = UnderLease { at: run.at.clone(), lease };
        lost(&world.store.heartbeat(under.clone()).await, false, "heartbeat");
        lost(&world.store.fail(under.clone(), failed(BUG)).await, false, "fail");
        lost(&world.store.succeed(success(&under, "1")).await, false, "succeed");
    }
    // A name that is nobody's stays so, whatever the lease says.
    let nobody = UnderLease { at: at("globex", "r1"), ..one.clone() };
    assert!(matches!(world.store.heartbeat(nobody).await, Err(Error::NotFound(_))));
    assert_eq!((world.state("r1").await, world.state("r2").await), (StateName::Running, StateName::Running));
    assert!(world.store.succeed(success(&one, "1")).await.is_ok(), "the one that holds it");
}

pub async fn late_outcome_enters_the_history_without_moving_the_run(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.step(under.clone(), step("charge", true, Started)).await.unwrap();
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(100).await.unwrap();
    lost(&world.store.step(under, step("charge", true, Committed)).await, true, "late");
    let shown = world.show("r1").await;
    assert_eq!(shown.summary.state, StateName::Dead);
    let last = shown.body.history.last().unwrap();
    let note = last.note.as_ref().map(|note| note.decode().into_owned());
    assert_eq!((last.event.as_str(), note.as_deref()), ("late_outcome", Some("charge committed")));
}

pub async fn late_unnamed_effects_settle_in_start_order(world: World) {
    let (_, under) = world.start("r1").await;
    for _ in 0..2 {
        world.store.step(under.clone(), unnamed("mail", Started)).await.unwrap();
    }
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(100).await.unwrap();
    for expected in [[Committed, Unknown], [Committed, Failed]] {
        let status = if expected[1] == Unknown { Committed } else { Failed };
        lost(&world.store.step(under.clone(), unnamed("mail", status)).await, true, "late");
        let shown: Vec<StepStatus> = world.entries("r1").await.into_iter().map(|(_, status)| status).collect();
        assert_eq!(shown, expected);
    }
}

/// What is reported without a lease is kept under epoch 0, which no lease has.
pub async fn a_lease_of_epoch_zero_settles_nothing(world: World) {
    let steps = vec![step("charge", true, Started)];
    let told = FailedAttempt { steps, ..failed(TIMEOUT) };
    world.store.report(NewFailure { run: new_run("r1"), failed: told }).await.unwrap();
    let (_, other) = world.start("r2").await;
    let lease = LeaseToken { run: other.lease.run - 1, attempt: 1, epoch: 0, proof: other.lease.proof };
    for attempt in [0, 1] {
        let forged = UnderLease { at: at("acme", "r1"), lease: LeaseToken { attempt, ..lease } };
        lost(&world.store.step(forged.clone(), step("charge", true, Committed)).await, false, "step");
        lost(&world.store.succeed(success(&forged, "1")).await, false, "succeed");
        lost(&world.store.fail(forged.clone(), failed(BUG)).await, false, "fail");
        lost(&world.store.heartbeat(forged.clone()).await, false, "heartbeat");
        lost(&world.store.release(forged).await, false, "release");
    }
    assert_eq!(charge(&world).await, Unknown);
}

pub async fn a_late_outcome_leaves_the_key_with_its_new_holder(world: World) {
    let (_, late) = world.start("r1").await;
    world.store.step(late.clone(), step("charge", true, Started)).await.unwrap();
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(100).await.unwrap();
    world.reconcile("charge", Some("r1"), EffectOutcome::NotDone).await.unwrap();
    let (_, holder) = world.start("r2").await;
    world.store.step(holder.clone(), step("charge", true, Started)).await.unwrap();
    lost(&world.store.step(late, step("charge", true, Committed)).await, true, "it did it after all");
    assert_eq!(world.look_up("charge", None).await.unwrap().run_id.as_str(), "r2");
    assert_eq!(world.look_up("charge", Some("r1")).await.unwrap().status, Committed);
    let done = world.store.step(holder, step("charge", true, Committed)).await.unwrap();
    assert_eq!((done.status, done.replayed), (Committed, false));
}
