//! A reported success is checked before it counts.

use http::Method;
use redrive_engine::services;
use serde_json::{Value, json};

use crate::world::World;

async fn set(world: &World, policy: Value) {
    world.set_queue("default", json!({ "policy": policy })).await;
}

async fn succeed(world: &World, run: &str, lease: &str, success: &Value) -> crate::world::Answered {
    let mut body = success.clone();
    body.as_object_mut().unwrap().insert("lease".into(), lease.into());
    world.work(&format!("/v1/runs/{run}/succeed"), body).await
}

#[tokio::test]
async fn each_detector_catches_its_case_and_spares_the_near_miss() {
    let world = World::new().await;
    for (n, line) in include_str!("../../../core/src/detect/examples.jsonl").lines().enumerate() {
        let example: Value = serde_json::from_str(line).unwrap();
        let detect = example.get("detect").cloned().unwrap_or(json!({}));
        set(&world, json!({ "detect": detect })).await;
        let run = format!("r{n}");
        let lease = world.begin(&run).await;
        let answered = succeed(&world, &run, &lease, &example["success"]).await;
        assert_eq!(answered.status, 200, "{line}: {}", answered.text);
        let verdict = answered.get("verdict");
        match example["detector"].as_str() {
            Some(detector) => {
                assert_eq!(verdict["rule"], format!("detector.{detector}"), "{line}");
                assert_ne!(answered.get("state"), "succeeded");
                let shown = world.show(&run).await;
                assert_eq!(shown["attempts"][0]["outcome"], "failed");
                let given = example["success"].get("output").filter(|output| !output.is_null());
                assert_eq!(shown["attempts"][0].get("output"), given, "the output is kept");
            }
            None => assert_eq!((verdict, answered.get("state")), (Value::Null, json!("succeeded")), "{line}"),
        }
    }
}

#[tokio::test]
async fn honest_successes_count() {
    let world = World::new().await;
    for (n, line) in include_str!("../../../core/src/detect/honest.jsonl").lines().enumerate() {
        let (run, lease) = (format!("r{n}"), world.begin(&format!("r{n}")).await);
        let body = format!(r#"{{"lease":"{lease}"{}{}"#, if line == "{}" { "" } else { "," }, &line[1..]);
        let answered = world.work(&format!("/v1/runs/{run}/succeed"), body).await;
        assert_eq!(answered.short(), (200, "succeeded".into()), "{line}");
    }
}

#[tokio::test]
async fn a_refused_success_is_retried_with_its_error_and_recovers() {
    let world = World::new().await;
    let payload = json!({"model": "gpt-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Sum it up."}]});
    world.work("/v1/runs", json!({"run_id": "a", "mode": "enqueue", "payload": payload})).await;
    let lease = world.lease(1).await[0]["lease"].as_str().unwrap().to_owned();
    let capped = json!({"output": "Agent stopped due to max iterations."});
    let answered = succeed(&world, "a", &lease, &capped).await;
    assert_eq!((answered.short(), answered.get("late")), ((200, "scheduled".into()), json!(false)));
    let verdict = answered.get("verdict");
    assert_eq!((&verdict["reason"], &verdict["category"]), (&json!("max_iterations"), &json!("conditional")));
    assert_eq!(verdict["why"], "It ran out of steps: retry in 30 s with the last error, 3 attempts left.");

    // The same again gets the same answer.
    assert_eq!(succeed(&world, "a", &lease, &capped).await.text, answered.text);
    let shown = world.show("a").await;
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(shown["attempts"][0]["error"]["type"], "detector.step_cap_answer");
    assert_eq!((&shown["attempts"][0]["output"], shown.get("output")), (&capped["output"], None));

    world.wait(30_000);
    let leased = world.lease(1).await.remove(0);
    assert!(leased["payload"].to_string().contains("the agent's step cap stands in the answer's place"), "{leased}");
    let lease = leased["lease"].as_str().unwrap();
    assert_eq!(
        succeed(&world, "a", lease, &json!({"output": "Three lines."})).await.short(),
        (200, "recovered".into())
    );
    let health = world.get("/v1/tenants/acme/health", &world.tenant).await.json();
    assert_eq!((&health["recovered_24h"], &health["pending_retries"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn a_worker_that_corrects_itself_before_the_retry_still_succeeds() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    assert_eq!(succeed(&world, "a", &lease, &json!({"output": ""})).await.short(), (200, "dead".into()));
    let corrected = succeed(&world, "a", &lease, &json!({"output": "42"})).await;
    assert_eq!((corrected.short(), corrected.get("late")), ((200, "recovered".into()), json!(true)));
}

#[tokio::test]
async fn a_late_success_that_a_detector_refuses_changes_nothing() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    world.wait(61_000);
    services::RESCUE.on(world.store.clone(), "r1").run_once().await.unwrap();
    let late = succeed(&world, "a", &lease, &json!({"output": "", "finish_reason": "length"})).await;
    assert_eq!((late.short(), late.get("recorded")), ((409, "lease_lost".into()), json!(true)));
    let shown = world.show("a").await;
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("scheduled"), &json!("silent")));
    assert_eq!(shown["attempts"][0]["late"]["type"], "detector.output_truncated");
}

