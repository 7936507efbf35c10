//! Rerouted retries over the API: to another agent, another model, a simpler queue.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::policy::{Agents, Policies};
use redrive_core::text::Label;
use serde_json::{Value, json};

use crate::strategies::{chat, error, kinds, verdict, waits_ms};
use crate::world::{NOON, World};

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
async fn a_loop_is_rerouted_to_another_agent_and_model() {
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
async fn a_loop_without_another_agent_is_retried_as_it_is() {
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
async fn a_failed_changed_retry_moves_to_the_fallback_queue() {
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
    // It counts in its new queue.
    for (queue, total) in [("smart", 0), ("simple", 1)] {
        let listed = world.get(&format!("/v1/runs?queue={queue}&count=true"), &world.tenant).await.json();
        assert_eq!(listed["total"], total, "{queue}: {listed}");
    }
    let lease = leased[0]["lease"].as_str().unwrap();
    let done = world.work("/v1/runs/a/succeed", json!({"lease": lease, "output": "done"})).await;
    assert_eq!(done.short(), (200, "recovered".into()));
}
