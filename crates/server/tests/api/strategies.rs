//! The strategy table row by row over the API: a real error comes in, the verdict says what is done and why, and the retry
//! is leased accordingly.

use redrive_engine::services;
use serde_json::{Value, json};

use crate::world::{NOON, World};

pub const MINUTE: u64 = 60_000;

pub async fn report(world: &World, run: &str, body: Value) -> Value {
    let mut report = json!({"run_id": run});
    report.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let answered = world.work("/v1/failures", report).await;
    assert_eq!(answered.status, 201, "{}", answered.text);
    answered.json()
}

pub async fn verdict(world: &World, run: &str, body: Value) -> Value {
    report(world, run, body).await["verdict"].clone()
}

pub fn error(message: &str) -> Value {
    json!({"error": {"message": message}})
}

/// How long the verdict waits.
pub fn waits_ms(verdict: &Value, now: i64) -> i64 {
    let due: redrive_core::time::Timestamp = verdict["next_attempt_at"].as_str().unwrap().parse().unwrap();
    due.as_millis() - now
}

pub fn kinds(changes: &Value) -> Vec<&str> {
    changes.as_array().unwrap().iter().map(|change| change["change"].as_str().unwrap()).collect()
}

pub fn chat(model: &str, turns: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": "You write invoices."})];
    for n in 0..turns {
        messages.push(
            json!({"role": "user", "content": format!("Line {n}: {}", "one more position of the order ".repeat(40))}),
        );
        messages.push(json!({"role": "assistant", "content": "Noted."}));
    }
    messages.push(json!({"role": "user", "content": "Now write the invoice."}));
    json!({"model": model, "max_tokens": 1000, "messages": messages})
}

#[tokio::test]
async fn transient_failures_are_retried_unchanged_with_backoff() {
    let world = World::new().await;
    let busy = json!({"error": {"message": "Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}", "http_status": 529}});
    let verdict = verdict(&world, "a", busy).await;
    assert_eq!((&verdict["action"], &verdict["reason"]), (&json!("retry"), &json!("provider_overloaded")));
    assert!((1_000..=30_000).contains(&waits_ms(&verdict, NOON)));
    assert_eq!((&verdict["changes"], &verdict["target"]["model"]), (&json!([]), &Value::Null));
    world.wait(MINUTE);
    assert_eq!(world.lease(1).await[0]["changes"], json!([]));
}

#[tokio::test]
async fn a_rate_limit_waits_for_its_retry_after() {
    let world = World::new().await;
    let limited = error(
        "Error code: 429 - Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 20s.",
    );
    let verdict = verdict(&world, "a", limited).await;
    assert_eq!((&verdict["reason"], waits_ms(&verdict, NOON)), (&json!("rate_limited"), 20_000));
}

#[tokio::test]
async fn silence_is_retried_after_half_a_minute() {
    let world = World::new().await;
    world.begin("a").await;
    world.wait(61_000);
    // The server was up all the time: no lease is extended.
    services::RESCUE.on(world.store.clone(), "r1").run_once().await.unwrap();
    let shown = world.show("a").await;
    assert_eq!(shown["reason"], "silent");
    assert_eq!(waits_ms(&shown["verdict"], NOON + 61_000), 30_000);
}

#[tokio::test]
async fn truncated_output_gets_twice_the_budget() {
    let world = World::new().await;
    let cut = "Model token limit (1000) exceeded while generating a tool call, resulting in incomplete arguments. Increase max tokens";
    let body = json!({"payload": chat("gpt-5", 1), "error": {"message": cut}, "finish_reason": "length"});
    let verdict = verdict(&world, "a", body).await;
    assert_eq!(verdict["reason"], "output_truncated", "{verdict}");
    assert_eq!(verdict["changes"], json!([{"change": "scale_output_budget", "factor": 2.0}]));
    assert_eq!(waits_ms(&verdict, NOON), 10_000);
    world.wait(10_000);
    assert_eq!(world.lease(1).await[0]["payload"]["max_tokens"], 2_000);
}

