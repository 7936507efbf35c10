//! Approvals over HTTP, from the request to the history.

use std::sync::Arc;

use redrive_engine::services;
use serde_json::Value;

use crate::world::World;

async fn approving(world: &World, policy: &str) {
    let body = format!(r#"{{"policy":{policy}}}"#);
    let put = world.call(http::Method::PUT, "/v1/queues/default", &world.admin, body).await;
    assert_eq!(put.status, 200, "{}", put.text);
}

async fn post(world: &World, key: &str, verb: &str, body: &str) -> (u16, String) {
    world.post(&format!("/v1/runs/a/{verb}?tenant=acme"), key, body).await.short()
}

fn events(shown: &Value) -> Vec<&str> {
    let history = shown["history"].as_array().unwrap().iter();
    history.filter(|h| h["actor"] != "reporter").map(|h| h["event"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_replay_waits_for_the_approval_of_another_key() {
    let world = World::new().await;
    approving(&world, r#"{"replay_approval":"always"}"#).await;
    world.kill("a").await;
    let ask = r#"{"fix":{"json_patch":[{"op":"replace","path":"/n","value":2.50}]},"reason":"typo"}"#;
    let asked = world.post("/v1/runs/a/replay", &world.tenant, ask).await;
    assert_eq!((asked.short(), asked.get("revision")), ((200, "review".into()), 1.into()));
    let hash = asked.get("plan_hash");
    assert_eq!(asked.get("expires_at"), "2027-01-16T08:00:00.000Z");
    let shown = world.show("a").await;
    assert_eq!((&shown["review"]["plan_hash"], shown["review"]["proposed"]["reason"].as_str()), (&hash, Some("typo")));
    let yes = format!(r#"{{"plan_hash":{hash},"reason":"looked at it"}}"#);
    assert_eq!(post(&world, &world.tenant, "approve", &yes).await, (409, "own_request".into()));
    assert_eq!(post(&world, &world.operator, "approve", "{}").await, (422, "invalid_field".into()));
    assert_eq!(post(&world, &world.operator, "approve", r#"{"plan_hash":"no"}"#).await, (409, "plan_changed".into()));
    assert_eq!(post(&world, &world.operator, "approve", &yes).await, (200, "scheduled".into()));
    assert_eq!(post(&world, &world.operator, "approve", &yes).await, (409, "wrong_state".into()));
    let leased = world.lease(1).await;
    assert_eq!((&leased[0]["payload"], &leased[0]["revision"]), (&serde_json::json!({"n": 2.5}), &2.into()));
    let shown = world.show("a").await;
    assert_eq!(events(&shown), ["review", "plan_changed", "fix", "approve"]);
    assert!(shown["review"].is_null());
}

#[tokio::test]
async fn an_expired_approval_request_is_in_the_history() {
    let world = World::new().await;
    approving(&world, r#"{"replay_approval":"severity>=normal","approval_expires_ms":60000}"#).await;
    world.kill("a").await;
    assert_eq!(post(&world, &world.tenant, "replay", "").await, (200, "review".into()));
    let service = services::REVIEWS.on(Arc::clone(&world.store), "r1");
    assert_eq!(service.run_once().await.unwrap().moved, 0);
    world.wait(60_000);
    assert_eq!(service.run_once().await.unwrap().moved, 1);
    let shown = world.show("a").await;
    assert_eq!((&shown["state"], &shown["dead_because"]), (&"dead".into(), &"expired".into()));
    assert_eq!(events(&shown), ["review", "review_expired"]);
}

#[tokio::test]
async fn the_plain_recovery_api_asks_for_approval_too() {
    let world = World::new().await;
    approving(&world, r#"{"replay_approval":"always"}"#).await;
    world.kill("a").await;
    let moved = world.post("/api/v1/dlq/acme/messages/a/replay", &world.tenant, "").await;
    assert_eq!((moved.status.as_u16(), moved.get("status")), (200, "escalated".into()));
    let hash = world.show("a").await["review"]["plan_hash"].clone();
    let yes = format!(r#"{{"plan_hash":{hash}}}"#);
    assert_eq!(post(&world, &world.operator, "approve", &yes).await, (200, "scheduled".into()));
}

#[tokio::test]
async fn an_invalid_approval_policy_is_refused() {
    let world = World::new().await;
    for policy in [r#"{"replay_approval":"sometimes"}"#, r#"{"approval_expires_ms":1}"#] {
        let body = format!(r#"{{"policy":{policy}}}"#);
        let put = world.call(http::Method::PUT, "/v1/queues/default", &world.admin, body).await;
        assert_eq!(put.status, 422, "{policy}: {}", put.text);
    }
}

#[tokio::test]
async fn every_triage_action_records_its_reason_and_actor() {
    let world = World::new().await;
    world.kill("a").await;
    world.kill("b").await;
    let tenant = &world.tenant;
    for (verb, body, told) in [
        ("review", r#"{"reason":"look"}"#, (200, "review")),
        ("reject", r#"{"reason":"not now"}"#, (200, "dead")),
        ("defer", r#"{"until":"2020-01-01T00:00:00Z"}"#, (422, "invalid_field")),
        ("defer", r#"{"until":"2099-01-01T00:00:00Z","reason":"later"}"#, (200, "dead")),
        ("reassign", r#"{}"#, (422, "invalid_field")),
        ("reassign", r#"{"queue":"nowhere"}"#, (404, "not_found")),
        ("reassign", r#"{"agent":"other","reason":"better"}"#, (200, "dead")),
        ("assign", r#"{}"#, (422, "invalid_field")),
        ("assign", r#"{"to":" "}"#, (422, "invalid_field")),
        ("assign", r#"{"to":"mia","reason":"hers"}"#, (200, "dead")),
        ("merge", r#"{"into":"a"}"#, (409, "merge_refused")),
        ("merge", r#"{"into":"absent"}"#, (404, "not_found")),
        ("merge", r#"{"into":"b","reason":"same"}"#, (200, "merged")),
        ("replay", "", (409, "merged")),
        ("unmerge", r#"{"reason":"not the same"}"#, (200, "dead")),
    ] {
        assert_eq!(post(&world, tenant, verb, body).await, (told.0, told.1.into()), "{verb} {body}");
    }
    let shown = world.show("a").await;
    assert_eq!((&shown["assigned_to"], &shown["agent"]), (&"mia".into(), &"other".into()));
    let history = shown["history"].as_array().unwrap().iter().filter(|h| h["actor"] != "reporter");
    let told: Vec<String> = history
        .map(|h| format!("{} {}", h["event"].as_str().unwrap(), h["note"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        told,
        [
            "review look",
            "reject not now",
            "defer later",
            "reassign To agent other. better",
            "assign To mia. hers",
            "merge same",
            "unmerge not the same"
        ]
    );
    let mine = world.get("/v1/runs?assigned_to=mia&state=dead", tenant).await.json();
    assert_eq!(mine["runs"].as_array().unwrap().len(), 1);
    let alike = world.get("/v1/runs/a/duplicates", tenant).await.json();
    assert_eq!(
        (&alike["duplicates"][0]["run"]["run_id"], &alike["duplicates"][0]["same"]),
        (&"b".into(), &"payload".into())
    );
}
