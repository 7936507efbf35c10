//! Leases: what is leased to whom, how long a call waits, and reports under a lease.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn a_due_run_is_leased_with_all_a_worker_needs() {
    let world = World::new().await;
    let body = r#"{"run_id":"a","mode":"enqueue","agent":"biller","payload":{"n": 1},"headers":{"h":"v"},
                   "idempotency_key":"a-1","links":{"trace":"https://t"}}"#;
    world.work("/v1/runs", body).await;
    let mut leased = world.lease(10).await;
    assert_eq!(leased.len(), 1);
    assert!(leased[0]["lease"].take().is_string());
    insta::assert_json_snapshot!(leased[0], @r#"
    {
      "agent": "biller",
      "attempt": 1,
      "changes": [],
      "content_type": null,
      "headers": {
        "h": "v"
      },
      "idempotency_key": "a-1",
      "lease": null,
      "lease_expires_at": "2027-01-15T08:01:00.000Z",
      "model": null,
      "payload": {
        "n": 1
      },
      "queue": "default",
      "replay": false,
      "revision": 1,
      "run_id": "a",
      "steps": [],
      "tenant": "acme",
      "trace": "https://t"
    }
    "#);
    assert_eq!(world.lease(10).await.len(), 0);
}

/// L7 over HTTP, for any backlog and size of calls.
#[tokio::test]
async fn a_backlog_does_not_delay_another_tenants_leases() {
    let world = World::new().await;
    let enqueued = |run: String| json!({"run_id": run, "mode": "enqueue"});
    for n in 0..200 {
        assert_eq!(world.work("/v1/runs", enqueued(format!("big{n}"))).await.status, 201);
    }
    for (round, cuts) in [[20].as_slice(), &[1; 20], &[7, 6, 5, 2], &[3, 3, 3, 3, 3, 3, 2]].into_iter().enumerate() {
        for n in 0..10 {
            let made = world.post("/v1/runs", &world.other_worker, enqueued(format!("small{round}-{n}"))).await;
            assert_eq!(made.status, 201);
        }
        let mut small = 0;
        for max in cuts {
            let body = json!({"queues": ["*"], "max": max});
            let leased = world.post("/v1/leases", &world.any_worker, body).await.get("leases");
            let leased = leased.as_array().unwrap();
            assert_eq!(leased.len(), *max);
            small += leased.iter().filter(|run| run["run_id"].as_str().unwrap().starts_with("small")).count();
        }
        assert_eq!(small, 10, "{cuts:?}");
    }
}

