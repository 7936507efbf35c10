//! Quotas of a tenant: rates and dead letters, and what is never refused.

use redrive_core::policy::{Limits, Policies, PolicyLayer, TenantPolicy};
use serde_json::json;

use crate::world::World;

async fn world(limits: Limits) -> World {
    let policy = PolicyLayer { limits: Some(limits), ..PolicyLayer::default() };
    let acme = TenantPolicy { tier: None, policy };
    World::under(Policies { tenants: [("acme".parse().unwrap(), acme)].into(), ..Policies::default() }).await
}

#[tokio::test]
async fn requests_over_the_quota_are_refused_and_reports_are_not() {
    let world = world(Limits { requests_per_s: Some(2.0), ..Limits::default() }).await;
    let lease = world.begin("r").await;
    assert_eq!(world.get("/v1/limits", &world.tenant).await.status, 200);
    let refused = world.get("/v1/limits", &world.tenant).await;
    assert_eq!(refused.short(), (429, "quota_exceeded".into()));
    assert_eq!(
        (refused.get("quota"), &refused.headers["retry-after"]),
        (json!("requests_per_s"), &"1".parse().unwrap())
    );
    for n in 0..20 {
        assert_eq!(world.fail(&format!("f{n}")).await.status, 201, "failures have a budget of their own");
    }
    assert_eq!(world.work("/v1/runs/r/heartbeat", json!({"lease": lease})).await.status, 200);
    assert_eq!(world.work("/v1/runs/r/succeed", json!({"lease": lease, "output": 1})).await.status, 200);
    assert_eq!(world.get("/v1/limits", &world.other_tenant).await.status, 200, "another tenant has its own");
    assert_eq!(world.get("/v1/limits", &world.operator).await.status, 200);
    world.wait(500);
    assert_eq!(world.get("/v1/limits", &world.tenant).await.status, 200);
    assert_eq!(world.get("/v1/limits", &world.tenant).await.status, 429);
    let health = world.get("/v1/tenants/acme/health", &world.operator).await.json();
    assert_eq!((&health["limits"]["requests_per_s"], &health["limits"]["requests_used"]), (&json!(2.0), &json!(2.0)));
}

#[tokio::test]
async fn reports_over_the_quota_are_refused_line_by_line() {
    let world = world(Limits { reports_per_s: Some(2.0), ..Limits::default() }).await;
    let line = |n: u32| format!(r#"{{"run_id":"r{n}","tenant":"acme","error":{{"message":"m"}}}}"#);
    let batch = [line(0), line(1), line(2)].join("\n");
    let mut request = crate::world::request(http::Method::POST, "/v1/failures", &world.any_worker, batch);
    request.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    let answered = world.send(request).await;
    let lines: Vec<serde_json::Value> = answered.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.iter().map(|line| line["status"].as_u64().unwrap()).collect::<Vec<_>>(), [201, 201, 429]);
    assert_eq!((&lines[2]["code"], &lines[2]["quota"]), (&json!("quota_exceeded"), &json!("reports_per_s")));
    let refused = world.fail("alone").await;
    assert_eq!((refused.short(), refused.headers.contains_key("retry-after")), ((429, "quota_exceeded".into()), true));
    world.wait(1_000);
    assert_eq!(world.fail("alone").await.status, 201);
}

#[tokio::test]
async fn too_many_dead_letters_stop_new_runs_but_no_failure() {
    let world = world(Limits { open_dead: Some(2), ..Limits::default() }).await;
    let lease = world.begin("under-way").await;
    for n in 0..3 {
        assert_eq!(world.kill(&format!("d{n}")).await.short(), (201, "dead".into()));
    }
    let health = world.get("/v1/tenants/acme/health", &world.tenant).await.json();
    assert_eq!((&health["limits"]["open_dead"], &health["limits"]["used_up"]), (&json!(2), &json!(["open_dead"])));
    let refused = world.start("new").await;
    assert_eq!((refused.short(), refused.get("quota")), ((429, "quota_exceeded".into()), json!("open_dead")));
    assert!(refused.headers.contains_key("retry-after"));
    let enqueue = json!({"run_id": "new", "mode": "enqueue"});
    assert_eq!(world.work("/v1/runs", enqueue).await.status, 429);
    assert_eq!(world.work("/v1/runs/under-way/succeed", json!({"lease": lease, "output": 1})).await.status, 200);
    for n in 0..2 {
        world.post(&format!("/v1/runs/d{n}/resolve"), &world.tenant, json!({})).await;
    }
    assert_eq!(world.start("new").await.status, 201);
}
