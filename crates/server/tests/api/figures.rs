//! Health, statistics and the change log.

use crate::world::World;

#[tokio::test]
async fn health_counts_waiting_runs_and_idle_queues() {
    let world = World::new().await;
    world.kill("a").await;
    world.fail("b").await;
    world.begin("c").await;
    let health = world.get("/v1/health", &world.tenant).await.json();
    assert_eq!((&health["dead"], &health["scheduled"], &health["running"]), (&1.into(), &1.into(), &1.into()));
    let other = world.get("/v1/health", &world.other_tenant).await.json();
    assert_eq!((&other["dead"], &other["scheduled"]), (&0.into(), &0.into()));
    let named = world.get("/v1/health?tenant=acme", &world.operator).await.json();
    assert_eq!(named["dead"], 1);
}

#[tokio::test]
async fn stats_count_by_the_hour_and_keep_tenants_apart() {
    let world = World::new().await;
    world.kill("a").await;
    world.fail("b").await;
    let stats = world.get("/v1/stats", &world.tenant).await.json();
    let failed: u64 = stats["hours"].as_array().unwrap().iter().map(|h| h["failed"].as_u64().unwrap()).sum();
    assert_eq!(failed, 2);
    let other = world.get("/v1/stats", &world.other_tenant).await.json();
    assert!(other["hours"].as_array().unwrap().iter().all(|h| h["failed"] == 0), "{other}");
    let backwards = "/v1/stats?since=2027-01-02T00:00:00Z&until=2027-01-01T00:00:00Z";
    assert_eq!(world.get(backwards, &world.tenant).await.short(), (422, "invalid_parameter".into()));
}

#[tokio::test]
async fn a_tenants_key_sees_its_own_tenant_among_tenants() {
    let world = World::new().await;
    world.kill("a").await;
    world.post("/v1/failures", &world.other_worker, r#"{"run_id":"b","error":{"message":"m"}}"#).await;
    let own = world.get("/v1/tenants", &world.tenant).await.json();
    assert_eq!((own["tenants"].as_array().map(Vec::len), &own["tenants"][0]["tenant"]), (Some(1), &"acme".into()));
    assert_eq!(own["tenants"][0]["dead"], 1);
    let all = world.get("/v1/tenants", &world.operator).await.json();
    assert_eq!(all["tenants"].as_array().map(Vec::len), Some(2));

    let health = world.get("/v1/tenants/acme/health", &world.tenant).await.json();
    assert_eq!((&health["dead"], &health["active_poison"]), (&1.into(), &1.into()));
    assert_eq!(world.get("/v1/tenants/globex/health", &world.tenant).await.short(), (404, "not_found".into()));
    assert_eq!(world.get("/v1/tenants/globex/health", &world.operator).await.status, 200);
}

#[tokio::test]
async fn changes_list_each_run_once_with_its_current_state() {
    let world = World::new().await;
    let start = world.get("/v1/changes", &world.tenant).await.json();
    let since = start["next"].as_str().unwrap();
    world.fail("a").await;
    world.kill("b").await;
    world.post("/v1/runs/b/discard", &world.tenant, "").await;
    world.post("/v1/failures", &world.other_worker, r#"{"run_id":"c","error":{"message":"m"}}"#).await;
    let changes = world.get(&format!("/v1/changes?since={since}"), &world.tenant).await.json();
    let mut seen: Vec<(&str, &str)> = changes["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["run_id"].as_str().unwrap(), c["state"].as_str().unwrap()))
        .collect();
    seen.sort_unstable();
    assert_eq!((seen, &changes["reset"]), (vec![("a", "scheduled"), ("b", "discarded")], &false.into()));
    let next = changes["next"].as_str().unwrap();
    let none = world.get(&format!("/v1/changes?since={next}"), &world.tenant).await.json();
    assert_eq!(none["changes"].as_array().map(Vec::len), Some(0));
    for (key, since) in [(&world.tenant, "nonsense"), (&world.other_tenant, next), (&world.operator, next)] {
        let refused = world.get(&format!("/v1/changes?since={since}"), key).await;
        assert_eq!(refused.short(), (400, "bad_cursor".into()), "{since}");
    }
}

#[tokio::test]
async fn another_tenants_queue_and_an_absent_one_look_alike() {
    let world = World::new().await;
    let body = r#"{"run_id":"a","queue":"secret","error":{"message":"Request timed out"}}"#;
    assert_eq!(world.post("/v1/failures", &world.other_worker, body).await.status, 201);
    world.fail("mine").await;
    let stats = async |queue: &str| {
        let answered = world.get(&format!("/v1/stats?queue={queue}"), &world.tenant).await;
        (answered.status.as_u16(), answered.text)
    };
    assert_eq!(stats("secret").await, stats("nowhere").await);
    assert_eq!(stats("secret").await.0, 200);
    assert_eq!(world.get("/v1/stats?queue=nowhere", &world.operator).await.status, 404);
    for verb in ["reassign", "replay", "plan"] {
        let answer = async |queue: &str| {
            let body = format!(r#"{{"queue":"{queue}"}}"#);
            let answered = world.post(&format!("/v1/runs/mine/{verb}"), &world.tenant, body).await;
            (answered.status.as_u16(), answered.text)
        };
        assert_eq!(answer("secret").await, answer("nowhere").await, "{verb}");
    }
}

#[tokio::test]
async fn queues_are_listed_a_page_at_a_time() {
    let world = World::new().await;
    for name in ["c", "a", "b"] {
        world.set_queue(name, serde_json::json!({})).await;
    }
    let page = async |path: &str| {
        let page = world.get(path, &world.operator).await.json();
        let names: Vec<String> =
            page["queues"].as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap().to_owned()).collect();
        (names, page["next_cursor"].as_str().map(str::to_owned))
    };
    let (first, cursor) = page("/v1/queues?limit=2").await;
    assert_eq!(first, ["a", "b"]);
    let (second, end) = page(&format!("/v1/queues?limit=2&cursor={}", cursor.unwrap())).await;
    assert_eq!((second, end), (vec!["c".to_owned()], None));
    assert_eq!(world.get("/v1/queues?cursor=x", &world.operator).await.short(), (400, "bad_cursor".into()));
}