#[tokio::test]
async fn a_queue_named_thrice_hands_a_run_out_once() {
    let world = World::new().await;
    world.work("/v1/runs", r#"{"run_id":"a","mode":"enqueue"}"#).await;
    let leased = world.work("/v1/leases", r#"{"queues":["default","default","default"]}"#).await.get("leases");
    assert_eq!(leased.as_array().unwrap().len(), 1, "{leased}");
}

#[tokio::test]
async fn a_lease_call_repeats_with_its_request_id() {
    let world = World::new().await;
    for run in ["a", "b"] {
        world.work("/v1/runs", format!(r#"{{"run_id":"{run}","mode":"enqueue","payload":{{"n": 1}}}}"#)).await;
    }
    let call = |id: &str| format!(r#"{{"queues":["*"],"max":1,"request_id":"{id}"}}"#);
    let bad = world.work("/v1/leases", call("again")).await;
    assert_eq!((bad.short(), bad.get("field")), ((422, "invalid_field".into()), "request_id".into()));
    let first = world.work("/v1/leases", call("0b9e1c1e-5c0a-4c58-9e9b-0123456789ab")).await;
    let again = world.work("/v1/leases", call("0B9E1C1E-5C0A-4C58-9E9B-0123456789AB")).await;
    assert_eq!((first.get("leases")[0]["run_id"].as_str(), &first.text), (Some("a"), &again.text));
    let theirs = world.post("/v1/leases", &world.other_worker, call("0b9e1c1e-5c0a-4c58-9e9b-0123456789ab")).await;
    assert_eq!(theirs.get("leases"), json!([]));
    let other = world.work("/v1/leases", call("1b9e1c1e-5c0a-4c58-9e9b-0123456789ab")).await;
    assert_eq!(other.get("leases")[0]["run_id"], "b");
}

#[tokio::test]
async fn many_leases_are_renewed_in_one_call() {
    let world = World::new().await;
    let (a, b) = (world.begin("a").await, world.begin("b").await);
    world.post("/v1/runs/b/cancel", &world.tenant, "").await;
    world.wait(30_000);
    let beat = |run: &str, lease: &str| json!({"run_id": run, "lease": lease});
    let other = json!({"run_id": "a", "tenant": "globex", "lease": a});
    let leases = json!([beat("b", &b), beat("a", &a), other, beat("none", &a), beat("a", "no lease")]);
    let said = world.work("/v1/heartbeats", json!({ "leases": leases })).await;
    insta::assert_snapshot!(said.text, @r#"{"leases":[{"run_id":"b","code":"cancelled"},{"run_id":"a","lease_expires_at":"2027-01-15T08:01:30.000Z"},{"run_id":"a","code":"wrong_tenant"},{"run_id":"none","code":"not_found"},{"run_id":"a","code":"invalid_field"}]}"#);
    // A key that spans tenants names each one's.
    let unnamed = world.post("/v1/heartbeats", &world.any_worker, json!({"leases": [beat("a", &a)]})).await;
    assert_eq!(unnamed.get("leases")[0]["code"], "tenant_required");
    let named = json!({"leases": [{"run_id": "a", "tenant": "acme", "lease": a}]});
    let named = world.post("/v1/heartbeats", &world.any_worker, named).await;
    assert_eq!(named.get("leases")[0]["lease_expires_at"], "2027-01-15T08:01:30.000Z");
}

#[tokio::test]
async fn a_thousand_heartbeats_fit_into_a_call_and_no_more() {
    let world = World::new().await;
    let call = |n: usize| json!({"leases": vec![json!({"run_id": "none", "lease": "l1-1-1-1"}); n]});
    let full = world.work("/v1/heartbeats", call(1_000)).await;
    assert_eq!((full.status.as_u16(), full.get("leases").as_array().unwrap().len()), (200, 1_000));
    let over = world.work("/v1/heartbeats", call(1_001)).await;
    assert_eq!((over.short(), over.get("field")), ((422, "invalid_field".into()), "leases".into()));
}

#[tokio::test]
async fn the_numbers_of_a_lease_call_are_bounded() {
    let world = World::new().await;
    for (body, field) in [
        (r#"{"queues":["*"],"max":0}"#, "max"),
        (r#"{"queues":["*"],"max":1001}"#, "max"),
        (r#"{"queues":["*"],"lease_ms":499}"#, "lease_ms"),
        (r#"{"queues":["*"],"lease_ms":86400001}"#, "lease_ms"),
        (r#"{"queues":["*"],"wait_ms":30001}"#, "wait_ms"),
        (r#"{"queues":[]}"#, "queues"),
        (r#"{"queues":["a b"]}"#, "queues[0]"),
    ] {
        let answered = world.work("/v1/leases", body).await;
        assert_eq!((answered.status.as_u16(), answered.get("field")), (422, field.into()), "{body}");
    }
}

#[tokio::test]
async fn a_waiting_lease_call_returns_when_work_arrives() {
    let world = World::new().await;
    let waiting = world.work("/v1/leases", r#"{"queues":["*"],"wait_ms":20000}"#);
    let arriving = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.work("/v1/runs", r#"{"run_id":"a","mode":"enqueue"}"#).await
    };
    let answered = tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(waiting, arriving).0 }).await;
    assert_eq!(answered.unwrap().get("leases").as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_revoked_while_its_call_waits_gets_nothing() {
    let world = World::new().await;
    let keys = world.get("/v1/keys", &world.admin).await.json();
    let of_worker = |key: &&Value| key["role"] == "worker" && key["tenant"] == "acme";
    let id = keys["keys"].as_array().unwrap().iter().find(of_worker).unwrap()["id"].as_str().unwrap().to_owned();
    let waiting = world.work("/v1/leases", r#"{"queues":["*"],"wait_ms":20000}"#);
    let revoking = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(world.store.revoke_key(&id).await.unwrap());
        // The cached look-up has expired.
        world.wait(1_000);
        let run = r#"{"run_id":"a","tenant":"acme","mode":"enqueue"}"#;
        assert_eq!(world.post("/v1/runs", &world.any_worker, run).await.status, 201);
    };
    let answered = tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(waiting, revoking).0 }).await;
    assert_eq!(answered.unwrap().short(), (401, "unauthorized".into()));
}

#[tokio::test]
async fn a_stopping_server_answers_waiting_lease_calls() {
    let world = World::new().await;
    let waiting = world.work("/v1/leases", r#"{"queues":["*"],"wait_ms":20000}"#);
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.app.stop();
    };
    let answered =
        tokio::time::timeout(Duration::from_secs(5), async { tokio::join!(waiting, stopping).0 }).await.unwrap();
    assert_eq!((answered.status.as_u16(), answered.get("leases").as_array().map(Vec::len)), (200, Some(0)));

    let refused = world.work("/v1/leases", r#"{"queues":["*"]}"#).await;
    assert_eq!(refused.short(), (503, "closing".into()));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(world.start("a").await.short(), (503, "closing".into()));
    assert_eq!(world.call(Method::GET, "/readyz", "", "").await.short(), (503, "closing".into()));
    assert_eq!(world.fail("a").await.status, 201);
}

#[tokio::test]
async fn heartbeats_extend_a_lease_and_a_release_spends_nothing() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    world.wait(30_000);
    let beat = world.work("/v1/runs/a/heartbeat", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(beat.get("lease_expires_at"), "2027-01-15T08:01:30.000Z");

    let released = world.work("/v1/runs/a/release", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(released.short(), (200, "scheduled".into()));
    let again = world.work("/v1/runs/a/release", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(again.short(), (200, "scheduled".into()));
    world.wait(60_000);
    let leased = world.lease(1).await;
    assert_eq!(leased[0]["attempt"], 1);
    let late = world.work("/v1/runs/a/heartbeat", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(late.short(), (409, "lease_lost".into()));
}

#[tokio::test]
async fn the_same_ending_again_gets_the_stored_answer() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let body = format!(r#"{{"lease":"{lease}","error":{{"message":"Request timed out"}},"model":"gpt-5"}}"#);
    let first = world.work("/v1/runs/a/fail", &body).await;
    let again = world.work("/v1/runs/a/fail", &body).await;
    assert_eq!((first.short(), again.short()), ((200, "scheduled".into()), (200, "scheduled".into())));
    assert_eq!(first.get("verdict"), again.get("verdict"));
    assert_eq!(world.show("a").await["attempts"][0]["model"], "gpt-5");
}

#[tokio::test]
async fn an_unknown_lease_is_refused_without_asking_the_store() {
    let world = World::new().await;
    let answered = world.work("/v1/runs/a/heartbeat", r#"{"lease":"l1-1"}"#).await;
    assert_eq!((answered.short(), answered.get("field")), ((422, "invalid_field".into()), "lease".into()));
    let absent = world.work("/v1/runs/a/heartbeat", r#"{"lease":"l1-1-1-1"}"#).await;
    assert_eq!(absent.short(), (404, "not_found".into()));
}

#[tokio::test]
async fn only_caller_retried_queues_take_a_success_without_lease() {
    let world = World::new().await;
    world.fail("a").await;
    assert_eq!(world.work("/v1/runs/a/succeed", "{}").await.short(), (409, "lease_needed".into()));
    world.retried_by_caller("mine").await;
    world.work("/v1/failures", r#"{"run_id":"b","queue":"mine","error":{"message":"Request timed out"}}"#).await;
    let body = r#"{"output":"fine"}"#;
    assert_eq!(world.work("/v1/runs/b/succeed", body).await.short(), (200, "recovered".into()));
    assert_eq!(world.work("/v1/runs/b/succeed", body).await.short(), (200, "recovered".into()));
}

#[tokio::test]
async fn thousands_of_runs_do_not_starve_another_tenant() {
    let world = World::new().await;
    let line = |i: usize| format!(r#"{{"run_id":"big-{i}","attempt":1,"error":{{"message":"Request timed out"}}}}"#);
    let lines: Vec<String> = (0..2_000).map(line).collect();
    let mut request = crate::world::request(Method::POST, "/v1/failures", &world.worker, lines.join("\n"));
    request.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    assert_eq!(world.send(request).await.status, 200);
    for i in 0..10 {
        let body = format!(r#"{{"run_id":"small-{i}","error":{{"message":"Request timed out"}}}}"#);
        assert_eq!(world.post("/v1/failures", &world.other_worker, body).await.status, 201);
    }
    world.wait(600_000);
    let answered = world.post("/v1/leases", &world.any_worker, r#"{"queues":["*"],"max":20}"#).await;
    let leases = answered.get("leases");
    let small = leases.as_array().unwrap().iter().filter(|l| l["tenant"] == "globex").count();
    assert_eq!((leases.as_array().unwrap().len(), small), (20, 10));
}

#[tokio::test]
async fn waiting_calls_are_bounded_for_each_tenant() {
    let world = World::new().await;
    let agents = vec!["a".repeat(900); 1_000];
    let body = json!({ "queues": ["*"], "agents": agents, "wait_ms": 30_000 }).to_string();
    let (world, body) = (&world, &body);
    let wait = |key: String| async move {
        let mut waiting = Box::pin(async move { world.post("/v1/leases", &key, body).await });
        match tokio::time::timeout(Duration::from_millis(300), &mut waiting).await {
            Ok(answered) => Err(answered),
            Err(_) => Ok(waiting),
        }
    };
    let mut waiting = Vec::new();
    let refused = loop {
        assert!(waiting.len() < 20, "any number of calls may wait");
        match wait(world.worker.clone()).await {
            Ok(call) => waiting.push(call),
            Err(answered) => break answered,
        }
    };
    assert_eq!(refused.short(), (503, "busy".into()));
    assert_eq!(refused.headers["retry-after"], "5");
    assert!(wait(world.other_worker.clone()).await.is_ok());
    drop(waiting);
    assert!(wait(world.worker.clone()).await.is_ok());
}
