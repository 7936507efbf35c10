//! Triage of a run over HTTP.

use crate::world::World;

#[tokio::test]
async fn a_replay_of_a_dead_run_is_in_its_history() {
    let world = World::new().await;
    world.kill("a").await;
    let answered = world.post("/v1/runs/a/replay", &world.tenant, r#"{"reason":"fixed the tool"}"#).await;
    assert_eq!(answered.status, 200);
    insta::assert_json_snapshot!(answered.json(), @r#"
    {
      "attempt": 1,
      "revision": 1,
      "run_id": "a",
      "state": "scheduled",
      "tenant": "acme"
    }
    "#);
    let shown = world.show("a").await;
    let replayed = shown["history"].as_array().unwrap().iter().find(|h| h["event"] == "replay").unwrap().clone();
    assert_eq!(
        (&replayed["from"], &replayed["to"], &replayed["note"]),
        (&"dead".into(), &"scheduled".into(), &"fixed the tool".into())
    );
    assert!(replayed["actor"].as_str().unwrap().starts_with("tenant:key-"));
    assert_eq!(world.lease(1).await[0]["replay"], true);
}

#[tokio::test]
async fn cancelling_a_running_run_tells_its_worker() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    assert_eq!(world.post("/v1/runs/a/replay", &world.tenant, "").await.short(), (409, "in_flight".into()));
    assert_eq!(world.post("/v1/runs/a/cancel", &world.tenant, "{}").await.short(), (200, "dead".into()));
    let told = world.work("/v1/runs/a/heartbeat", format!(r#"{{"lease":"{lease}"}}"#)).await;
    assert_eq!(told.short(), (409, "cancelled".into()));
    assert_eq!(world.show("a").await["dead_because"], "manual");
}

#[tokio::test]
async fn force_needs_an_operator_and_a_reason() {
    let world = World::new().await;
    world.kill("a").await;
    assert_eq!(world.post("/v1/runs/a/discard", &world.tenant, "").await.short(), (200, "discarded".into()));
    let replay = async |key: &str, body: &str| world.post("/v1/runs/a/replay?tenant=acme", key, body).await.short();
    assert_eq!(replay(&world.tenant, "").await, (409, "closed".into()));
    assert_eq!(replay(&world.tenant, r#"{"force":true,"reason":"x"}"#).await, (403, "forbidden".into()));
    assert_eq!(replay(&world.operator, r#"{"force":true}"#).await, (422, "reason_required".into()));
    assert_eq!(replay(&world.operator, r#"{"force":true,"reason":"  "}"#).await, (422, "reason_required".into()));
    assert_eq!(replay(&world.operator, r#"{"force":true,"reason":"x"}"#).await, (200, "scheduled".into()));
}

#[tokio::test]
async fn an_unknown_effect_blocks_a_replay_until_it_is_forced() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let step = format!(r#"{{"lease":"{lease}","name":"charge","key":"a:charge","effect":true,"status":"started"}}"#);
    assert_eq!(world.work("/v1/runs/a/steps", step).await.status, 200);
    let fail = format!(r#"{{"lease":"{lease}","error":{{"message":"Request timed out"}}}}"#);
    let failed = world.work("/v1/runs/a/fail", fail).await;
    assert_eq!((failed.short(), &failed.get("verdict")["dead_because"]), ((200, "dead".into()), &"unsafe".into()));
    assert_eq!(world.post("/v1/runs/a/replay", &world.tenant, "").await.short(), (409, "effect_unknown".into()));
}

#[tokio::test]
async fn a_note_needs_text_and_changes_no_state() {
    let world = World::new().await;
    world.kill("a").await;
    assert_eq!(world.post("/v1/runs/a/note", &world.tenant, "").await.short(), (422, "reason_required".into()));
    let noted = world.post("/v1/runs/a/note", &world.tenant, r#"{"reason":"<script>\u0000 \ud800"}"#).await;
    assert_eq!(noted.short(), (200, "dead".into()));
    let shown = world.get("/v1/runs/a", &world.tenant).await.text;
    assert!(shown.contains(r#""note":"<script>\u0000 \ud800""#), "{shown}");
}

#[tokio::test]
async fn a_spanning_key_names_the_tenant_of_the_run() {
    let world = World::new().await;
    world.kill("a").await;
    let resolve = async |path: &str, body: &str| world.post(path, &world.operator, body).await.short();
    assert_eq!(resolve("/v1/runs/a/resolve", "").await, (422, "tenant_required".into()));
    assert_eq!(resolve("/v1/runs/a/resolve?tenant=globex", "").await, (404, "not_found".into()));
    let both = resolve("/v1/runs/a/resolve?tenant=globex", r#"{"tenant":"acme"}"#).await;
    assert_eq!(both, (422, "wrong_tenant".into()));
    assert_eq!(resolve("/v1/runs/a/resolve", r#"{"tenant":"acme"}"#).await, (200, "resolved".into()));
}
