//! `/v1/audit`: who did what, as operators and as tenants see it.

use axum::body::Body;
use http::{Request, header};

use crate::world::World;

const DEAD: &str = r#"{"run_id":"r1","error":{"type":"KeyError","message":"'total'"},"payload":{"secret":"canary-7"}}"#;

#[tokio::test]
async fn an_act_names_key_request_and_change() {
    let world = World::new().await;
    assert_eq!(world.post("/v1/failures", &world.worker, DEAD).await.status, 201);
    let request = Request::builder()
        .method("POST")
        .uri("/v1/runs/r1/replay")
        .header(header::AUTHORIZATION, format!("Bearer {}", world.tenant))
        .header(header::CONTENT_TYPE, "application/json")
        .header("x-request-id", "trace-1")
        .body(Body::from(r#"{"reason":"fixed it","fix":{"payload":{"secret":"canary-8"}}}"#))
        .unwrap();
    assert_eq!(world.send(request).await.status, 200);
    let answer = world.get("/v1/audit?run=r1", &world.operator).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let entry = answer.get("entries")[0].clone();
    assert_eq!((entry["action"].as_str(), entry["subject"].as_str()), (Some("run.replay"), Some("run:r1")));
    assert_eq!((entry["role"].as_str(), entry["tenant"].as_str()), (Some("tenant"), Some("acme")));
    assert_eq!((entry["request_id"].as_str(), entry["reason"].as_str()), (Some("trace-1"), Some("fixed it")));
    assert_eq!(
        (entry["before"]["state"].as_str(), entry["after"]["state"].as_str()),
        (Some("dead"), Some("scheduled"))
    );
    assert_eq!(entry["after"]["payload_digest"].as_str().map(str::len), Some(32));
    assert!(entry["actor"].as_str().unwrap().starts_with("tenant:key-"), "{entry}");
    assert_eq!(entry["seq"], answer.get("head")["seq"]);
    assert!(!answer.text.contains("canary"), "{}", answer.text);
}

#[tokio::test]
async fn tenants_see_their_own_acts_without_the_chain() {
    let world = World::new().await;
    for (key, run) in [(&world.worker, "r1"), (&world.other_worker, "r2")] {
        assert_eq!(world.post("/v1/failures", key, &DEAD.replace("r1", run)).await.status, 201);
    }
    assert_eq!(world.post("/v1/runs/r1/resolve", &world.tenant, "{}").await.status, 200);
    assert_eq!(world.post("/v1/runs/r2/resolve", &world.other_tenant, "{}").await.status, 200);
    let own = world.get("/v1/audit?action=run.resolve", &world.tenant).await;
    let entries = own.get("entries");
    assert_eq!(
        (entries.as_array().unwrap().len(), entries[0]["subject"].as_str()),
        (1, Some("run:r1")),
        "{}",
        own.text
    );
    for hidden in ["seq", "hash"] {
        assert!(entries[0].get(hidden).is_none(), "{hidden}");
    }
    assert!(own.json().get("head").is_none() && !own.text.contains("globex"), "{}", own.text);
    let others = world.get("/v1/audit?tenant=globex", &world.tenant).await;
    assert_eq!(others.short(), (422, "wrong_tenant".into()));
    assert_eq!(world.get("/v1/audit", &world.worker).await.short(), (403, "forbidden".into()));
}

#[tokio::test]
async fn bad_filters_of_the_audit_log_are_named() {
    let world = World::new().await;
    for query in [
        "action=a/b",
        "run=%00",
        "actor=%00",
        "since=now",
        "limit=501",
        "cursor=x",
        "since=2027-01-02T00:00:00Z&until=2027-01-01T00:00:00Z",
    ] {
        let answer = world.get(&format!("/v1/audit?{query}"), &world.operator).await;
        assert_eq!(answer.status.as_u16() / 100, 4, "{query}: {}", answer.text);
    }
}
