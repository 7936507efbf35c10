//! User rules over the API.

use serde_json::{Value, json};

use crate::world::World;

async fn ruled() -> World {
    World::ruled(json!([
        {"name": "large", "match": {"queue": "invoices", "payload": [{"pointer": "/amount", "op": "gt", "value": 1000}]},
         "reason": "x:large", "category": "transient", "severity": "critical", "dead_letter": true,
         "instructions": "Look at the ledger first.", "runbook": "https://wiki/large"},
        {"name": "crawler", "match": {"text": {"contains": "crawl"}}, "fingerprint": "the crawler is down"},
    ]))
    .await
}

async fn failed(world: &World, report: Value) -> Value {
    world.work("/v1/failures", report).await.json()
}

#[tokio::test]
async fn a_user_rule_outranks_the_caller_and_adds_its_guidance() {
    let world = ruled().await;
    let queue = r#"{"instructions":"Ask finance.","runbook":"https://wiki/invoices"}"#;
    world.call(http::Method::PUT, "/v1/queues/invoices", &world.admin, queue).await;
    let report = |amount: u32| {
        json!({"run_id": format!("r-{amount}"), "queue": "invoices", "payload": {"amount": amount},
               "error": {"message": "Request timed out", "reason": "bug"}})
    };
    let large = failed(&world, report(2000)).await;
    let verdict = &large["verdict"];
    assert_eq!(
        (&large["state"], &verdict["reason"], &verdict["category"], &verdict["rule"]),
        (&json!("dead"), &json!("x:large"), &json!("transient"), &json!("user.large"))
    );
    let shown = world.show("r-2000").await;
    assert_eq!(
        (&shown["severity"], &shown["instructions"], &shown["runbook"]),
        (&json!("critical"), &json!("Look at the ledger first.\n\nAsk finance."), &json!("https://wiki/large"))
    );
    failed(&world, report(10)).await;
    let shown = world.show("r-10").await;
    assert_eq!(
        (&shown["verdict"]["rule"], &shown["instructions"], &shown["runbook"]),
        (&json!("caller.reason"), &json!("Ask finance."), &json!("https://wiki/invoices"))
    );
}

#[tokio::test]
async fn a_user_rule_sees_the_run_under_a_lease() {
    let world = ruled().await;
    let start = json!({"run_id": "r", "mode": "start", "queue": "invoices", "payload": {"amount": 2000}});
    let lease = world.work("/v1/runs", start).await.get("lease");
    let fail = json!({"lease": lease, "error": {"message": "Request timed out"}});
    let answered = world.work("/v1/runs/r/fail", fail).await.json();
    assert_eq!((&answered["state"], &answered["verdict"]["rule"]), (&json!("dead"), &json!("user.large")));
    assert_eq!(world.show("r").await["severity"], "critical");
}

#[tokio::test]
async fn a_named_fingerprint_is_one_pattern_whatever_the_texts() {
    let world = ruled().await;
    let say = async |run: &str, message: &str| {
        failed(&world, json!({"run_id": run, "error": {"message": message}})).await["pattern"].clone()
    };
    let first = say("a", "crawl of the site refused").await;
    let second = say("b", "nothing left to crawl").await;
    assert_eq!((&first["template"], &first["new"]), (&json!("the crawler is down"), &json!(true)));
    assert_eq!((&second["id"], &second["new"]), (&first["id"], &json!(false)));
    assert_ne!(say("c", "something else").await["id"], first["id"]);
    // The reason does not change.
    let shown = world.show("a").await;
    assert_eq!(shown["verdict"]["rule"], "user.crawler");
}