#[tokio::test]
async fn a_budget_of_the_run_asks_for_less_output() {
    let world = World::new().await;
    let over = "litellm.BudgetExceededError: Budget has been exceeded! Current cost: 0.52, Max budget: 0.5";
    let body = json!({"payload": chat("gpt-5", 1), "error": {"message": over}});
    let verdict = verdict(&world, "a", body).await;
    assert_eq!(verdict["reason"], "token_budget_exceeded", "{verdict}");
    assert_eq!(kinds(&verdict["changes"]), ["scale_output_budget", "add_instruction"]);
    world.wait(10_000);
    let payload = world.lease(1).await[0]["payload"].clone();
    assert_eq!(payload["max_tokens"], 600);
    assert!(payload.to_string().contains("Be concise."));
}

#[tokio::test]
async fn output_that_breaks_its_schema_retries_with_the_error() {
    let world = World::new().await;
    for (run, reason, message) in [
        ("a", "malformed_output", "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 3 column 5 (char 41)"),
        (
            "b",
            "schema_mismatch",
            "1 validation error for Invoice\ntotal\n  Field required [type=missing, input_value={'currency': 'EUR'}, input_type=dict]",
        ),
    ] {
        let body = json!({"payload": chat("gpt-5", 1), "error": {"message": message}});
        let verdict = verdict(&world, run, body).await;
        assert_eq!((&verdict["reason"], waits_ms(&verdict, NOON)), (&json!(reason), 10_000), "{verdict}");
        assert_eq!(kinds(&verdict["changes"]), ["add_last_error", "add_constraint"]);
    }
    world.wait(10_000);
    for leased in world.lease(2).await {
        let said = leased["payload"].to_string();
        assert!(said.contains("JSONDecodeError") || said.contains("validation error for Invoice"), "{said}");
        assert!(said.contains("The answer must pass the validation that failed."));
    }
}

#[tokio::test]
async fn tool_errors_and_step_caps_retry_with_the_error() {
    let world = World::new().await;
    for (run, reason, message) in [
        ("a", "tool_error", "Error executing tool 'charge' with kwargs {'n': 1} with error:\n card reader jammed"),
        ("b", "max_iterations", "MaxTurnsExceeded: Max turns (10) exceeded"),
    ] {
        let body = json!({"payload": chat("gpt-5", 1), "error": {"message": message}});
        let verdict = verdict(&world, run, body).await;
        assert_eq!((&verdict["reason"], waits_ms(&verdict, NOON)), (&json!(reason), 30_000), "{verdict}");
        assert_eq!(kinds(&verdict["changes"]), ["add_last_error"]);
    }
    world.wait(30_000);
    let said: Vec<String> = world.lease(2).await.iter().map(|leased| leased["payload"].to_string()).collect();
    assert!(said.iter().any(|s| s.contains("card reader jammed")) && said.iter().any(|s| s.contains("Max turns (10)")));
}

#[tokio::test]
async fn a_quota_waits_for_its_reset_or_a_person() {
    let world = World::new().await;
    let used_up = "Error code: 429 - {'error': {'message': 'You exceeded your current quota, please check your plan and billing details.', 'type': 'insufficient_quota', 'code': 'insufficient_quota'}}";
    let dead = verdict(&world, "a", error(used_up)).await;
    assert_eq!((&dead["action"], &dead["recommended_action"]), (&json!("dead_letter"), &json!("escalate_to_tenant")));
    assert_eq!(dead["why"], "The provider account's quota is used up, and nothing says when it resets.");
    let two_days = 2 * 86_400;
    let named = json!({"error": {"message": used_up, "headers": {"retry-after": two_days.to_string()}}});
    let held = verdict(&world, "b", named).await;
    assert_eq!((&held["action"], &held["reason"]), (&json!("retry"), &json!("quota_exhausted")));
    let off = (waits_ms(&held, NOON) - two_days * 1_000).abs();
    assert!(off <= two_days * 100, "{off}");
    assert_eq!(held["changes"], json!([]));
    world.wait(86_400_000);
    assert_eq!(world.lease(1).await, Vec::<Value>::new());
    world.wait(2 * 86_400_000);
    assert_eq!(world.lease(1).await[0]["run_id"], "b");
}

