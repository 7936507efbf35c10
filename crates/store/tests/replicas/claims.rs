//! What runs carry is read beside the commit that grants them, and fits what was granted in the end; how long it is their
//! rows say. What a claim writes before its end holds with the rest of it, or not at all.

use redrive_core::run::StateName;
use redrive_engine::{LeaseCall, NewRun, PayloadKind, Start, StartHow};
use tokio_postgres::NoTls;

use crate::due_watermarks::entries_read;
use crate::opening::until_somebody_waits;
use crate::world::{World, lease_call, new_run, payload, start};

/// The first to change a run waits for whoever holds this lock, and has to begin anew then.
const ONCE: &str = "CREATE SEQUENCE tries;
     CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF nextval('tries') = 1 THEN PERFORM pg_advisory_xact_lock(42); RAISE SQLSTATE '40001'; END IF;
         RETURN NULL; END $$;
     CREATE TRIGGER once BEFORE UPDATE ON runs FOR EACH STATEMENT EXECUTE FUNCTION once()";

async fn enqueue(world: &World, run: &str) {
    let payload = payload(PayloadKind::Json, format!("{{\"of\":\"{run}\"}}").as_bytes());
    let (run, how) = (NewRun { payload, ..new_run(run) }, StartHow::Enqueue { due_at: None });
    world.store.start(Start { run, how, ..start("r") }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retried_claim_returns_the_runs_of_its_last_try() {
    let world = World::postgres().await;
    for run in ["first", "second"] {
        enqueue(&world, run).await;
    }
    world.sql(ONCE);
    let (somebody, connection) = tokio_postgres::connect(world.url(), NoTls).await.unwrap();
    let moved = tokio::spawn(connection);
    // The first run is not to be had before the claim has begun anew.
    let hold = "BEGIN; SELECT pg_advisory_xact_lock(42); SELECT 1 FROM runs WHERE run_id = 'first' FOR UPDATE";
    somebody.batch_execute(hold).await.unwrap();
    let store = world.store.clone();
    let claim = tokio::spawn(async move { store.lease(lease_call(10)).await.unwrap() });
    until_somebody_waits(world.url());
    somebody.batch_execute("ROLLBACK").await.unwrap();
    let leased = claim.await.unwrap();
    let mut carried: Vec<&str> = leased.iter().map(|run| run.payload.as_ref().unwrap().get()).collect();
    carried.sort_unstable();
    assert_eq!(carried, [r#"{"of":"first"}"#, r#"{"of":"second"}"#]);
    drop(somebody);
    moved.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_comes_to_each_payload_once() {
    let world = World::postgres().await;
    for n in 0..10 {
        enqueue(&world, &format!("r{n}")).await;
    }
    assert_eq!(world.lease(10).await.len(), 10);
    assert_eq!(entries_read(&world, "payloads_pkey").await, 10);
}

/// As rows from before it was kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payload_size_is_looked_up_when_the_row_lacks_it() {
    let world = World::postgres().await;
    for run in ["a", "b", "c"] {
        enqueue(&world, run).await;
    }
    world.sql("UPDATE runs SET life = '{}'");
    let call = |bytes| LeaseCall { payload_max_bytes: bytes, ..lease_call(10) };
    // Ten bytes each.
    assert_eq!(world.store.lease(call(15)).await.unwrap().len(), 1);
    assert_eq!(world.store.lease(call(20)).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_claim_reports_why_and_changes_nothing() {
    let world = World::postgres().await;
    for n in 0..10 {
        enqueue(&world, &format!("r{n}")).await;
    }
    world.sql(
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
         CREATE TRIGGER never BEFORE UPDATE ON runs FOR EACH ROW WHEN (OLD.run_id = 'r0') EXECUTE FUNCTION never()",
    );
    let refused = world.store.lease(lease_call(10)).await.unwrap_err();
    assert!(refused.to_string().contains("not this one"), "{refused}");
    for n in 0..10 {
        assert_eq!(world.state(&format!("r{n}")).await, StateName::Scheduled);
    }
    world.sql("DROP TRIGGER never ON runs");
    assert_eq!(world.lease(10).await.len(), 10);
}
