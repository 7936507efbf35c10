//! The plain tenant recovery API.

use crate::world::World;

#[tokio::test]
async fn messages_are_runs_in_plainer_words() {
    let world = World::new().await;
    world.kill("a").await;
    world.fail("b").await;
    let list = async |query: &str| -> Vec<(String, String)> {
        let page = world.get(&format!("/api/v1/dlq/acme/messages{query}"), &world.tenant).await.json();
        let read =
            |m: &serde_json::Value| (m["id"].as_str().unwrap().to_owned(), m["status"].as_str().unwrap().to_owned());
        page["messages"].as_array().unwrap().iter().map(read).collect()
    };
    let pair = |id: &str, status: &str| (id.to_owned(), status.to_owned());
    assert_eq!(list("").await, [pair("b", "pending"), pair("a", "escalated")]);
    assert_eq!(list("?status=escalated").await, [pair("a", "escalated")]);
    assert_eq!(list("?status=recovered,abandoned").await, []);

    let replayed = world.post("/api/v1/dlq/acme/messages/a/replay", &world.tenant, "").await;
    assert_eq!(replayed.json(), serde_json::json!({"id": "a", "tenant": "acme", "status": "pending"}));
    let abandoned = world.post("/api/v1/dlq/acme/messages/b/abandon", &world.tenant, "").await;
    assert_eq!(abandoned.get("status"), "abandoned");
}

#[tokio::test]
async fn another_tenant_is_forbidden_existing_or_not() {
    let world = World::new().await;
    world.kill("a").await;
    for tenant in ["acme", "nobody"] {
        let path = format!("/api/v1/dlq/{tenant}/messages");
        assert_eq!(world.get(&path, &world.other_tenant).await.short(), (403, "forbidden".into()));
        let path = format!("/api/v1/dlq/{tenant}/messages/a/replay");
        assert_eq!(world.post(&path, &world.other_tenant, "").await.short(), (403, "forbidden".into()));
    }
    assert_eq!(world.get("/api/v1/dlq/acme/messages", &world.operator).await.status, 200);
}
