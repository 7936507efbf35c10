//! Preflight: on request, and enforced before the first attempt.

use serde_json::{Value, json};

use crate::world::{Answered, World};

fn chat(model: &str, words: usize) -> Value {
    json!({"model": model, "max_tokens": 1000, "messages": [
        {"role": "user", "content": "old ".repeat(words)},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "The core task."},
    ]})
}

async fn ask(world: &World, body: Value) -> Value {
    let answered = world.work("/v1/preflight", body).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    answered.json()
}

async fn enforced(world: &World, how: &str) {
    let settings = json!({"policy": {"preflight": how}});
    let answered = world.call(http::Method::PUT, "/v1/queues/default", &world.admin, settings.to_string()).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
}

async fn start(world: &World, mode: &str, payload: &Value) -> Answered {
    world.work("/v1/runs", json!({"run_id": "a", "mode": mode, "payload": payload})).await
}

#[tokio::test]
async fn a_fitting_payload_gets_its_remaining_room() {
    let world = World::new().await;
    let found = ask(&world, json!({"payload": chat("gpt-4o", 100)})).await;
    assert_eq!(found["verdict"], "ok");
    assert_eq!(found["budget"]["input_tokens"], 127_000);
    assert_eq!(found["largest"]["pointer"], "/messages/0");
    assert_eq!(found["largest"]["role"], "user");
    let [low, tokens, high] = ["low", "tokens", "high"].map(|name| found["estimate"][name].as_u64().unwrap());
    assert!(low < tokens && tokens < high && (90..130).contains(&tokens), "{found}");
    assert!(!found["fits"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn an_oversized_payload_gets_advice() {
    let world = World::new().await;
    let compress = ask(&world, json!({"payload": chat("gpt-4o", 200_000)})).await;
    assert_eq!(compress["verdict"], "compress");
    assert!(compress["floor_tokens"].as_u64().unwrap() < 200);
    let one = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "new ".repeat(200_000)}]});
    let reject = ask(&world, json!({"payload": one})).await;
    assert_eq!(reject["verdict"], "reject");
    assert!(reject["why"].as_str().unwrap().contains("The largest part is /messages/0"), "{}", reject["why"]);
    assert!(reject["fits"].as_array().unwrap().contains(&"gpt-4.1".into()));
    let split = ask(&world, json!({"payload": "text ".repeat(300_000), "model": "gpt-4o"})).await;
    assert_eq!((&split["verdict"], &split["split_into"]), (&"split".into(), &3.into()));
    let near = ask(&world, json!({"payload": chat("gpt-4o", 120_000)})).await;
    assert_eq!(near["verdict"], "warn");
}

#[tokio::test]
async fn an_unknown_model_is_a_warning_and_never_a_block() {
    let world = World::new().await;
    let found = ask(&world, json!({"payload": chat("house-model", 3_000_000 / 4)})).await;
    assert_eq!((&found["verdict"], &found["budget"]), (&"warn".into(), &Value::Null));
    enforced(&world, "enforce").await;
    assert_eq!(start(&world, "start", &chat("house-model", 500_000)).await.status, 201);
}

#[tokio::test]
async fn only_a_workers_own_run_calibrates_the_estimate() {
    let world = World::new().await;
    let usage = json!({"input_tokens": 150});
    let payload = chat("gpt-4o", 100);
    world
        .work("/v1/failures", json!({"run_id": "a", "payload": payload, "usage": usage, "error": {"message": "m"}}))
        .await;
    let asked = |run: &str| json!({"payload": chat("gpt-4o", 200), "run_id": run});
    let plain = ask(&world, json!({"payload": chat("gpt-4o", 200)})).await;
    let by_run = ask(&world, asked("a")).await;
    assert_eq!((&by_run["calibrated_by"], &plain["calibrated_by"]), (&"a".into(), &Value::Null));
    let tokens = |found: &Value| found["estimate"]["tokens"].as_u64().unwrap();
    assert!(tokens(&by_run) > tokens(&plain) + 40, "{by_run} {plain}");
    assert_eq!(ask(&world, asked("none")).await, plain);
    let other = world.post("/v1/preflight", &world.other_worker, asked("a")).await.json();
    assert_eq!(other, plain, "another tenant's run is as one that is not there");
}

#[tokio::test]
async fn bad_preflight_input_is_named() {
    let world = World::new().await;
    for (body, field) in [
        (json!({}), "payload"),
        (json!({"payload": 1, "payload_base64": "AA=="}), "payload_base64"),
        (json!({"payload_base64": "not base64!"}), "payload_base64"),
    ] {
        let answered = world.work("/v1/preflight", body).await;
        assert_eq!((answered.short().1, answered.get("field")), ("invalid_field".into(), field.into()));
    }
    let answered = world.work("/v1/preflight", r#"{"payload":1,"modle":"x"}"#).await;
    assert_eq!(answered.short(), (422, "unknown_field".into()));
    let bytes = ask(&world, json!({"payload_base64": "AP//AA==", "model": "gpt-4o"})).await;
    assert_eq!(bytes["verdict"], "ok");
}

#[tokio::test]
async fn an_enforced_preflight_compresses_the_first_attempt() {
    let world = World::new().await;
    enforced(&world, "enforce").await;
    let payload = chat("gpt-4o", 200_000);
    let started = start(&world, "start", &payload).await;
    assert_eq!(started.status, 201, "{}", started.text);
    let answer = started.json();
    assert_eq!(
        (&answer["changes"][0]["change"], &answer["changes"][0]["applied"]),
        (&"compress_context".into(), &true.into())
    );
    assert!(answer["payload"].to_string().len() < 600_000);
    assert_eq!(answer["payload"]["messages"].as_array().unwrap().last(), Some(&payload["messages"][2]));
    assert_eq!(answer["preflight"]["verdict"], "compress");
    assert_eq!(world.show("a").await["payload"], payload, "the original stays");
    assert_eq!(start(&world, "start", &payload).await.short(), (409, "in_flight".into()));
}

#[tokio::test]
async fn an_enforced_preflight_dead_letters_impossible_payloads() {
    let world = World::new().await;
    enforced(&world, "enforce").await;
    let payload = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "new ".repeat(200_000)}]});
    let refused = start(&world, "start", &payload).await;
    assert_eq!(refused.short(), (409, "dead_lettered".into()));
    let verdict = refused.get("verdict");
    assert_eq!((&verdict["dead_because"], &verdict["reason"]), (&"rejected".into(), &"context_overflow".into()));
    assert_eq!(verdict["rule"], "preflight.too_large");
    assert!(verdict["why"].as_str().unwrap().contains("nothing can be left out"));
    let shown = world.show("a").await;
    assert_eq!((&shown["state"], &shown["payload"]), (&"dead".into(), &payload));
    let queued = world.work("/v1/runs", json!({"run_id": "b", "mode": "enqueue", "payload": payload})).await;
    assert_eq!((queued.status.as_u16(), queued.get("state"), queued.get("lease")), (201, "dead".into(), Value::Null));
    assert_eq!(queued.get("preflight")["verdict"], "reject");
}

#[tokio::test]
async fn preflight_can_warn_only_or_be_off() {
    let world = World::new().await;
    let payload = chat("gpt-4o", 200_000);
    enforced(&world, "warn").await;
    let warned = start(&world, "start", &payload).await.json();
    assert_eq!((&warned["preflight"]["verdict"], &warned["payload"]), (&"compress".into(), &Value::Null));
    enforced(&world, "off").await;
    let body = json!({"run_id": "b", "mode": "start", "payload": payload});
    assert_eq!(world.work("/v1/runs", body).await.get("preflight"), Value::Null);
}
