//! Breakers over HTTP: views, manual control, and their effect on leases and starts.

use redrive_core::policy::{BreakerLayer, Limits, Policies, PolicyLayer};
use serde_json::{Value, json};

use crate::world::World;

const OWN: &str = "breaker:tenant/production/acme";

/// Five failed attempts are enough here.
async fn world() -> World {
    let breaker = Some(BreakerLayer { min_attempts: Some(5), ..BreakerLayer::default() });
    let limits = Some(Limits { max_running: Some(50), leases_per_s: None });
    let defaults = PolicyLayer { breaker, limits, ..PolicyLayer::default() };
    World::under(Policies { defaults, ..Policies::default() }).await
}

async fn broken(world: &World) -> Value {
    let mut last = Value::Null;
    for n in 0..5 {
        let lease = world.begin(&format!("b{n}")).await;
        let body = json!({"lease": lease, "error": {"message": "Request timed out"}});
        last = world.work(&format!("/v1/runs/b{n}/fail"), body).await.json();
    }
    last
}

#[tokio::test]
async fn the_failure_that_opens_a_breaker_is_held_by_it() {
    let world = world().await;
    let answer = broken(&world).await;
    assert_eq!((&answer["state"], &answer["breaker"]), (&json!("scheduled"), &json!("open")));
    let verdict = &answer["verdict"];
    assert_eq!((&verdict["action"], &verdict["held_by"]), (&json!("hold"), &json!(OWN)));
    assert_eq!(verdict["next_attempt_at"], Value::Null);
    let listed = world.get("/v1/runs?held=true", &world.tenant).await.json();
    assert_eq!((&listed["total"], &listed["runs"][0]["held_by"]), (&json!(1), &json!(OWN)));
    let start = world.start("b4").await;
    assert_eq!(start.short(), (409, "held".into()));
    assert_eq!(start.get("held_by"), OWN);
    let shown = world.get("/v1/tenants/acme/breaker", &world.tenant).await.json();
    assert_eq!((&shown["state"], &shown["breakers"][0]["held"]), (&json!("open"), &json!(1)));
    assert_eq!(shown["history"][0]["event"], "opened");
}

