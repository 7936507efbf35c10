//! The table of strategies row by row over the API: a real error comes in, the verdict says what is done and why, and the
//! retry is handed out that way.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::policy::{Agents, Policies};
use redrive_core::text::Label;
use redrive_server::engine::{Rescue, Service as _};
use serde_json::{Value, json};

use crate::world::{NOON, World};

const MINUTE: u64 = 60_000;

async fn report(world: &World, run: &str, body: Value) -> Value {
    let mut report = json!({"run_id": run});
    report.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let answered = world.work("/v1/failures", report).await;
    assert_eq!(answered.status, 201, "{}", answered.text);
    answered.json()
}

async fn verdict(world: &World, run: &str, body: Value) -> Value {
    report(world, run, body).await["verdict"].clone()
}

fn error(message: &str) -> Value {
    json!({"error": {"message": message}})
}

/// How long the verdict waits.
fn waits_ms(verdict: &Value, now: i64) -> i64 {
    let due: redrive_core::time::Timestamp = verdict["next_attempt_at"].as_str().unwrap().parse().unwrap();
    due.as_millis() - now
}

fn kinds(changes: &Value) -> Vec<&str> {
    changes.as_array().unwrap().iter().map(|change| change["change"].as_str().unwrap()).collect()
}

fn chat(model: &str, turns: usize) -> Value {
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

const OVERFLOW: &str = "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However, your messages resulted in 20011 tokens. Please reduce the length of the messages.\", 'type': 'invalid_request_error', 'code': 'context_length_exceeded'}}";

#[tokio::test]
async fn what_passes_by_itself_is_retried_unchanged_with_back_off() {
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
async fn a_rate_limit_waits_as_long_as_it_is_told_to() {
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
    // Looked at while nobody was away: no extension is owed.
    Rescue::new(world.store.clone()).run_once().await.unwrap();
    let shown = world.show("a").await;
    assert_eq!(shown["reason"], "silent");
    assert_eq!(waits_ms(&shown["verdict"], NOON + 61_000), 30_000);
}

#[tokio::test]
async fn an_overflow_is_compressed_to_fit_and_the_payload_handed_out_is_shorter() {
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
async fn an_overflow_goes_up_the_ladder_to_a_model_that_is_larger() {
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
async fn an_overflow_with_no_larger_model_and_nothing_to_drop_is_dead_at_once() {
    let world = World::new().await;
    let payload = json!({"model": "gpt-4", "messages": [{"role": "system", "content": "all of it matters ".repeat(6_000)}, {"role": "user", "content": "Go."}]});
    let body = json!({"payload": payload, "model": "gpt-4", "error": {"message": OVERFLOW}});
    let verdict = verdict(&world, "a", body).await;
    assert_eq!((&verdict["action"], &verdict["dead_because"]), (&json!("dead_letter"), &json!("permanent")));
    assert!(verdict["why"].as_str().unwrap().contains("no model at hand takes more than"), "{}", verdict["why"]);

    // Under a lease the payload is read from the store, and the same is said.
    world.work("/v1/runs", json!({"run_id": "b", "mode": "enqueue", "model": "gpt-4", "payload": payload})).await;
    let lease = world.lease(1).await[0]["lease"].clone();
    let failed = world.work("/v1/runs/b/fail", json!({"lease": lease, "error": {"message": OVERFLOW}})).await.json();
    assert_eq!((&failed["state"], &failed["verdict"]["why"]), (&json!("dead"), &verdict["why"]));
}

#[tokio::test]
async fn output_that_was_cut_off_gets_twice_the_budget() {
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
async fn a_budget_of_its_own_is_met_with_less_output() {
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
async fn what_does_not_parse_or_fit_its_schema_is_told_the_error() {
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
async fn a_failed_tool_and_a_step_cap_are_told_the_error() {
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

fn two_agents() -> Policies {
    let can = |word: &str| BTreeSet::from([Label::from(word)]);
    let agents = BTreeMap::from([
        ("biller".into(), can("invoice")),
        ("clerk".into(), can("invoice")),
        ("poet".into(), can("poem")),
    ]);
    Policies { agents: Agents::new(agents), ..Policies::default() }
}

const LOOP: &str = "Agent loop detected: the same tool call was repeated 5 times with identical arguments";

#[tokio::test]
async fn a_loop_goes_to_another_able_agent_on_another_model_and_only_that_agent_leases_it() {
    let world = World::under(two_agents()).await;
    world.set_queue("invoices", json!({"policy": {"models": ["gpt-5-mini", "gpt-5"]}})).await;
    let body = json!({"queue": "invoices", "agent": "biller", "task_type": "invoice", "model": "gpt-5-mini",
                      "payload": chat("gpt-5-mini", 1), "error": {"message": LOOP}});
    let verdict = verdict(&world, "a", body).await;
    assert_eq!((&verdict["reason"], waits_ms(&verdict, NOON)), (&json!("hallucination_loop"), 60_000), "{verdict}");
    assert_eq!(kinds(&verdict["changes"]), ["add_last_error", "add_instruction", "add_constraint"]);
    assert_eq!(verdict["target"], json!({"agent": "clerk", "model": "gpt-5", "queue": null}));
    assert!(verdict["why"].as_str().unwrap().contains("by agent clerk on model gpt-5"), "{}", verdict["why"]);

    world.wait(60_000);
    let ask = |agent: &str| json!({"queues": ["*"], "agents": [agent]});
    assert_eq!(world.work("/v1/leases", ask("biller")).await.get("leases"), json!([]));
    let leased = world.work("/v1/leases", ask("clerk")).await.get("leases")[0].clone();
    assert_eq!(
        (&leased["agent"], &leased["model"], &leased["payload"]["model"]),
        (&json!("clerk"), &json!("gpt-5"), &json!("gpt-5"))
    );
    let listed = world.get("/v1/runs?agent=clerk", &world.tenant).await.json();
    assert_eq!((&listed["runs"][0]["agent"], &listed["runs"][0]["model"]), (&json!("clerk"), &json!("gpt-5")));
}

#[tokio::test]
async fn a_loop_with_nobody_else_to_ask_is_retried_all_the_same_and_says_so() {
    let world = World::new().await;
    let verdict = verdict(&world, "a", error(LOOP)).await;
    assert_eq!(verdict["action"], "retry");
    assert!(
        verdict["why"].as_str().unwrap().ends_with("no other agent is set up, no other model is set for the queue."),
        "{}",
        verdict["why"]
    );
}

#[tokio::test]
async fn where_the_changed_retry_did_not_help_the_fallback_queue_takes_over() {
    let world = World::new().await;
    world.set_queue("smart", json!({"policy": {"fallback_queue": "simple"}})).await;
    let body = |attempt| json!({"queue": "smart", "attempt": attempt, "error": {"message": "Error executing tool 'x' with kwargs {}"}});
    assert_eq!(verdict(&world, "a", body(1)).await["target"]["queue"], Value::Null);
    let second = verdict(&world, "a", body(2)).await;
    assert_eq!((&second["action"], &second["target"]["queue"]), (&json!("retry"), &json!("simple")));
    assert_eq!(second["why"], "A tool failed: retry in 30 s in queue simple, 2 attempts left.");
    world.wait(30_000);
    assert_eq!(world.work("/v1/leases", json!({"queues": ["smart"]})).await.get("leases"), json!([]));
    let leased = world.work("/v1/leases", json!({"queues": ["simple"]})).await.get("leases");
    assert_eq!((&leased[0]["run_id"], &leased[0]["queue"]), (&json!("a"), &json!("simple")));
    // Counted where it is, not where it was.
    for (queue, total) in [("smart", 0), ("simple", 1)] {
        let listed = world.get(&format!("/v1/runs?queue={queue}&count=true"), &world.tenant).await.json();
        assert_eq!(listed["total"], total, "{queue}: {listed}");
    }
    let lease = leased[0]["lease"].as_str().unwrap();
    let done = world.work("/v1/runs/a/succeed", json!({"lease": lease, "output": "done"})).await;
    assert_eq!(done.short(), (200, "recovered".into()));
}

#[tokio::test]
async fn a_quota_waits_for_its_reset_and_without_one_for_a_person() {
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
async fn what_needs_a_person_or_a_correction_is_not_retried() {
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
async fn the_same_change_twice_is_a_dead_letter_that_names_it() {
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
    // A person's replay begins anew.
    world.post("/v1/runs/a/replay", &world.tenant, json!({"reason": "fixed"})).await;
    assert_eq!(verdict(&world, "a", cut(3)).await["action"], "retry");
}

#[tokio::test]
async fn a_runs_spend_cap_that_is_reached_ends_it_with_the_figures() {
    let world = World::new().await;
    world.set_queue("q", json!({"policy": {"budget": {"retry_tokens_per_run": 1000}}})).await;
    let failed = |attempt| json!({"queue": "q", "attempt": attempt, "error": {"message": "Request timed out"}, "usage": {"input_tokens": 600, "output_tokens": 0}});
    // The first attempt is no retry; the second leaves room; the third uses it up.
    for (attempt, action) in [(1, "retry"), (2, "retry"), (3, "dead_letter")] {
        let verdict = verdict(&world, "a", failed(attempt)).await;
        assert_eq!(verdict["action"], action, "{attempt}: {verdict}");
        if attempt == 3 {
            assert_eq!(verdict["dead_because"], "exhausted");
            assert_eq!(
                verdict["why"],
                "It timed out, and this run's retries have used 1200 tokens of the 1000 they may: no further retry."
            );
        }
    }
}

#[tokio::test]
async fn a_tenants_spend_cap_holds_for_all_its_runs_until_midnight_and_for_no_other_tenant() {
    let world = World::new().await;
    world.set_queue("q", json!({"policy": {"budget": {"retry_cost_usd_per_tenant_day": 0.5}}})).await;
    let failed = |attempt| json!({"queue": "q", "attempt": attempt, "error": {"message": "Request timed out"}, "usage": {"cost_usd": 0.25}});
    for attempt in 1..=2 {
        assert_eq!(verdict(&world, "a", failed(attempt)).await["action"], "retry");
    }
    // A retry that succeeds has cost something as well.
    world.wait(10 * MINUTE);
    let lease = world.lease(1).await[0]["lease"].clone();
    let done =
        world.work("/v1/runs/a/succeed", json!({"lease": lease, "output": "ok", "usage": {"cost_usd": 0.25}})).await;
    assert_eq!(done.short(), (200, "recovered".into()));
    let refused = verdict(&world, "b", failed(1)).await;
    assert_eq!((&refused["action"], &refused["dead_because"]), (&json!("dead_letter"), &json!("exhausted")));
    assert_eq!(
        refused["why"],
        "It timed out, and the tenant's retries today have used $0.50 of the $0.50 they may: no further retry."
    );
    let other = json!({"run_id": "b", "queue": "q", "error": {"message": "Request timed out"}});
    assert_eq!(world.post("/v1/failures", &world.other_worker, other).await.json()["verdict"]["action"], "retry");
    world.wait(86_400_000);
    assert_eq!(verdict(&world, "c", failed(1)).await["action"], "retry");
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_by_name() {
    let world = World::new().await;
    for (policy, field) in [
        (json!({"strategy": {"tool_error": {"tries": 5000}}}), "strategy.tries"),
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
