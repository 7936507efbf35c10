//! Lists: filters, order, pages and cursors.

use crate::world::World;

#[tokio::test]
async fn a_list_is_filtered_sorted_and_paged() {
    let world = World::new().await;
    for i in 0..5 {
        world.fail(&format!("r-{i}")).await;
        world.wait(1_000);
    }
    world.kill("dead-1").await;
    let ids = async |query: &str| -> Vec<String> {
        let page = world.get(&format!("/v1/runs?{query}"), &world.tenant).await.json();
        page["runs"].as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("state=dead").await, ["dead-1"]);
    assert_eq!(ids("state=scheduled&sort=received&limit=2").await, ["r-0", "r-1"]);
    assert_eq!(ids("q=r-3").await, ["r-3"]);
    assert_eq!(ids("reason=timeout&limit=1").await, ["r-4"]);

    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.get(&format!("/v1/runs?limit=4{cursor}"), &world.tenant).await.json();
        seen.extend(page["runs"].as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ["dead-1", "r-4", "r-3", "r-2", "r-1", "r-0"]);
    assert_eq!(world.get("/v1/runs?limit=4", &world.tenant).await.get("total"), 6);
}

#[tokio::test]
async fn foreign_and_made_up_cursors_are_refused() {
    let world = World::new().await;
    for i in 0..3 {
        world.fail(&format!("r-{i}")).await;
    }
    let page = world.get("/v1/runs?limit=1", &world.tenant).await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    for path in [
        format!("/v1/runs?limit=1&state=dead&cursor={cursor}"),
        "/v1/runs?cursor=nonsense".to_owned(),
        "/v1/runs?cursor=".to_owned(),
    ] {
        assert_eq!(world.get(&path, &world.tenant).await.short(), (400, "bad_cursor".into()), "{path}");
    }
    let stolen = format!("/v1/runs?limit=1&cursor={cursor}");
    assert_eq!(world.get(&stolen, &world.other_tenant).await.short(), (400, "bad_cursor".into()));
}

#[tokio::test]
async fn a_spanning_key_lists_all_tenants_or_a_named_one() {
    let world = World::new().await;
    world.fail("a").await;
    world.post("/v1/failures", &world.other_worker, r#"{"run_id":"b","error":{"message":"m"}}"#).await;
    let count = async |path: &str, key: &str| world.get(path, key).await.get("runs").as_array().map(Vec::len);
    assert_eq!(count("/v1/runs", &world.operator).await, Some(2));
    assert_eq!(count("/v1/runs?tenant=acme", &world.operator).await, Some(1));
    assert_eq!(count("/v1/runs", &world.tenant).await, Some(1));
    assert_eq!(world.get("/v1/runs?tenant=globex", &world.tenant).await.short(), (422, "wrong_tenant".into()));
    assert_eq!(world.get("/v1/runs?tenant=nobody", &world.tenant).await.short(), (422, "wrong_tenant".into()));
}

#[tokio::test]
async fn failures_that_share_a_cause_are_one_pattern() {
    let world = World::new().await;
    for i in 0..3 {
        let body = format!(r#"{{"run_id":"r-{i}","error":{{"message":"order {i}00 not in ledger"}}}}"#);
        world.work("/v1/failures", body).await;
    }
    let page = world.get("/v1/patterns", &world.tenant).await.json();
    assert_eq!((page["patterns"].as_array().map(Vec::len), &page["patterns"][0]["count"]), (Some(1), &3.into()));
    let id = page["patterns"][0]["id"].as_str().unwrap();
    let path = format!("/v1/patterns/{id}");
    let shown = world.get(&path, &world.tenant).await.json();
    for (name, value) in page["patterns"][0].as_object().unwrap() {
        assert_eq!(shown[name], *value, "{name}");
    }
    assert_eq!(shown["hours"].as_array().map(Vec::len), Some(168));
    assert_eq!(shown["events"][0]["event"], "new");
    assert_eq!(world.get(&path, &world.other_tenant).await.short(), (404, "not_found".into()));
}

#[tokio::test]
async fn any_key_reads_the_limits() {
    let world = World::new().await;
    let limits = world.get("/v1/limits", &world.worker).await.json();
    assert_eq!((&limits["body_max_bytes"], &limits["leases_max"]), (&16_777_216.into(), &1_000.into()));
}
