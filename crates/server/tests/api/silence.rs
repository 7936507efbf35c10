//! Expired leases count as failures, and a late success still counts where it can.

use std::time::Duration;

use redrive_engine::services;

use crate::world::World;

/// Time passes while the server is up.
async fn pass(world: &World, ms: u64) {
    let stamp = services::STAMP.on(world.store.clone(), "r1");
    for _ in 0..ms / 1_000 {
        stamp.run_once().await.unwrap();
        world.wait(1_000);
    }
    stamp.run_once().await.unwrap();
}

#[tokio::test]
async fn a_late_success_after_a_silent_failure_counts() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    pass(&world, 61_000).await;
    let swept = services::RESCUE.on(world.store.clone(), "r1").run_once().await.unwrap();
    assert_eq!(swept.moved, 1);
    let shown = world.show("a").await;
    assert_eq!((&shown["state"], &shown["reason"]), (&"scheduled".into(), &"silent".into()));

    let late = world.work("/v1/runs/a/succeed", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!((late.short(), late.get("late")), ((200, "recovered".into()), true.into()));
}

#[tokio::test]
async fn a_newer_attempt_ends_the_late_workers_lease() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    pass(&world, 61_000).await;
    services::RESCUE.on(world.store.clone(), "r1").run_once().await.unwrap();
    pass(&world, 31_000).await;
    assert_eq!(world.lease(1).await.len(), 1);
    let late = world.work("/v1/runs/a/succeed", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(late.short(), (409, "lease_lost".into()));
    let body = format!(r#"{{"lease":"{lease}","error":{{"message":"it broke"}}}}"#);
    let late = world.work("/v1/runs/a/fail", body).await;
    assert_eq!((late.short(), late.get("recorded")), ((409, "lease_lost".into()), true.into()));
}

#[tokio::test]
async fn an_unclaimed_run_is_dead_lettered() {
    let world = World::new().await;
    world.work("/v1/runs", r#"{"run_id":"a","mode":"enqueue"}"#).await;
    world.wait(25 * 3_600_000);
    assert_eq!(services::UNCLAIMED.on(world.store.clone(), "r1").run_once().await.unwrap().moved, 1);
    let shown = world.show("a").await;
    assert_eq!((&shown["state"], &shown["dead_because"]), (&"dead".into(), &"rejected".into()));
}

#[tokio::test]
async fn the_engine_runs_and_stops() {
    let world = World::new().await;
    let engine = services::Engine::start(&world.store, "r1").await.unwrap();
    world.begin("a").await;
    for _ in 0..35 {
        world.wait(2_000);
        world.store.stamp("r1").await.unwrap();
    }
    let silent = async {
        while world.state("a").await == "running" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), silent).await.unwrap();
    engine.stop(Duration::from_secs(2)).await;
}
