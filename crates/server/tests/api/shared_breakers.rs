//! Shared breakers: a tenant learns from the failures of others only whether its own runs are held, and until when.
//! Noninterference is tested with these breakers off.

use http::Method;
use redrive_core::policy::{BreakerLayer, Policies, PolicyLayer};
use serde_json::{Value, json};

use crate::pages::{log_in, visit};
use crate::world::World;

const SHARED: &str = "breaker:everywhere/production/openai/gpt-5";
/// Known only to the other tenants.
const SECRETS: [&str; 7] =
    ["globex", "initech", "secret-run", "secret-queue", "secret-env", "secret text", "secret-agent"];

async fn world() -> World {
    let breaker = Some(BreakerLayer { min_attempts: Some(6), ..BreakerLayer::default() });
    let defaults = PolicyLayer { breaker, ..PolicyLayer::default() };
    World::under(Policies { defaults, ..Policies::default() }).await
}

/// Two tenants whose attempts with one model all fail; in another environment too.
async fn others_fail(world: &World) {
    for environment in ["production", "secret-env"] {
        for n in 0..12 {
            let tenant = if n % 2 == 0 { "globex" } else { "initech" };
            let run = format!("secret-run-{environment}-{n}");
            let start = json!({"run_id": run, "tenant": tenant, "mode": "start", "provider": "openai", "model": "gpt-5",
                "environment": environment, "queue": "secret-queue", "agent": "secret-agent"});
            let started = world.post("/v1/runs", &world.any_worker, start).await;
            if started.status == 409 {
                continue;
            }
            let error = json!({"message": "secret text: Request timed out"});
            let fail = json!({"lease": started.get("lease"), "error": error});
            let failed = world.post(&format!("/v1/runs/{run}/fail?tenant={tenant}"), &world.any_worker, fail).await;
            assert_eq!(failed.status, 200, "{}", failed.text);
        }
    }
    let all = world.get("/v1/breakers", &world.operator).await.get("breakers");
    let open = |name: &str| all.as_array().unwrap().iter().any(|b| b["name"] == name && b["state"] == "open");
    assert!(open(SHARED) && open("breaker:everywhere/secret-env/openai/gpt-5"), "{all}");
}

/// All that acme may read, but for the API's plan of what goes to the model.
async fn answers(world: &World, cookie: &str) -> Vec<(String, u16, String)> {
    let mut answers = Vec::new();
    for path in [
        "/v1/runs",
        "/v1/runs?held=true",
        "/v1/runs/to-it",
        "/v1/runs/elsewhere",
        "/v1/runs/dead",
        "/v1/runs/dead/duplicates",
        "/v1/runs/elsewhere/plan",
        "/v1/patterns",
        "/v1/tenants",
        "/v1/tenants/acme/health",
        "/v1/tenants/acme/breaker",
        "/v1/tenants/globex/breaker",
        "/v1/breakers",
        "/v1/health",
        "/v1/stats",
        "/v1/stats?queue=secret-queue",
        "/v1/limits",
        "/metrics",
        "/healthz",
        "/readyz",
    ] {
        let answered = world.get(path, &world.tenant).await;
        answers.push((path.to_owned(), answered.status.as_u16(), answered.text));
    }
    for page in
        ["/", "/runs", "/runs/acme/to-it", "/runs/acme/dead", "/patterns", "/tenants", "/tenants/acme", "/settings"]
    {
        let shown = visit(world, Method::GET, page, cookie).await;
        answers.push((page.to_owned(), shown.status.as_u16(), shown.text));
    }
    answers
}

fn tells_no_secret(answers: &[(String, u16, String)]) {
    for (path, _, text) in answers {
        let told: Vec<&str> = SECRETS.into_iter().filter(|secret| text.contains(secret)).collect();
        // The path itself may be named in a problem.
        assert!(told.iter().all(|secret| path.contains(secret)), "{path} tells of {told:?}: {text}");
    }
}

#[tokio::test]
async fn a_shared_breaker_reveals_only_own_held_runs() {
    let world = world().await;
    for (run, model) in [("to-it", "gpt-5"), ("elsewhere", "o3")] {
        let body = json!({"run_id": run, "mode": "enqueue", "provider": "openai", "model": model, "payload": {"n": 1}});
        assert_eq!(world.work("/v1/runs", body).await.status, 201);
    }
    let dead = json!({"run_id": "dead", "provider": "openai", "model": "gpt-5", "payload": {"n": 1},
        "error": {"message": "boom", "terminal": true}});
    assert_eq!(world.work("/v1/failures", dead).await.status, 201);
    let cookie = log_in(&world, &world.tenant).await;
    let (quiet, plan) = (answers(&world, &cookie).await, world.get("/v1/runs/dead/plan", &world.tenant).await.json());

    others_fail(&world).await;
    // None of its own is held yet. A run's page shows its plan, which says what a replay meets.
    let warning = format!("{SHARED} is open: a replay passes it, and may well fail as the others did.");
    let shown = format!(r#"<ul class="body warnings"><li><bdi>{warning}</bdi></li></ul>"#);
    for ((path, status, text), after) in quiet.into_iter().zip(answers(&world, &cookie).await) {
        let told = if path.starts_with("/runs/acme/") { after.2.replace(&shown, "") } else { after.2 };
        assert_eq!((path, status, text), (after.0, after.1, told));
    }
    let warned = world.get("/v1/runs/dead/plan", &world.tenant).await.json();
    let mut expected = plan;
    expected["warnings"] = json!([{"code": "breaker_open", "detail": warning}]);
    assert_eq!(warned, expected);

    let leased = world.lease(10).await;
    assert_eq!(leased.iter().map(|run| run["run_id"].clone()).collect::<Vec<_>>(), ["elsewhere"]);
    let all = world.get("/v1/breakers", &world.operator).await.get("breakers");
    let whole = all.as_array().unwrap().iter().find(|breaker| breaker["name"] == SHARED).unwrap();
    let told = json!({
        "name": SHARED, "scope": "everywhere", "environment": "production", "tenant": null, "provider": "openai",
        "model": "gpt-5", "state": "open", "since": null, "until": whole["until"], "by_hand": false, "opened_by": null,
        "reason": null, "tries": 0, "probing": false, "attempts": null, "failed": null, "held": 1,
    });
    assert_ne!(told["until"], Value::Null);
    for path in ["/v1/breakers", "/v1/tenants/acme/breaker"] {
        let shown = world.get(path, &world.tenant).await.json();
        assert_eq!(shown["breakers"], json!([told]), "{path}");
        assert!(shown.get("history").is_none_or(|history| *history == json!([])), "{shown}");
    }
    let held = world.show("to-it").await;
    assert_eq!((&held["held_by"], &held["next_attempt_at"]), (&json!(SHARED), &Value::Null));
    let after = answers(&world, &cookie).await;
    tells_no_secret(&after);
    let start = world.start("to-it").await;
    assert_eq!((start.short(), start.get("held_by")), ((409, "held".into()), json!(SHARED)));
    for secret in SECRETS {
        assert!(!start.text.contains(secret) && !held.to_string().contains(secret), "{secret}");
    }
}
