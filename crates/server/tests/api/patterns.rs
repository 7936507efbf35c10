//! Triage of patterns over HTTP.

use serde_json::{Value, json};

use crate::world::World;

async fn broken(world: &World, run: &str, message: &str, worker: &str) -> String {
    let report = json!({"run_id": run, "error": {"message": message}, "versions": {"worker": worker}});
    let answered = world.work("/v1/failures", report).await;
    answered.get("pattern")["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_resolved_pattern_that_recurs_is_a_regression() {
    let world = World::new().await;
    let id = broken(&world, "r-1", "KeyError: 'invoice'", "v1").await;
    let resolve = format!("/v1/patterns/{id}/resolve");
    let fixed = world.post(&resolve, &world.tenant, r#"{"in_version":{"worker":"v2"},"reason":"fixed in v2"}"#).await;
    assert_eq!(fixed.short(), (200, "resolved".into()));
    assert_eq!(fixed.get("resolved_in"), json!({"worker": "v2"}));
    broken(&world, "r-2", "KeyError: 'invoice'", "v1").await;
    let state = async || {
        let shown = world.get(&format!("/v1/patterns/{id}"), &world.tenant).await.json();
        (shown["state"].clone(), shown["regression"].clone())
    };
    assert_eq!(state().await, (json!("resolved"), json!(false)));
    broken(&world, "r-3", "KeyError: 'invoice'", "v2").await;
    assert_eq!(state().await, (json!("new"), json!(true)));
    let shown = world.get(&format!("/v1/patterns/{id}"), &world.tenant).await.json();
    let events: Vec<&Value> = shown["events"].as_array().unwrap().iter().map(|e| &e["event"]).collect();
    assert_eq!(events, ["new", "resolve", "regression"]);
    assert_eq!(shown["events"][1]["note"], "fixed in v2");
    let listed = world.get("/v1/patterns?state=new&sort=count", &world.tenant).await.json();
    assert_eq!(listed["patterns"][0]["id"], json!(id));
    assert_eq!(world.get("/v1/patterns?state=resolved", &world.tenant).await.get("patterns"), json!([]));
}

#[tokio::test]
async fn two_patterns_are_merged_and_unmerged() {
    let world = World::new().await;
    let a = broken(&world, "r-1", "KeyError: 'invoice'", "v1").await;
    let b = broken(&world, "r-2", "KeyError: 'customer'", "v1").await;
    let act = async |id: &str, verb: &str, body: Value| {
        world.post(&format!("/v1/patterns/{id}/{verb}"), &world.tenant, body).await
    };
    let merged = act(&a, "merge", json!({"into": b})).await;
    assert_eq!((merged.get("id"), merged.get("count")), (json!(b), json!(2)));
    let runs = world.get(&format!("/v1/runs?pattern={b}"), &world.tenant).await.get("runs");
    assert_eq!(runs.as_array().map(Vec::len), Some(2));
    let told = act(&a, "acknowledge", json!({})).await;
    assert_eq!((told.short(), told.get("into")), ((409, "merged".into()), json!(b)));
    assert_eq!(act(&b, "merge", json!({"into": b})).await.short(), (409, "merge_refused".into()));
    assert_eq!(act(&b, "unmerge", json!({})).await.get("count"), json!(1));
    assert_eq!(act(&b, "unmerge", json!({})).await.short(), (409, "merge_refused".into()));
}

#[tokio::test]
async fn bodies_of_pattern_calls_are_strict() {
    let world = World::new().await;
    let id = broken(&world, "r-1", "KeyError: 'invoice'", "v1").await;
    for (verb, body, code) in [
        ("resolve", r#"{"in_versions":{}}"#, "unknown_field"),
        ("resolve", r#"{"in_version":{"worker":""}}"#, "invalid_field"),
        ("mute", r#"{"until":"2020-01-01T00:00:00Z"}"#, "invalid_field"),
        ("mute", r#"{"until":"soon"}"#, "invalid_field"),
        ("assign", "{}", "invalid_field"),
        ("assign", r#"{"to":" "}"#, "invalid_field"),
        ("note", "{}", "reason_required"),
        ("merge", "{}", "invalid_field"),
        ("acknowledge", r#"{"until":null}"#, "unknown_field"),
    ] {
        let answered = world.post(&format!("/v1/patterns/{id}/{verb}"), &world.tenant, body).await;
        assert_eq!(answered.short(), (422, code.into()), "{verb} {body}");
    }
    let muted = world.post(&format!("/v1/patterns/{id}/mute"), &world.tenant, "").await;
    assert_eq!(muted.short(), (200, "muted".into()));
    let owned = world.post(&format!("/v1/patterns/{id}/assign"), &world.tenant, r#"{"to":"ops"}"#).await;
    assert_eq!(owned.get("owner"), "ops");
    let free = world.post(&format!("/v1/patterns/{id}/assign"), &world.tenant, r#"{"to":null}"#).await;
    assert_eq!(free.get("owner"), Value::Null);
}

#[tokio::test]
async fn operators_act_on_one_pattern_or_every_tenants() {
    let world = World::new().await;
    let id = broken(&world, "r-1", "KeyError: 'invoice'", "v1").await;
    world
        .post("/v1/failures", &world.other_worker, json!({"run_id": "x", "error": {"message": "KeyError: 'invoice'"}}))
        .await;
    let state = async |key: &str| world.get("/v1/patterns", key).await.get("patterns")[0]["state"].clone();
    let path = format!("/v1/patterns/{id}/acknowledge?tenant=acme");
    assert_eq!(world.post(&path, &world.operator, "").await.status, 200);
    assert_eq!((state(&world.tenant).await, state(&world.other_tenant).await), (json!("acknowledged"), json!("new")));
    let wrong = format!("/v1/patterns/{id}/acknowledge?tenant=globex");
    assert_eq!(world.post(&wrong, &world.operator, "").await.short(), (404, "not_found".into()));
    let fingerprint = world.get("/v1/patterns", &world.operator).await.get("patterns")[0]["id"].clone();
    let path = format!("/v1/patterns/{}/resolve", fingerprint.as_str().unwrap());
    let done = world.post(&path, &world.operator, r#"{"reason":"fixed for all"}"#).await;
    assert_eq!((done.short(), done.get("tenants")), ((200, "resolved".into()), json!(["acme", "globex"])));
    assert_eq!((state(&world.tenant).await, state(&world.other_tenant).await), (json!("resolved"), json!("resolved")));
}
