//! The tenant portal: one-time links, their sessions, and framing.

use axum::body::Body;
use http::{Method, Request, header};
use redrive_server::auth::PortalSettings;
use serde_json::{Value, json};

use crate::pages::{post, send, visit};
use crate::world::{Answered, World};

const HOUR_MS: u64 = 3_600_000;

async fn link(world: &World, tenant: &str, expires_ms: u64) -> Answered {
    let body = json!({"tenant": tenant, "expires_ms": expires_ms}).to_string();
    let request = Request::builder().method(Method::POST).uri("/v1/portal-links");
    let request = request.header(header::HOST, "desk.example:7070");
    let request = request.header(header::AUTHORIZATION, format!("Bearer {}", world.operator));
    world.send(request.body(Body::from(body)).unwrap()).await
}

fn path(link: &Answered) -> String {
    let url = link.get("url").as_str().unwrap().to_owned();
    url.strip_prefix("http://desk.example:7070").unwrap().to_owned()
}

/// Opens the link; the cookie as a browser sends it back.
async fn open(world: &World, link: &Answered) -> String {
    let opened = visit(world, Method::GET, &path(link), "").await;
    assert_eq!((opened.status.as_u16(), opened.headers["location"].to_str().unwrap()), (303, "/"));
    opened.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

async fn front(world: &World, cookie: &str) -> Answered {
    visit(world, Method::GET, "/", cookie).await
}

#[tokio::test]
async fn a_link_logs_in_once_as_its_tenant() {
    let world = World::new().await;
    world.kill("ours").await;
    world.post("/v1/failures", &world.other_worker, r#"{"run_id":"theirs","error":{"message":"theirs broke"}}"#).await;
    let made = link(&world, "acme", HOUR_MS).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.get("expires_at"), json!(world.store.now().plus_ms(HOUR_MS).to_string()));
    let token = path(&made);
    // A preview by HEAD does not use it up.
    assert_eq!(visit(&world, Method::HEAD, &token, "").await.status, 204);
    let cookie = open(&world, &made).await;
    let runs = visit(&world, Method::GET, "/runs", &cookie).await;
    assert!(runs.status == 200 && runs.text.contains("ours") && !runs.text.contains("theirs"), "{}", runs.text);
    assert_eq!(visit(&world, Method::GET, "/runs/globex/theirs", &cookie).await.status, 404);
    assert_eq!(visit(&world, Method::GET, "/operations", &cookie).await.status, 403);
    assert_eq!(send(&world, "/runs/acme/ours/note", &cookie, "reason=seen").await.status, 303);
    let actor = world.show("ours").await["history"].as_array().unwrap().last().unwrap()["actor"].clone();
    assert_eq!(actor, json!(format!("tenant:{}", made.get("id").as_str().unwrap())));

    let again = visit(&world, Method::GET, &token, "").await;
    assert!(again.status == 401 && again.text.contains("a link works once"), "{}", again.text);
    assert!(!again.headers.contains_key("set-cookie"));
    for bad in ["/portal", "/portal?token=", "/portal?token=rdl_x"] {
        assert_eq!(visit(&world, Method::GET, bad, "").await.text, again.text, "{bad}");
    }
    // The session is a browser's, not a key.
    let session = cookie.split_once('=').unwrap().1;
    assert_eq!(world.get("/v1/runs", session).await.status, 401);
}

#[tokio::test]
async fn a_session_ends_with_its_link_on_every_replica() {
    let world = World::new().await;
    let other = world.replica().await;
    let (late, revoked) = (link(&world, "acme", HOUR_MS).await, link(&world, "acme", 2 * HOUR_MS).await);
    let (late_cookie, cookie) = (open(&world, &late).await, open(&world, &revoked).await);
    for world in [&world, &other] {
        assert_eq!(
            (front(world, &late_cookie).await.status, front(world, &cookie).await.status),
            (200.try_into().unwrap(), 200.try_into().unwrap())
        );
    }
    world.wait(HOUR_MS);
    assert_eq!(front(&world, &late_cookie).await.status, 401);
    let id = revoked.get("id").as_str().unwrap().to_owned();
    let answered = world.call(Method::DELETE, &format!("/v1/portal-links/{id}"), &world.operator, "").await;
    assert!(answered.status == 200 && answered.get("revoked_at").is_string(), "{}", answered.text);
    assert_eq!(front(&world, &cookie).await.status, 401);
    world.wait(999);
    assert_eq!(front(&other, &cookie).await.status, 401);
    let listed = world.get("/v1/portal-links?tenant=acme", &world.operator).await;
    let links = listed.get("links");
    let ids: Vec<&Value> = links.as_array().unwrap().iter().map(|link| &link["id"]).collect();
    assert_eq!(ids.len(), 2);
    assert!(links.as_array().unwrap().iter().all(|link| link["used_at"].is_string()), "{links}");
    assert!(!listed.text.contains("rdl_") && !listed.text.contains("rds_"));
}

#[tokio::test]
async fn logging_out_ends_a_portal_session() {
    let world = World::new().await;
    let cookie = open(&world, &link(&world, "acme", HOUR_MS).await).await;
    let out = send(&world, "/logout", &cookie, "").await;
    assert!(out.status == 200 && out.text.contains("Logged out"), "{}", out.text);
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(front(&world, &cookie).await.status, 401);
    // Without the form's token nobody is logged out.
    let cookie = open(&world, &link(&world, "acme", HOUR_MS).await).await;
    assert_eq!(post(&world, "/logout", &cookie, "", None).await.status, 403);
    assert_eq!(front(&world, &cookie).await.status, 200);
}

#[tokio::test]
async fn a_link_is_bounded_in_time() {
    let world = World::new().await;
    for bad in [0, 59_999, 86_400_001] {
        let refused = link(&world, "acme", bad).await;
        assert_eq!((refused.status.as_u16(), refused.get("field")), (422, json!("expires_ms")), "{bad}");
    }
    let unused = link(&world, "acme", 60_000).await;
    world.wait(60_000);
    assert_eq!(visit(&world, Method::GET, &path(&unused), "").await.status, 401);
    assert_eq!(world.get("/v1/portal-links", &world.operator).await.short(), (422, "tenant_required".into()));
}

fn policy(answered: &Answered) -> String {
    answered.headers["content-security-policy"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn only_the_portal_is_framed_and_only_if_configured() {
    let framed = PortalSettings { frame_ancestors: vec!["https://app.example.com".into()] };
    let (world, closed) = (World::with_portal(framed).await, World::new().await);
    let ancestors = "frame-ancestors https://app.example.com;";
    let made = link(&world, "acme", HOUR_MS).await;
    let opened = visit(&world, Method::GET, &path(&made), "").await;
    let cookie = opened.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=None; Secure; Partitioned"), "{cookie}");
    let session = cookie.split(';').next().unwrap();
    assert!(policy(&front(&world, session).await).contains(ancestors));
    assert!(policy(&visit(&world, Method::GET, &path(&made), "").await).contains(ancestors));
    let operator = crate::pages::log_in(&world, &world.operator).await;
    for other in [front(&world, &operator).await, visit(&world, Method::GET, "/login", "").await] {
        assert!(policy(&other).contains("frame-ancestors 'none'"));
    }

    let made = link(&closed, "acme", HOUR_MS).await;
    let opened = visit(&closed, Method::GET, &path(&made), "").await;
    let cookie = opened.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Lax"), "{cookie}");
    assert!(policy(&front(&closed, cookie.split(';').next().unwrap()).await).contains("frame-ancestors 'none'"));
}

#[tokio::test]
async fn guessing_links_is_throttled() {
    let world = World::new().await;
    let guess = |n: usize| format!("/portal?token=rdl_{}{n:02}{}", "A".repeat(20), "A".repeat(21));
    for n in 0..20 {
        assert_eq!(visit(&world, Method::GET, &guess(n), "").await.status, 401);
    }
    assert_eq!(visit(&world, Method::GET, &guess(20), "").await.status, 429);
    world.wait(60_000);
    assert_eq!(visit(&world, Method::GET, &guess(21), "").await.status, 401);
}

#[tokio::test]
async fn operators_make_and_revoke_links_on_a_page() {
    let world = World::new().await;
    let operator = crate::pages::log_in(&world, &world.operator).await;
    let made = send(&world, "/settings/portal-links", &operator, "tenant=acme&minutes=30").await;
    assert!(made.status == 200 && made.text.contains("shown only once"), "{}", made.text);
    let secret = made.text.split("/portal?token=").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let listed = visit(&world, Method::GET, "/settings?tenant=acme", &operator).await.text;
    let id = listed.split("revoke link-").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(!listed.contains(&secret));
    let revoked = send(&world, &format!("/settings/portal-links/link-{id}/revoke"), &operator, "tenant=acme").await;
    assert_eq!(
        (revoked.status.as_u16(), revoked.headers["location"].to_str().unwrap()),
        (303, "/settings?tenant=acme")
    );
    assert_eq!(visit(&world, Method::GET, &format!("/portal?token={secret}"), "").await.status, 401);
    let tenant = crate::pages::log_in(&world, &world.tenant).await;
    assert_eq!(send(&world, "/settings/portal-links", &tenant, "tenant=acme").await.status, 403);
}