#[tokio::test]
async fn a_caller_retried_success_is_refused_and_recovers_later() {
    let world = World::new().await;
    world.retried_by_caller("mine").await;
    world.work("/v1/failures", r#"{"run_id":"a","queue":"mine","error":{"message":"Request timed out"}}"#).await;
    let blank = json!({"output": " "});
    let refused = world.work("/v1/runs/a/succeed", &blank).await;
    assert_eq!(refused.get("verdict")["rule"], "detector.empty_output");
    assert_eq!(world.work("/v1/runs/a/succeed", &blank).await.text, refused.text, "a re-send");
    assert_eq!(world.show("a").await["attempt"], 2);
    let named = json!({"attempt": 2, "output": " "});
    assert_eq!(world.work("/v1/runs/a/succeed", &named).await.short(), (409, "attempt_conflict".into()));
    assert_eq!(world.work("/v1/runs/a/succeed", json!({"output": "x"})).await.short(), (200, "recovered".into()));
    assert_eq!(world.show("a").await["attempt"], 3);
}

#[tokio::test]
async fn an_effect_that_the_ledger_knows_is_an_effect() {
    let world = World::new().await;
    set(&world, json!({"detect": {"expect_effect": true, "expect_tools": ["send_mail"]}})).await;
    let lease = world.begin("a").await;
    let step = json!({"lease": lease, "name": "send_mail", "key": "a:mail", "effect": true, "status": "committed"});
    assert_eq!(world.work("/v1/runs/a/steps", step).await.status, 200);
    assert_eq!(succeed(&world, "a", &lease, &json!({"output": "Sent."})).await.short(), (200, "succeeded".into()));
}

#[tokio::test]
async fn a_third_equal_refused_output_is_a_loop() {
    let world = World::new().await;
    let schema = json!({"type": "object"});
    set(
        &world,
        json!({"detect": {"output_schema": schema}, "strategy": {"schema_mismatch": {"tries": 5, "changes": []}}}),
    )
    .await;
    let mut lease = world.begin("a").await;
    for (rule, wait) in [("schema_invalid", 10_000), ("schema_invalid", 10_000), ("repeat_call_loop", 0)] {
        let answered = succeed(&world, "a", &lease, &json!({"output": "no"})).await;
        assert_eq!(answered.get("verdict")["rule"], format!("detector.{rule}"), "{}", answered.text);
        world.wait(wait);
        if wait > 0 {
            lease = world.lease(1).await[0]["lease"].as_str().unwrap().to_owned();
        }
    }
}

#[tokio::test]
async fn an_output_schema_takes_effect_at_once() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    set(&world, json!({"detect": {"output_schema": {"required": ["total"]}}})).await;
    let answered = succeed(&world, "a", &lease, &json!({"output": {"sum": 1}})).await;
    assert_eq!(answered.get("verdict")["reason"], "schema_mismatch");
    let shown = world.show("a").await;
    assert_eq!(shown["attempts"][0]["error"]["message"], "the output breaks the queue's schema: it lacks `total`");
    let path = json!({"policy": {"detect": {"output_schema": "schemas/a.json"}}}).to_string();
    assert_eq!(world.call(Method::PUT, "/v1/queues/default", &world.admin, path).await.status, 422);
}
