//! Context overflows over the API: compressed, moved to a larger model, or dead-lettered at once.

use serde_json::json;

use crate::strategies::{MINUTE, chat, kinds, verdict};
use crate::world::World;

const OVERFLOW: &str = "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However, your messages resulted in 20011 tokens. Please reduce the length of the messages.\", 'type': 'invalid_request_error', 'code': 'context_length_exceeded'}}";

#[tokio::test]
async fn an_overflow_is_retried_with_a_compressed_payload() {
    let world = World::new().await;
    let payload = chat("gpt-4", 60);
    let verdict =
        verdict(&world, "a", json!({"payload": payload, "model": "gpt-4", "error": {"message": OVERFLOW}})).await;
    assert_eq!(kinds(&verdict["changes"]), ["compress_context", "add_instruction"]);
    let to = verdict["changes"][0]["to_tokens"].as_u64().unwrap();
    assert!((3_000..8_192 - 1_000).contains(&to), "{to}");
    let why = verdict["why"].as_str().unwrap();
    assert!(
        why.starts_with(
            "The input does not fit the model's context (20011 of 8192): retry in 10 s with the input cut to"
        ),
        "{why}"
    );
    assert!(why.ends_with("3 attempts left; no larger model is set for the queue."), "{why}");

    world.wait(10_000);
    let leased = world.lease(1).await.remove(0);
    assert_eq!(leased["changes"][0]["applied"], true, "{}", leased["changes"]);
    let (sent, whole) = (leased["payload"].to_string(), payload.to_string());
    assert!(
        sent.len() < whole.len() / 2 && sent.contains("You write invoices.") && sent.contains("Now write the invoice.")
    );
    assert!(sent.contains("Focus on the core task."));

    let lease = leased["lease"].as_str().unwrap();
    let again = world.work("/v1/runs/a/fail", json!({"lease": lease, "error": {"message": OVERFLOW}})).await.json();
    assert_eq!((&again["state"], &again["verdict"]["dead_because"]), (&json!("dead"), &json!("exhausted")));
}

#[tokio::test]
async fn an_overflow_moves_to_a_larger_model() {
    let world = World::new().await;
    world.set_queue("invoices", json!({"policy": {"models": ["gpt-4", "gpt-4o", "gpt-5"]}})).await;
    let body =
        json!({"queue": "invoices", "payload": chat("gpt-4", 60), "model": "gpt-4", "error": {"message": OVERFLOW}});
    let verdict = verdict(&world, "a", body).await;
    assert_eq!(verdict["target"], json!({"agent": null, "model": "gpt-4o", "queue": null}));
    assert!(verdict["why"].as_str().unwrap().contains(" on model gpt-4o, "), "{}", verdict["why"]);
    assert_eq!(world.show("a").await["model"], "gpt-4o");
    world.wait(10_000);
    let leased = world.lease(1).await.remove(0);
    assert_eq!((&leased["model"], &leased["payload"]["model"]), (&json!("gpt-4o"), &json!("gpt-4o")));
    // All of it fits there: nothing was left out.
    assert!(leased["payload"]["messages"].as_array().unwrap().len() >= 122);

    // A passing failure of the changed attempt is retried with the same changes.
    let lease = leased["lease"].as_str().unwrap();
    world.work("/v1/runs/a/fail", json!({"lease": lease, "error": {"message": "Request timed out"}})).await;
    world.wait(10 * MINUTE);
    assert_eq!(world.lease(1).await[0]["payload"]["model"], "gpt-4o");
}

#[tokio::test]
async fn an_overflow_that_cannot_shrink_is_dead_at_once() {
    let world = World::new().await;
    let payload = json!({"model": "gpt-4", "messages": [{"role": "system", "content": "all of it matters ".repeat(6_000)}, {"role": "user", "content": "Go."}]});
    let body = json!({"payload": payload, "model": "gpt-4", "error": {"message": OVERFLOW}});
    let verdict = verdict(&world, "a", body).await;
    assert_eq!((&verdict["action"], &verdict["dead_because"]), (&json!("dead_letter"), &json!("permanent")));
    assert!(verdict["why"].as_str().unwrap().contains("no available model takes more than"), "{}", verdict["why"]);

    // Under a lease the payload is read from the store, with the same result.
    world.work("/v1/runs", json!({"run_id": "b", "mode": "enqueue", "model": "gpt-4", "payload": payload})).await;
    let lease = world.lease(1).await[0]["lease"].clone();
    let failed = world.work("/v1/runs/b/fail", json!({"lease": lease, "error": {"message": OVERFLOW}})).await.json();
    assert_eq!((&failed["state"], &failed["verdict"]["why"]), (&json!("dead"), &verdict["why"]));
}
