//! Reports and starts of runs that another replica has recorded.

use redrive_engine::{Error, NewFailure, Reported};

use crate::world::{World, report, start};

const TIMEOUT: &str = "Request timed out";

fn counted(world: &World) -> String {
    world.sql("SELECT (SELECT count(*) FROM runs) || ' runs, ' || (SELECT count(*) FROM attempts) || ' attempts'")
}

/// All that is reported together, by a replica that has not met any of it.
async fn reported_beside(world: &World, reports: Vec<NewFailure>) -> Vec<Result<Reported, Error>> {
    let other = world.beside().await;
    let said = other.report_all(reports).await;
    other.close().await;
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_another_replica_is_recognised_in_a_batch() {
    let world = World::postgres().await;
    let first = world.store.report(report("r1", TIMEOUT)).await.unwrap();
    let both = vec![report("r2", TIMEOUT), report("r1", TIMEOUT)];
    let said = reported_beside(&world, both).await;
    let fresh: Vec<bool> = said.iter().map(|said| said.as_ref().unwrap().fresh).collect();
    assert_eq!(fresh, [true, false]);
    assert_eq!(said[1].as_ref().unwrap().answer, first.answer);
    assert_eq!(counted(&world), "2 runs, 2 attempts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_of_a_run_that_is_there_finds_it() {
    let world = World::postgres().await;
    let (begun, _) = world.start("r1").await;
    let other = world.beside().await;
    let again = other.start(start("r1")).await;
    other.close().await;
    assert_eq!(again.unwrap().answer.attempt, begun.attempt);
    assert_eq!(counted(&world), "1 runs, 0 attempts");
}
