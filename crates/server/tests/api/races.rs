//! The same report from many clients at once.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_equal_reports_are_recorded_once_and_answered_alike() {
    let world = Arc::new(World::new().await);
    for round in 0..200 {
        let mut clients = JoinSet::new();
        for _ in 0..64 {
            let world = world.clone();
            clients.spawn(async move { world.fail(&format!("task-{round}")).await });
        }
        let answers = clients.join_all().await;
        let fresh = answers.iter().filter(|a| a.status == 201).count();
        let again = answers.iter().filter(|a| a.status == 200).count();
        assert_eq!((fresh, again), (1, 63));
        assert!(answers.iter().all(|a| a.text == answers[0].text), "{:?}", answers[0].text);
        assert_eq!(world.show(&format!("task-{round}")).await["attempts"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_workers_one_gets_the_run() {
    let world = Arc::new(World::new().await);
    world.work("/v1/runs", r#"{"run_id":"a","mode":"enqueue"}"#).await;
    let mut workers = JoinSet::new();
    for _ in 0..32 {
        let world = world.clone();
        workers.spawn(async move { world.lease(10).await.len() });
    }
    assert_eq!(workers.join_all().await.iter().sum::<usize>(), 1);
}
