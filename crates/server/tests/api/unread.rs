//! Unread answers: their memory is bounded in total and per tenant, and returned.

use axum::body::Body;
use axum::response::Response;
use http::Method;
use redrive_server::ServerLimits;
use serde_json::json;
use tower::ServiceExt as _;

use crate::world::{World, request};

const PAYLOAD_BYTES: usize = 600 * 1024;

/// A tenant has room for one answer of a payload, and not for two.
async fn tight() -> World {
    World::with(ServerLimits { answers_max_bytes: 4 * 1024 * 1024, ..ServerLimits::default() }).await
}

async fn enqueue(world: &World, key: &str, run: &str) {
    let body = json!({"run_id": run, "mode": "enqueue", "payload": "x".repeat(PAYLOAD_BYTES)});
    assert_eq!(world.post("/v1/runs", key, body).await.status, 201);
}

/// An answer that stays unread until it is dropped.
async fn unread(world: &World, method: Method, path: &str, key: &str, body: &str) -> Response {
    world.router.clone().oneshot(request(method, path, key, Body::from(body.to_owned()))).await.unwrap()
}

async fn held_bytes(world: &World) -> usize {
    let metrics = world.get("/metrics", &world.operator).await.text;
    let line = metrics.lines().find_map(|line| line.strip_prefix("redrive_response_body_bytes ")).unwrap();
    line.parse().unwrap()
}

#[tokio::test]
async fn unread_answers_of_a_tenant_are_bounded_and_given_back() {
    let world = tight().await;
    for key in [&world.worker, &world.other_worker] {
        enqueue(&world, key, "large").await;
    }
    enqueue(&world, &world.worker, "another").await;
    assert_eq!(world.fail("small").await.status, 201);
    let first = unread(&world, Method::GET, "/v1/runs/large", &world.tenant, "").await;
    assert_eq!(first.status(), 200);
    assert!(held_bytes(&world).await > PAYLOAD_BYTES);

    for path in ["/v1/runs/large", "/v1/runs/another", "/v1/runs/large/revisions/1"] {
        let refused = world.get(path, &world.tenant).await;
        assert_eq!((refused.short(), &refused.headers["retry-after"]), ((503, "busy".into()), &"1".parse().unwrap()));
    }
    assert_eq!(world.get("/v1/runs/small", &world.tenant).await.status, 200, "small answers are not counted");
    assert_eq!(world.get("/v1/runs/large", &world.other_tenant).await.status, 200);
    assert_eq!(world.fail("small-too").await.status, 201);

    drop(first);
    assert_eq!(held_bytes(&world).await, 0);
    assert_eq!(world.get("/v1/runs/large", &world.tenant).await.status, 200);
}

#[tokio::test]
async fn no_run_is_leased_into_an_answer_without_room() {
    let world = tight().await;
    for run in ["a", "b", "c"] {
        enqueue(&world, &world.worker, run).await;
    }
    let one = r#"{"queues":["*"],"max":1}"#;
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(unread(&world, Method::POST, "/v1/leases", &world.worker, one).await);
    }
    assert!(answers.iter().all(|answer| answer.status() == 200));
    assert_eq!(world.work("/v1/leases", one).await.short(), (503, "busy".into()));
    let waiting = world.get("/v1/runs?state=scheduled", &world.tenant).await;
    assert_eq!(waiting.get("runs").as_array().map(Vec::len), Some(1));
    answers.clear();
    assert_eq!(world.lease(10).await.len(), 1);
}
