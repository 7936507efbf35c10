//! Bulk operations over HTTP: preview, start, items and refusals.

use serde_json::{Value, json};

use crate::world::World;

async fn five_dead(world: &World) {
    for n in 0..5 {
        world.kill(&format!("r{n}")).await;
    }
}

async fn make(world: &World, body: Value) -> Value {
    let answered = world.post("/v1/operations", &world.operator, body).await;
    assert_eq!(answered.status, 201, "{}", answered.text);
    answered.json()
}

async fn work(world: &World) {
    while world.store.work_operations("test").await.unwrap().more {}
}

#[tokio::test]
async fn starting_an_operation_does_what_its_preview_said() {
    let world = World::new().await;
    five_dead(&world).await;
    let doubt =
        r#"{"run_id":"doubt","error":{"message":"boom","terminal":true},"steps":[{"name":"s","status":"started"}]}"#;
    world.work("/v1/failures", doubt).await;
    let ask = json!({"action":"replay","filter":{"state":"dead","tenant":"acme"},"reason":"fixed","dry_run":true});
    let preview = make(&world, ask).await;
    let keys = [
        "id",
        "state",
        "matched",
        "eligible",
        "ineligible",
        "moved",
        "succeeded",
        "failed",
        "skipped",
        "stopped_because",
    ];
    let shown: Vec<&Value> = keys.iter().map(|key| &preview[key]).collect();
    assert_eq!(json!(shown), json!(["op-1", "preview", 6, 5, {"effect_unknown": 1}, 0, 0, 0, 0, null]));
    assert_eq!(preview["filter"], json!({"state":"dead","tenant":"acme"}));
    work(&world).await;
    assert_eq!(world.state("r0").await, "dead");
    let started = world.post("/v1/operations/op-1/start", &world.operator, "").await;
    assert_eq!(started.short(), (200, "running".into()));
    work(&world).await;
    assert_eq!(world.state("r0").await, "scheduled");
    let items = world.get("/v1/operations/op-1/items?outcome=ineligible", &world.operator).await;
    let doubt = json!({"run_id":"doubt","tenant":"acme","outcome":"ineligible","why":"effect_unknown"});
    assert_eq!(items.json(), json!({"items":[doubt],"next_cursor":null}));
}

#[tokio::test]
async fn an_operation_without_dry_run_starts_and_can_be_cancelled() {
    let world = World::new().await;
    five_dead(&world).await;
    let made = make(&world, json!({"action":"discard","filter":{"state":["dead"]},"rate_per_s":1})).await;
    assert_eq!((&made["state"], &made["matched"]), (&json!("running"), &json!(5)));
    world.wait(2_000);
    work(&world).await;
    let cancelled = world.post("/v1/operations/op-1/cancel", &world.operator, "").await.json();
    assert_eq!((&cancelled["state"], &cancelled["moved"]), (&json!("cancelled"), &json!(1)));
    world.wait(60_000);
    work(&world).await;
    assert_eq!([world.state("r0").await, world.state("r4").await], ["discarded", "dead"]);
    let again = world.post("/v1/operations/op-1/resume", &world.operator, "").await;
    assert_eq!((again.short(), again.get("state")), ((409, "operation_state".into()), json!("cancelled")));
}

#[tokio::test]
async fn invalid_operations_are_refused() {
    let world = World::new().await;
    for (body, code) in [
        (json!({"action":"discard"}), "filter_required"),
        (json!({"action":"discard","filter":{"stat":"dead"}}), "unknown_field"),
        (json!({"action":"discard","filter":{"state":"gone"}}), "invalid_field"),
        (json!({"action":"discard","ids":["a"]}), "tenant_required"),
        (json!({"action":"discard","all":true,"force":true}), "unknown_field"),
        (json!({"action":"replay","all":true,"fix":{}}), "invalid_field"),
    ] {
        let answered = world.post("/v1/operations", &world.operator, &body).await;
        assert_eq!(answered.short(), (422, code.into()), "{body}: {}", answered.text);
    }
    let nowhere = json!({"action":"reassign","all":true,"queue":"nowhere"});
    assert_eq!(world.post("/v1/operations", &world.operator, nowhere).await.short(), (404, "not_found".into()));
    assert_eq!(world.get("/v1/operations/op-9", &world.operator).await.short(), (404, "not_found".into()));
    let bad = world.get("/v1/operations?cursor=x", &world.operator).await;
    assert_eq!(bad.short(), (400, "bad_cursor".into()));
}

#[tokio::test]
async fn operations_are_listed_newest_first_in_pages() {
    let world = World::new().await;
    five_dead(&world).await;
    for _ in 0..3 {
        make(&world, json!({"action":"resolve","all":true,"dry_run":true})).await;
    }
    let page = world.get("/v1/operations?limit=2", &world.operator).await.json();
    let ids = |page: &Value| page["operations"].as_array().unwrap().iter().map(|o| o["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&page), ["op-3", "op-2"]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = world.get(&format!("/v1/operations?limit=2&cursor={cursor}"), &world.operator).await.json();
    assert_eq!((ids(&rest), &rest["next_cursor"]), (vec![json!("op-1")], &Value::Null));
}