#[tokio::test]
async fn failures_that_need_a_person_are_not_retried() {
    let world = World::new().await;
    for (run, reason, because, message) in [
        (
            "a",
            "content_filtered",
            "permanent",
            "Error code: 400 - {'error': {'code': 'content_filter', 'message': \"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.\"}}",
        ),
        (
            "b",
            "auth_failed",
            "permanent",
            "Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-x.', 'code': 'invalid_api_key'}}",
        ),
    ] {
        let verdict = verdict(&world, run, error(message)).await;
        assert_eq!((&verdict["reason"], &verdict["action"]), (&json!(reason), &json!("dead_letter")));
        assert_eq!(verdict["dead_because"], because);
    }
    let odd = verdict(&world, "c", error("the frobnicator is sad")).await;
    assert_eq!((&odd["reason"], waits_ms(&odd, NOON)), (&json!("unknown"), 120_000));
}

#[tokio::test]
async fn repeating_a_change_is_a_dead_letter() {
    let world = World::new().await;
    let twice = json!({"policy": {"strategy": {"output_truncated": {"tries": 3, "delay_ms": 5000}}}});
    world.set_queue("q", twice).await;
    let cut =
        |attempt| json!({"queue": "q", "attempt": attempt, "error": {"message": "cut", "reason": "output_truncated"}});
    let first = verdict(&world, "a", cut(1)).await;
    assert_eq!((&first["action"], waits_ms(&first, NOON)), (&json!("retry"), 5_000));
    let second = verdict(&world, "a", cut(2)).await;
    assert_eq!((&second["action"], &second["dead_because"]), (&json!("dead_letter"), &json!("exhausted")));
    assert_eq!(
        second["why"],
        "The output was cut off, and what could be changed was tried already (2 times the output budget)."
    );
    // A replay starts over.
    world.post("/v1/runs/a/replay", &world.tenant, json!({"reason": "fixed"})).await;
    assert_eq!(verdict(&world, "a", cut(3)).await["action"], "retry");
}

#[tokio::test]
async fn invalid_strategy_settings_are_refused_by_name() {
    let world = World::new().await;
    for (policy, field) in [
        (json!({"strategy": {"tool_error": {"tries": 5000}}}), "policy.strategy.tool_error.tries"),
        (
            json!({"strategy": {"tool_error": {"changes": [{"change": "scale_output_budget", "factor": -1.0}]}}}),
            "strategy.changes",
        ),
        (json!({"detect": {"repeats_in_row": 1}}), "detect.repeats_in_row"),
        (json!({"budget": {"retry_tokens_per_run": 0}}), "budget.retry_tokens_per_run"),
    ] {
        let answered =
            world.call(http::Method::PUT, "/v1/queues/q", &world.admin, json!({"policy": policy}).to_string()).await;
        assert_eq!(answered.status, 422, "{}", answered.text);
        assert!(answered.text.contains(field), "{}", answered.text);
    }
    for policy in [
        json!({"strategy": {"tired": {}}}),
        json!({"detect": {"output_schema": {"$ref": "https://x"}}}),
        json!({"budget": {"retry_cost_usd_per_run": -1}}),
        json!({"detect": {"emtpy": true}}),
    ] {
        let answered =
            world.call(http::Method::PUT, "/v1/queues/q", &world.admin, json!({"policy": policy}).to_string()).await;
        assert_eq!(answered.status, 422, "{policy}: {}", answered.text);
    }
}
