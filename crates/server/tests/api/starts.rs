//! Start and enqueue.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_new_run_starts_with_a_lease() {
    let world = World::new().await;
    let answered = world.start("task-1").await;
    assert_eq!(answered.status, 201);
    let mut answer = answered.json();
    assert!(answer["lease"].take().is_string());
    insta::assert_json_snapshot!(answer, @r#"
    {
      "attempt": 1,
      "changes": [],
      "lease": null,
      "lease_expires_at": "2027-01-15T08:01:00.000Z",
      "replay": false,
      "revision": 1,
      "run_id": "task-1",
      "state": "running",
      "steps": [],
      "tenant": "acme"
    }
    "#);
}

#[tokio::test]
async fn a_repeated_start_returns_the_same_lease() {
    let world = World::new().await;
    let body = r#"{"run_id":"a","mode":"start","start_id":"0B9E1C1E-5c0a-4c58-9e9b-0123456789ab"}"#;
    let first = world.work("/v1/runs", body).await;
    let again = world.work("/v1/runs", body).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    assert_eq!(first.get("lease"), again.get("lease"));
    assert_eq!(world.start("a").await.short(), (409, "in_flight".into()));
}

#[tokio::test]
async fn a_start_id_is_a_uuid_in_either_case() {
    let world = World::new().await;
    let start = |id: &str| format!(r#"{{"run_id":"a","mode":"start","start_id":"{id}"}}"#);
    for bad in ["0b9e", "", "0b9e1c1e5c0a4c589e9b0123456789ab", "{0b9e1c1e-5c0a-4c58-9e9b-0123456789ab}"] {
        let refused = world.work("/v1/runs", start(bad)).await;
        assert_eq!(
            (refused.short(), refused.get("field")),
            ((422, "invalid_field".into()), "start_id".into()),
            "{bad}"
        );
    }
    let first = world.work("/v1/runs", start("0b9e1c1e-5c0a-4c58-9e9b-0123456789ab")).await;
    let again = world.work("/v1/runs", start("0B9E1C1E-5C0A-4C58-9E9B-0123456789AB")).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    assert_eq!(first.get("lease"), again.get("lease"));
    // Another tenant's start of the same name and id is its own.
    let theirs = world.post("/v1/runs", &world.other_worker, start("0b9e1c1e-5c0a-4c58-9e9b-0123456789ab")).await;
    assert_eq!((theirs.status.as_u16(), theirs.get("tenant")), (201, "globex".into()));
    assert_ne!(theirs.get("lease"), first.get("lease"));
}

#[tokio::test]
async fn a_running_order_key_holds_a_start() {
    let world = World::new().await;
    let start = |run: &str| format!(r#"{{"run_id":"{run}","mode":"start","order_key":"cart-7"}}"#);
    assert_eq!(world.work("/v1/runs", start("a")).await.status, 201);
    let held = world.work("/v1/runs", start("b")).await;
    assert_eq!((held.short(), held.get("held_by")), ((409, "held".into()), "order_key:cart-7".into()));
    assert_eq!(world.get("/v1/runs/b", &world.tenant).await.status, 404);
}

#[tokio::test]
async fn an_enqueued_run_without_its_payload_is_dead_at_once() {
    let world = World::new().await;
    let digest = "a".repeat(64);
    let omitted = json!({"run_id": "a", "mode": "enqueue", "payload_omitted": {"bytes": 99, "sha256": digest}});
    assert_eq!(world.work("/v1/runs", omitted).await.short(), (201, "dead".into()));
    assert_eq!(world.show("a").await["dead_because"], "rejected");
}

#[tokio::test]
async fn a_scheduled_run_starts_when_due_or_caller_retried() {
    let world = World::new().await;
    world.fail("a").await;
    assert_eq!(world.start("a").await.short(), (409, "not_due".into()));
    world.wait(600_000);
    let started = world.start("a").await;
    assert_eq!((started.status.as_u16(), started.get("attempt")), (200, 2.into()));

    world.retried_by_caller("mine").await;
    let body = r#"{"run_id":"b","queue":"mine","error":{"message":"Request timed out"}}"#;
    world.work("/v1/failures", body).await;
    assert_eq!(world.start("b").await.short(), (200, "running".into()));
}

#[tokio::test]
async fn starting_a_finished_run_returns_its_verdict_or_output() {
    let world = World::new().await;
    world.kill("dead").await;
    let answered = world.work("/v1/runs", r#"{"run_id":"dead","mode":"start","payload":{"n":1}}"#).await;
    assert_eq!(answered.short(), (409, "dead_lettered".into()));
    assert_eq!(answered.get("verdict")["dead_because"], "permanent");

    let lease = world.begin("done").await;
    let done = world.work("/v1/runs/done/succeed", format!(r#"{{"lease":"{lease}","output":{{"x": 1}}}}"#)).await;
    assert_eq!(done.short(), (200, "succeeded".into()));
    let answered = world.start("done").await;
    assert_eq!(answered.short(), (200, "succeeded".into()));
    assert!(answered.get("lease").is_null());
    assert!(answered.text.contains(r#""output":{"x": 1}"#), "{}", answered.text);
}

#[tokio::test]
async fn a_run_keeps_its_payload() {
    let world = World::new().await;
    let body = |payload: &str| format!(r#"{{"run_id":"a","mode":"enqueue","payload":{payload}}}"#);
    assert_eq!(world.work("/v1/runs", body("1")).await.short(), (201, "scheduled".into()));
    assert_eq!(world.work("/v1/runs", body("1")).await.short(), (200, "scheduled".into()));
    assert_eq!(world.work("/v1/runs", body("2")).await.short(), (409, "run_conflict".into()));
    // A failure is never refused for its payload: the first one is kept.
    let failure = r#"{"run_id":"a","payload":3,"error":{"message":"Request timed out"}}"#;
    assert_eq!(world.work("/v1/failures", failure).await.status, 201);
    assert_eq!(world.show("a").await["payload"], 1);
}

#[tokio::test]
async fn clocks_outside_their_range_are_refused_by_name() {
    let world = World::new().await;
    for (field, value) in [("lease_ms", "499"), ("lease_ms", "86400001"), ("idle_ms", "1"), ("deadline_ms", "0")] {
        let body = format!(r#"{{"run_id":"a","mode":"start","{field}":{value}}}"#);
        let answered = world.work("/v1/runs", body).await;
        assert_eq!((answered.short(), answered.get("field")), ((422, "invalid_field".into()), field.into()));
    }
    let body = r#"{"run_id":"a","mode":"start","due_at":"2030-01-01T00:00:00Z"}"#;
    assert_eq!(world.work("/v1/runs", body).await.get("field"), "due_at");
}
