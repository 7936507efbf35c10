//! What runs carry is read beside the commit that grants them, and fits what was granted in the end.

use redrive_store::{NewRun, PayloadKind, Start, StartHow};
use tokio_postgres::NoTls;

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
async fn a_claim_that_is_done_anew_carries_what_it_got_then() {
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
