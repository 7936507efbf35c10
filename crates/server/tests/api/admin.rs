//! Keys and queues, and what a key is worth.

use axum::body::Body;
use http::{Method, Request, header};

use crate::world::World;

#[tokio::test]
async fn a_revoked_key_is_refused_within_a_second() {
    let world = World::new().await;
    let made = world.post("/v1/keys", &world.admin, r#"{"role":"worker","tenant":"acme","note":"ci"}"#).await;
    assert_eq!(made.status, 201);
    let (id, secret) = (made.get("id").as_str().unwrap().to_owned(), made.get("key").as_str().unwrap().to_owned());
    assert_eq!((secret.len(), made.get("tenant")), (47, "acme".into()));
    assert_eq!(world.get("/v1/limits", &secret).await.status, 200);

    let listed = world.get("/v1/keys", &world.admin).await;
    assert!(listed.text.contains(&id) && !listed.text.contains(&secret));

    // Straight in the store, as the command line does it: only the cache can delay it.
    assert!(world.store.revoke_key(&id).await.unwrap());
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(world.get("/v1/limits", &secret).await.short(), (401, "unauthorized".into()));
}

#[tokio::test]
async fn a_key_revoked_here_is_out_at_once() {
    let world = World::new().await;
    let made = world.post("/v1/keys", &world.admin, r#"{"role":"tenant"}"#).await;
    assert_eq!(made.get("tenant"), "default");
    let (id, secret) = (made.get("id").as_str().unwrap().to_owned(), made.get("key").as_str().unwrap().to_owned());
    assert_eq!(world.get("/v1/limits", &secret).await.status, 200);
    let revoked = world.call(Method::DELETE, &format!("/v1/keys/{id}"), &world.admin, "").await;
    assert!(revoked.status == 200 && revoked.get("revoked_at").is_string(), "{}", revoked.text);
    assert_eq!(world.get("/v1/limits", &secret).await.status, 401);
    let absent = world.call(Method::DELETE, "/v1/keys/key-none", &world.admin, "").await;
    assert_eq!(absent.short(), (404, "not_found".into()));
}

#[tokio::test]
async fn every_way_to_have_no_valid_key_looks_the_same() {
    let world = World::new().await;
    let soon = r#"{"role":"worker","expires_at":"2027-01-15T08:00:01Z"}"#;
    let expired = world.post("/v1/keys", &world.admin, soon).await.get("key").as_str().unwrap().to_owned();
    assert_eq!(world.get("/v1/limits", &expired).await.status, 200);
    world.wait(1_000);
    let unknown = format!("Bearer {}", redrive_server::auth::new_secret(world.dice.as_ref()).0);
    let cases = [None, Some(""), Some("Bearer"), Some("Bearer x"), Some("Basic abc"), Some(unknown.as_str())];
    let expired = format!("Bearer {expired}");
    let mut bodies = Vec::new();
    for case in cases.into_iter().chain([Some(expired.as_str())]) {
        let mut request = Request::builder().uri("/v1/limits");
        if let Some(value) = case {
            request = request.header(header::AUTHORIZATION, value);
        }
        let answered = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answered.status, 401, "{case:?}");
        assert_eq!(answered.headers["www-authenticate"], "Bearer");
        bodies.push(answered.text);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
}

#[tokio::test]
async fn a_bad_key_request_names_its_field() {
    let world = World::new().await;
    for (body, field) in [
        (r#"{"role":"operator","tenant":"acme"}"#, "tenant"),
        (r#"{"role":"worker","tenant":"a b"}"#, "tenant"),
        (r#"{"role":"king"}"#, "role"),
        (r#"{"role":"worker","expires_at":"2020-01-01T00:00:00Z"}"#, "expires_at"),
    ] {
        let answered = world.post("/v1/keys", &world.admin, body).await;
        assert_eq!((answered.status.as_u16(), answered.get("field")), (422, field.into()), "{body}");
    }
}

#[tokio::test]
async fn an_admin_sets_a_queue_and_its_policy_is_checked() {
    let world = World::new().await;
    let settings = r#"{"owner":"billing","policy":{"max_attempts":2}}"#;
    let put = world.call(Method::PUT, "/v1/queues/invoices", &world.admin, settings).await;
    assert_eq!((put.status.as_u16(), put.get("ownerless")), (200, false.into()));
    assert_eq!(world.get("/v1/queues/invoices", &world.operator).await.get("settings")["policy"]["max_attempts"], 2);
    let bad = world.call(Method::PUT, "/v1/queues/invoices", &world.admin, r#"{"policy":{"lease_ms":1}}"#).await;
    assert_eq!((bad.short(), bad.get("field")), ((422, "invalid_field".into()), "policy.lease_ms".into()));
    let refused = world.call(Method::PUT, "/v1/queues/invoices", &world.operator, settings).await;
    assert_eq!(refused.short(), (403, "forbidden".into()));
    assert_eq!(world.get("/v1/queues/none", &world.operator).await.short(), (404, "not_found".into()));
}

#[tokio::test]
async fn a_process_that_can_not_write_is_not_healthy() {
    let world = World::new().await;
    let probe = |path: &'static str| world.call(Method::GET, path, "", "");
    assert_eq!(probe("/healthz").await.status, 200);
    for _ in 0..20 {
        assert_eq!(probe("/readyz").await.status, 200);
    }
    world.store.close().await;
    assert_eq!(probe("/healthz").await.short(), (503, "unavailable".into()));
    assert_eq!(probe("/readyz").await.short(), (503, "unavailable".into()));
}