#[tokio::test]
async fn a_tenant_sees_its_own_breakers_and_moves_none() {
    let world = world().await;
    broken(&world).await;
    world.fail("theirs").await;
    world.post("/v1/failures", &world.other_worker, r#"{"run_id":"r","error":{"message":"m"}}"#).await;
    let names =
        |answer: Value| answer["breakers"].as_array().unwrap().iter().map(|b| b["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(world.get("/v1/breakers", &world.operator).await.json()), [OWN]);
    assert_eq!(names(world.get("/v1/breakers", &world.tenant).await.json()), [OWN]);
    assert!(names(world.get("/v1/breakers", &world.other_tenant).await.json()).is_empty());
    assert_eq!(world.get("/v1/tenants/acme/breaker", &world.other_tenant).await.status, 404);
    let close = json!({"action": "close", "reason": "mine"});
    assert_eq!(world.post("/v1/tenants/acme/breaker", &world.tenant, close).await.status, 403);
}

#[tokio::test]
async fn an_operator_opens_and_closes_a_tenants_breaker() {
    let world = world().await;
    world.kill("dead").await;
    let path = "/v1/tenants/acme/breaker";
    for (bad, code) in [
        (json!({"action": "open", "reason": " "}), "reason_required"),
        (json!({"action": "open", "reason": "r", "until": "2001-01-01T00:00:00Z"}), "invalid_field"),
        (json!({"action": "close", "reason": "r", "until": "2099-01-01T00:00:00Z"}), "invalid_field"),
        (json!({"action": "open", "reason": "r", "untill": "2099-01-01T00:00:00Z"}), "unknown_field"),
    ] {
        assert_eq!(world.post(path, &world.operator, &bad).await.short().1, code, "{bad}");
    }
    assert_eq!(
        world.post("/v1/tenants/nobody/breaker", &world.operator, json!({"action":"open","reason":"r"})).await.status,
        404
    );
    let until = "2027-01-15T09:00:00.000Z";
    let opened =
        world.post(path, &world.operator, json!({"action": "open", "reason": "release", "until": until})).await;
    assert_eq!(
        (opened.get("state"), opened.get("until"), opened.get("reason")),
        (json!("open"), json!(until), json!("release"))
    );
    let plan = world.get("/v1/runs/dead/plan", &world.tenant).await.json();
    assert_eq!((&plan["held_by"], &plan["warnings"][0]["code"]), (&json!(OWN), &json!("breaker_open")));
    assert_eq!(world.post("/v1/runs/dead/replay", &world.tenant, "{}").await.status, 200);
    assert!(world.lease(10).await.is_empty());
    let closed = world.post(path, &world.operator, json!({"action": "close", "reason": "done"})).await;
    assert_eq!(closed.short(), (200, "closed".into()));
    world.store.release_held(10).await.unwrap();
    world.wait(100);
    assert_eq!(world.lease(10).await.len(), 1);
    let history = world.get(path, &world.tenant).await.get("history");
    let events: Vec<&str> = history.as_array().unwrap().iter().map(|entry| entry["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["closed", "opened"]);
    assert!(history[0]["actor"].as_str().unwrap().starts_with("operator:"));
}

#[tokio::test]
async fn a_shared_breaker_holds_its_model_for_every_tenant() {
    let world = world().await;
    for (key, run, model) in
        [(&world.worker, "mine", "gpt-5"), (&world.other_worker, "theirs", "gpt-5"), (&world.worker, "another", "o3")]
    {
        let body = json!({"run_id": run, "mode": "enqueue", "provider": "openai", "model": model});
        assert_eq!(world.post("/v1/runs", key, body).await.status, 201);
    }
    let open = json!({"action": "open", "reason": "outage", "provider": "openai", "model": "gpt-5"});
    assert_eq!(world.post("/v1/breakers", &world.tenant, &open).await.status, 403);
    let nothing_named = json!({"action": "open", "reason": "outage"});
    assert_eq!(world.post("/v1/breakers", &world.operator, nothing_named).await.short().1, "invalid_field");
    let opened = world.post("/v1/breakers", &world.operator, open).await;
    assert_eq!(opened.short(), (200, "open".into()));
    assert_eq!((opened.get("scope"), opened.get("tenant")), (json!("everywhere"), Value::Null));
    let leased = async || {
        let all = world.post("/v1/leases", &world.any_worker, r#"{"queues":["*"]}"#).await.get("leases");
        all.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(leased().await, ["another"]);
    let theirs = world.get("/v1/runs/theirs", &world.other_tenant).await;
    assert_eq!(theirs.get("held_by"), "breaker:everywhere/production/openai/gpt-5");
    let close = json!({"action": "close", "reason": "back", "provider": "openai", "model": "gpt-5"});
    assert_eq!(world.post("/v1/breakers", &world.operator, close).await.short(), (200, "closed".into()));
    world.store.release_held(10).await.unwrap();
    world.wait(100);
    assert_eq!(leased().await.len(), 2);
}

#[tokio::test]
async fn a_resent_report_gets_the_same_answer_despite_breakers() {
    let world = world().await;
    broken(&world).await;
    let report = json!({"run_id": "told", "attempt": 1, "error": {"message": "Request timed out"}});
    let first = world.work("/v1/failures", &report).await;
    assert_eq!((first.status.as_u16(), first.get("breaker")), (201, json!("open")));
    let reset = json!({"action": "reset", "reason": "back"});
    assert_eq!(world.post("/v1/tenants/acme/breaker", &world.operator, reset).await.status, 200);
    let again = world.work("/v1/failures", &report).await;
    assert_eq!((again.status.as_u16(), again.text), (200, first.text));
}

#[tokio::test]
async fn a_tenants_health_includes_its_limits() {
    let world = world().await;
    world.begin("one").await;
    let health = world.get("/v1/tenants/acme/health", &world.tenant).await.json();
    assert_eq!(health["limits"], json!({"running": 1, "max_running": 50, "leases_per_s": null}));
}

#[tokio::test]
async fn a_shared_breaker_shows_a_tenant_its_held_runs() {
    let world = world().await;
    for (key, run, model) in [
        (&world.worker, "mine", "gpt-5"),
        (&world.other_worker, "theirs", "gpt-5"),
        (&world.other_worker, "theirs-2", "gpt-5"),
        (&world.other_worker, "theirs-3", "o3"),
    ] {
        let body = json!({"run_id": run, "mode": "enqueue", "provider": "openai", "model": model});
        assert_eq!(world.post("/v1/runs", key, body).await.status, 201);
    }
    for model in ["gpt-5", "o3"] {
        let until = "2027-01-15T09:00:00Z";
        let open = json!({"action": "open", "reason": "globex floods it", "until": until, "provider": "openai", "model": model});
        assert_eq!(world.post("/v1/breakers", &world.operator, open).await.status, 200);
    }
    let unheld = world.get("/v1/breakers", &world.tenant).await;
    assert_eq!(unheld.get("breakers"), json!([]), "it holds nothing of this tenant's yet");
    assert_eq!(world.post("/v1/leases", &world.any_worker, r#"{"queues":["*"]}"#).await.get("leases"), json!([]));
    let told = json!({
        "name": "breaker:everywhere/production/openai/gpt-5", "scope": "everywhere", "environment": "production",
        "tenant": null, "provider": "openai", "model": "gpt-5", "state": "open", "since": null,
        "until": "2027-01-15T09:00:00.000Z", "by_hand": true, "opened_by": null, "reason": null, "tries": 0,
        "probing": false, "attempts": null, "failed": null, "held": 1,
    });
    for path in ["/v1/breakers", "/v1/tenants/acme/breaker"] {
        assert_eq!(world.get(path, &world.tenant).await.get("breakers"), json!([told]), "{path}");
    }
    let all = world.get("/v1/breakers", &world.operator).await.get("breakers");
    assert_eq!(all.as_array().unwrap().len(), 2);
    assert_eq!((&all[0]["held"], &all[0]["reason"]), (&json!(3), &json!("globex floods it")));
}
