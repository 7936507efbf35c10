//! A store restored from a backup: old leases are fenced off, and nothing is handed out until an operator releases it.

use redrive_core::lifecycle::Refused;
use redrive_core::run::StateName;
use redrive_core::time::DAY_MS;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::StepStatus::{Committed, Started};
use redrive_engine::{Error, TenantScope, UnderLease};

use crate::reports::TIMEOUT;
use crate::world::{LEASE_MS, World, at, failed, start, step, success};

fn lost<T: std::fmt::Debug>(said: &Result<T, Error>) {
    assert!(matches!(said, Err(Error::LeaseLost { .. })), "{said:?}");
}

/// A run with one failed attempt, whose retry is due.
async fn retry_due(world: &World, run: &str) {
    let (_, lease) = world.start(run).await;
    world.store.fail(lease, failed(TIMEOUT)).await.unwrap();
    world.wait(DAY_MS);
}

async fn lease_one(world: &World) -> UnderLease {
    let leased = world.lease(1).await;
    let [run] = leased.as_slice() else { panic!("{} leases", leased.len()) };
    UnderLease { at: at("acme", run.run_id.as_str()), lease: run.lease.parse().unwrap() }
}

pub async fn a_restored_store_hands_out_nothing_until_released(world: World) {
    retry_due(&world, "r1").await;
    let (world, backup) = world.backed_up().await;
    assert_eq!(world.store.freeze().await.unwrap(), None);
    let world = world.restored(backup).await;
    assert!(world.store.freeze().await.unwrap().is_some());
    assert!(world.lease(10).await.is_empty());
    let again = world.store.start(start("r1")).await.map(|_| ());
    assert!(matches!(again, Err(Error::Refused(Refused::Held(_)))), "{again:?}");
    assert_eq!(world.fail("r2", TIMEOUT).await.state, StateName::Scheduled, "reports are taken");
    let (_, new) = world.start("r3").await;
    world.store.heartbeat(new.clone()).await.unwrap();
    world.store.succeed(success(&new, "1")).await.unwrap();
    world.wait(DAY_MS);
    assert_eq!(world.store.reject_unclaimed(10).await.unwrap().moved, 0, "nobody could claim them");

    assert!(world.store.lift_freeze("operator:ops".into(), None).await.unwrap().is_some());
    assert_eq!(
        (world.store.freeze().await.unwrap(), world.store.lift_freeze("operator:ops".into(), None).await.unwrap()),
        (None, None)
    );
    assert_eq!(world.lease(10).await.len(), 2);
}

pub async fn leases_granted_after_a_backup_are_fenced_off(world: World) {
    retry_due(&world, "r1").await;
    let (world, backup) = world.backed_up().await;
    let after = lease_one(&world).await;
    world.store.heartbeat(after.clone()).await.unwrap();
    let world = world.restored(backup).await;
    world.store.lift_freeze("operator:ops".into(), None).await.unwrap();
    let now = lease_one(&world).await;
    assert_eq!(now.lease.attempt, after.lease.attempt, "the same attempt is given out again");
    lost(&world.store.heartbeat(after.clone()).await);
    lost(&world.store.step(after.clone(), step("charge", true, Started)).await);
    lost(&world.store.succeed(success(&after, "1")).await);
    lost(&world.store.release(after).await);
    assert_eq!(world.state("r1").await, StateName::Running);
    world.store.succeed(success(&now, "1")).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Recovered);
}

pub async fn leases_from_before_a_backup_end_with_the_restore(world: World) {
    let (_, open) = world.start("r1").await;
    world.store.step(open.clone(), step("charge", true, Started)).await.unwrap();
    let (world, backup) = world.backed_up().await;
    let world = world.restored(backup).await;
    lost(&world.store.heartbeat(open.clone()).await);
    lost(&world.store.step(open, step("charge", true, Committed)).await);
    // Its name is as busy as before, and repeating its start gives no new lease.
    let again = world.store.start(start("r1")).await.map(|_| ());
    assert!(matches!(again, Err(Error::Refused(Refused::InFlight))), "{again:?}");
    world.wait(LEASE_MS + DAY_MS);
    world.store.rescue_expired(10).await.unwrap();
    let seen = world.show("r1").await.summary;
    assert_eq!((seen.state, seen.dead_because), (StateName::Dead, Some(DeadBecause::Unsafe)));
    let health = world.store.health(&TenantScope::All).await.unwrap();
    assert_eq!((health.running, health.dead), (0, 1));
}
