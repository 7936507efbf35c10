//! Pages: who gets to see them, for how long, and that nothing in them is anybody else's.

use axum::body::Body;
use http::{Method, Request, header};
use redrive_server::auth::{LINK_MS, SESSION_IDLE_MS, SESSION_MS, hash_secret};
use redrive_server::ui;

use crate::world::{Answered, World};

async fn visit(world: &World, method: Method, path: &str, cookie: &str) -> Answered {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "desk.example:7070");
    world.send(request.header(header::COOKIE, cookie).body(Body::empty()).unwrap()).await
}

async fn front(world: &World, cookie: &str) -> Answered {
    visit(world, Method::GET, "/", cookie).await
}

/// Follows a new link of this key; the cookie as a browser sends it back.
async fn log_in(world: &World, key: &str) -> String {
    let answered = visit(world, Method::GET, &world.app.login_path(hash_secret(key)), "").await;
    assert_eq!((answered.status.as_u16(), answered.headers["location"].to_str().unwrap()), (303, "/"));
    let cookie = answered.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn every_page_asks_for_a_session_but_those_that_begin_or_dress_one() {
    let world = World::new().await;
    let open: Vec<&str> = ui::table().iter().filter(|page| !page.asks).map(|page| page.path).collect();
    assert_eq!(open, ["/login", "/logout", "/desk.css"]);
    for page in ui::table().iter().filter(|page| page.asks) {
        for cookie in ["", "redrive_session=", "redrive_session=made-up"] {
            let answered = visit(&world, page.method.clone(), page.path, cookie).await;
            assert_eq!(answered.status, 401, "{} with {cookie:?}", page.path);
        }
        // A bearer key is for programs: it opens no page.
        assert_eq!(world.call(page.method.clone(), page.path, &world.admin, "").await.status, 401);
    }
}

#[tokio::test]
async fn a_link_logs_in_once_and_a_look_ahead_does_not_use_it_up() {
    let world = World::new().await;
    let link = world.app.login_path(hash_secret(&world.operator));
    assert_eq!(visit(&world, Method::HEAD, &link, "").await.status, 204);
    assert_eq!(visit(&world, Method::GET, &link, "").await.status, 303);
    assert_eq!(visit(&world, Method::GET, &link, "").await.status, 401);
    let late = world.app.login_path(hash_secret(&world.operator));
    world.wait(LINK_MS);
    assert_eq!(visit(&world, Method::GET, &late, "").await.status, 401);
    for bad in ["/login", "/login?token=", "/login?token=%ff"] {
        assert_eq!(visit(&world, Method::GET, bad, "").await.status, 401, "{bad}");
    }
}

#[tokio::test]
async fn a_session_ends_when_idle_when_old_and_when_one_logs_out() {
    let world = World::new().await;
    let idle = log_in(&world, &world.operator).await;
    assert_eq!(front(&world, &idle).await.status, 200);
    world.wait(SESSION_IDLE_MS);
    assert_eq!(front(&world, &idle).await.status, 401);
    let busy = log_in(&world, &world.operator).await;
    for _ in 0..SESSION_MS / (SESSION_IDLE_MS / 2) - 1 {
        world.wait(SESSION_IDLE_MS / 2);
        assert_eq!(front(&world, &busy).await.status, 200);
    }
    world.wait(SESSION_IDLE_MS / 2);
    assert_eq!(front(&world, &busy).await.status, 401);
    let done = log_in(&world, &world.operator).await;
    assert_eq!(visit(&world, Method::POST, "/logout", &done).await.status, 303);
    assert_eq!(front(&world, &done).await.status, 401);
}

#[tokio::test]
async fn a_revoked_key_ends_its_sessions_and_a_workers_key_sees_no_page() {
    let world = World::new().await;
    let cookie = log_in(&world, &world.tenant).await;
    assert_eq!(front(&world, &cookie).await.status, 200);
    let hash = hash_secret(&world.tenant);
    let id = world.store.key_by_hash(hash).await.unwrap().unwrap().id;
    let revoked = world.call(Method::DELETE, &format!("/v1/keys/{id}"), &world.admin, "").await;
    assert_eq!(revoked.status, 200);
    assert_eq!(front(&world, &cookie).await.status, 401);
    let worker = log_in(&world, &world.worker).await;
    assert_eq!(front(&world, &worker).await.status, 403);
}

#[tokio::test]
async fn a_tenant_sees_its_own_and_an_operator_sees_all() {
    let world = World::new().await;
    world.kill("ours-1").await;
    let theirs = r#"{"run_id":"theirs-1","error":{"message":"theirs broke","terminal":true}}"#;
    world.post("/v1/failures", &world.other_worker, theirs).await;
    let own = front(&world, &log_in(&world, &world.tenant).await).await.text;
    assert!(own.contains("ours-1") && own.contains("One run waits for a person."), "{own}");
    assert!(!own.contains("theirs"), "{own}");
    let all = front(&world, &log_in(&world, &world.operator).await).await.text;
    assert!(all.contains("ours-1") && all.contains("theirs-1"), "{all}");
}

#[tokio::test]
async fn text_of_strangers_stays_text_and_nothing_is_run_or_fetched_from_elsewhere() {
    let world = World::new().await;
    let report = r#"{"run_id":"x","agent":"<script>alert(1)</script>","error":{"type":"<b>","message":"<img src=x onerror=alert(1)> \" '","terminal":true}}"#;
    assert_eq!(world.work("/v1/failures", report).await.status, 201);
    let page = front(&world, &log_in(&world, &world.operator).await).await;
    assert!(!page.text.contains("<script") && !page.text.contains("<img"), "{}", page.text);
    assert!(page.text.contains("&lt;script&gt;"), "{}", page.text);
    assert!(!page.text.contains(" style=") && !page.text.contains("<style"), "{}", page.text);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'self';") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers["cache-control"], "no-store");
    let sheet = visit(&world, Method::GET, "/desk.css", "").await;
    assert_eq!(
        (sheet.status.as_u16(), &sheet.headers["content-type"]),
        (200, &"text/css; charset=utf-8".parse().unwrap())
    );
}
