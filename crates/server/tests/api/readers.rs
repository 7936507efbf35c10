//! A worker's key reads the runs that it holds, held or reported. Its tenant's other runs look absent to it.

use redrive_core::wire::Role;
use serde_json::json;

use crate::world::{Answered, World, make_key};

async fn second_worker(world: &World) -> String {
    make_key(world.store.clone(), world.dice.clone(), Role::Worker, Some("acme".parse().unwrap())).await
}

/// What a worker's key is shown of a run, over every route that shows one.
async fn shown(world: &World, run: &str, key: &str) -> Vec<Answered> {
    let mut all = Vec::new();
    for path in ["", "/attempts/1/sent", "/plan", "/revisions/1", "/duplicates"] {
        all.push(world.get(&format!("/v1/runs/{run}{path}"), key).await);
    }
    all.push(world.get(&format!("/v1/effects/{run}:charge"), key).await);
    all
}

fn statuses(answers: &[Answered]) -> Vec<u16> {
    answers.iter().map(|answered| answered.status.as_u16()).collect()
}

fn report(run: &str) -> String {
    let steps = json!([{ "name": "charge", "key": format!("{run}:charge"), "status": "committed", "effect": true }]);
    json!({ "run_id": run, "payload": { "n": 1 }, "resumable": true, "error": { "message": "Request timed out" }, "steps": steps })
        .to_string()
}

#[tokio::test]
async fn a_run_that_another_key_reported_looks_absent() {
    let world = World::new().await;
    let second = second_worker(&world).await;
    assert_eq!(world.work("/v1/failures", report("a")).await.status, 201);
    assert_eq!(statuses(&shown(&world, "a", &world.worker).await), [200, 200, 403, 403, 403, 200]);
    let (theirs, absent) = (shown(&world, "a", &second).await, shown(&world, "b", &second).await);
    assert_eq!(statuses(&theirs), [404, 404, 403, 403, 403, 404]);
    for (theirs, absent) in theirs.iter().zip(&absent) {
        assert_eq!(theirs.text, absent.text);
    }
    assert_eq!(world.get("/v1/runs/a", &world.tenant).await.status, 200);
}

#[tokio::test]
async fn a_key_reads_what_it_started_leased_or_reported() {
    let world = World::new().await;
    let second = second_worker(&world).await;
    let read = async |run: &str| world.get(&format!("/v1/runs/{run}"), &second).await.status.as_u16();

    world.post("/v1/runs", &second, r#"{"run_id":"started","mode":"start"}"#).await;
    assert_eq!(read("started").await, 200);

    world.post("/v1/runs", &second, r#"{"run_id":"queued","mode":"enqueue"}"#).await;
    assert_eq!(read("queued").await, 200);
    let leased = world.lease(10).await;
    assert_eq!(leased.len(), 1);
    assert_eq!(world.get("/v1/runs/queued", &world.worker).await.status, 200);
    assert_eq!(read("queued").await, 200);

    let lease = world.begin("failed").await;
    assert_eq!(read("failed").await, 404);
    let body = json!({ "lease": lease, "error": { "message": "m", "terminal": true } });
    assert_eq!(world.post("/v1/runs/failed/fail", &second, body).await.status, 200);
    assert_eq!(read("failed").await, 200);

    let lease = world.begin("done").await;
    assert_eq!(read("done").await, 404);
    assert_eq!(world.post("/v1/runs/done/succeed", &second, json!({ "lease": lease, "output": 1 })).await.status, 200);
    assert_eq!(read("done").await, 200);

    world.work("/v1/failures", report("again")).await;
    assert_eq!(read("again").await, 404);
    let next = json!({ "run_id": "again", "attempt": 2, "error": { "message": "m" } });
    assert_eq!(world.post("/v1/failures", &second, next).await.status, 201);
    assert_eq!(read("again").await, 200);
}

#[tokio::test]
async fn a_preflight_reads_no_run_of_another_key() {
    let world = World::new().await;
    let second = second_worker(&world).await;
    let payload = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "x ".repeat(500) }] });
    let used =
        json!({ "run_id": "a", "payload": payload, "error": { "message": "m" }, "usage": { "input_tokens": 700 } });
    assert_eq!(world.work("/v1/failures", used).await.status, 201);
    let ask = async |key: &str| {
        world.post("/v1/preflight", key, json!({ "payload": payload, "run_id": "a" })).await.get("calibrated_by")
    };
    assert_eq!(ask(&world.worker).await, "a");
    assert_eq!(ask(&second).await, serde_json::Value::Null);
}
