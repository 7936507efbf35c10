//! Pages: login, sessions, forms, headers and escaping.

use axum::body::Body;
use http::{Method, Request, header};
use redrive_server::auth::{LINK_MS, SESSION_IDLE_MS, SESSION_MS, hash_secret};
use redrive_server::ui;

use crate::world::{Answered, World};

pub async fn visit(world: &World, method: Method, path: &str, cookie: &str) -> Answered {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "desk.example:7070");
    world.send(request.header(header::COOKIE, cookie).body(Body::empty()).unwrap()).await
}

async fn front(world: &World, cookie: &str) -> Answered {
    visit(world, Method::GET, "/", cookie).await
}

/// Follows a new link of this key; the cookie as a browser sends it back.
pub async fn log_in(world: &World, key: &str) -> String {
    let answered = visit(world, Method::GET, &world.app.login_path(hash_secret(key)), "").await;
    assert_eq!((answered.status.as_u16(), answered.headers["location"].to_str().unwrap()), (303, "/"));
    let cookie = answered.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn every_page_but_login_errors_and_assets_needs_a_session() {
    let world = World::new().await;
    let open = ui::table().into_iter().filter(|page| !page.asks).map(|page| page.path);
    let open: Vec<&str> = open.filter(|path| !path.starts_with("/assets/")).collect();
    assert_eq!(open, ["/login", "/login", "/logout", "/errors/{code}"]);
    for page in ui::table().iter().filter(|page| page.asks) {
        let path = named(page.path);
        for cookie in ["", "redrive_session=", "redrive_session=made-up"] {
            let answered = visit(&world, page.method.clone(), &path, cookie).await;
            assert_eq!(answered.status, 401, "{path} with {cookie:?}");
            assert!(answered.text.contains("<h1>Log in</h1>"), "{}", answered.text);
        }
        // A bearer key is for programs: it opens no page.
        assert_eq!(world.call(page.method.clone(), &path, &world.admin, "").await.status, 401);
    }
}

fn named(path: &str) -> String {
    let names = [("{tenant}", "acme"), ("{run_id}", "r"), ("{id}", "p"), ("{name}", "default"), ("{attempt}", "1")];
    names.iter().fold(path.to_owned(), |path, (part, name)| path.replace(part, name))
}

/// Sends a form with the token of its page.
pub async fn send(world: &World, path: &str, cookie: &str, fields: &str) -> Answered {
    let page = front(world, cookie).await.text;
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    post(world, path, cookie, &format!("csrf={csrf}&{fields}"), None).await
}

pub async fn post(world: &World, path: &str, cookie: &str, body: &str, origin: Option<&str>) -> Answered {
    let request = Request::builder().method(Method::POST).uri(path).header(header::HOST, "desk.example:7070");
    let request =
        request.header(header::COOKIE, cookie).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let request = origin.into_iter().fold(request, |request, origin| request.header(header::ORIGIN, origin));
    world.send(request.body(Body::from(body.to_owned())).unwrap()).await
}

#[tokio::test]
async fn a_key_logs_in_and_other_texts_are_refused_alike() {
    let world = World::new().await;
    let path = "/login";
    let answered = post(&world, path, "", &format!("key={}&next=%2Fruns%3Fstate%3Ddead", world.operator), None).await;
    assert_eq!((answered.status.as_u16(), &answered.headers["location"]), (303, &"/runs?state=dead".parse().unwrap()));
    let cookie = answered.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(front(&world, &cookie).await.status, 200);
    let mut refusals = Vec::new();
    for key in ["", "x", "rdk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        let refused = post(&world, path, "", &format!("key={key}&next=//evil.example"), None).await;
        assert!(!refused.headers.contains_key("set-cookie") && !refused.text.contains("evil"), "{}", refused.text);
        refusals.push((refused.status.as_u16(), refused.text));
    }
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]) && refusals[0].0 == 401);
    assert_eq!(post(&world, path, "", &format!("key={}", world.worker), None).await.status, 403);
    let elsewhere = post(&world, path, "", &format!("key={}", world.operator), Some("https://evil.example")).await;
    assert_eq!(elsewhere.status, 403);
}

#[tokio::test]
async fn a_forged_form_does_nothing() {
    let world = World::new().await;
    world.kill("ours").await;
    let (cookie, other) = (log_in(&world, &world.tenant).await, log_in(&world, &world.tenant).await);
    let page = front(&world, &other).await.text;
    let foreign = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let path = "/runs/acme/ours/discard";
    for body in ["", "csrf=", "csrf=made-up", &format!("csrf={foreign}")] {
        assert_eq!(post(&world, path, &cookie, body, None).await.status, 403, "{body}");
    }
    let page = front(&world, &cookie).await.text;
    let own = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let from_elsewhere = post(&world, path, &cookie, &format!("csrf={own}"), Some("https://evil.example")).await;
    assert_eq!((from_elsewhere.status.as_u16(), world.state("ours").await), (403, "dead".into()));
    let done =
        post(&world, path, &cookie, &format!("csrf={own}&reason=enough"), Some("http://desk.example:7070")).await;
    assert_eq!((done.status.as_u16(), world.state("ours").await), (303, "discarded".into()));
}

#[tokio::test]
async fn a_login_link_works_once_and_survives_a_head_request() {
    let world = World::new().await;
    let link = world.app.login_path(hash_secret(&world.operator));
    assert_eq!(visit(&world, Method::HEAD, &link, "").await.status, 204);
    assert_eq!(visit(&world, Method::GET, &link, "").await.status, 303);
    assert_eq!(visit(&world, Method::GET, &link, "").await.status, 401);
    let late = world.app.login_path(hash_secret(&world.operator));
    world.wait(LINK_MS);
    assert_eq!(visit(&world, Method::GET, &late, "").await.status, 401);
    for bad in ["/login?token=", "/login?token=%ff"] {
        assert_eq!(visit(&world, Method::GET, bad, "").await.status, 401, "{bad}");
    }
    assert_eq!(visit(&world, Method::GET, "/login", "").await.status, 200);
}

#[tokio::test]
async fn a_session_ends_when_idle_old_or_logged_out() {
    let world = World::new().await;
    let idle = log_in(&world, &world.operator).await;
    assert_eq!(front(&world, &idle).await.status, 200);
    world.wait(SESSION_IDLE_MS);
    assert_eq!(front(&world, &idle).await.status, 401);
    // A page that refreshes itself does not extend the session.
    let left_open = log_in(&world, &world.operator).await;
    for _ in 0..3 {
        world.wait(SESSION_IDLE_MS / 3);
        let request = Request::builder().uri("/").header(header::COOKIE, &left_open).header("x-redrive-follows", "1");
        world.send(request.body(Body::empty()).unwrap()).await;
    }
    assert_eq!(front(&world, &left_open).await.status, 401);
    let busy = log_in(&world, &world.operator).await;
    for _ in 0..SESSION_MS / (SESSION_IDLE_MS / 2) - 1 {
        world.wait(SESSION_IDLE_MS / 2);
        assert_eq!(front(&world, &busy).await.status, 200);
    }
    world.wait(SESSION_IDLE_MS / 2);
    assert_eq!(front(&world, &busy).await.status, 401);
    let done = log_in(&world, &world.operator).await;
    // The cookie alone is not enough.
    assert_eq!(visit(&world, Method::POST, "/logout", &done).await.status, 403);
    assert_eq!(front(&world, &done).await.status, 200);
    assert_eq!(send(&world, "/logout", &done, "").await.status, 303);
    assert_eq!(front(&world, &done).await.status, 401);
}

#[tokio::test]
async fn revoking_a_key_ends_its_sessions() {
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
    let (tenant, operator) = (log_in(&world, &world.tenant).await, log_in(&world, &world.operator).await);
    let own = visit(&world, Method::GET, "/runs", &tenant).await.text;
    assert!(own.contains("ours-1") && !own.contains("theirs"), "{own}");
    let own = front(&world, &tenant).await.text;
    assert!(own.contains("One run needs a person.") && !own.contains("theirs"), "{own}");
    let all = visit(&world, Method::GET, "/runs", &operator).await.text;
    assert!(all.contains("ours-1") && all.contains("theirs-1"), "{all}");
    assert!(front(&world, &operator).await.text.contains("2 runs need a person."));
}

#[tokio::test]
async fn pages_escape_reported_text_and_load_nothing_foreign() {
    let world = World::new().await;
    let report = r#"{"run_id":"x","agent":"<script>alert(1)</script>","error":{"type":"<b>","message":"<img src=x onerror=alert(1)> \" '","terminal":true}}"#;
    assert_eq!(world.work("/v1/failures", report).await.status, 201);
    let cookie = log_in(&world, &world.operator).await;
    for path in ["/", "/runs", "/runs/acme/x", "/patterns"] {
        let page = visit(&world, Method::GET, path, &cookie).await;
        let scripts = page.text.matches("<script").count();
        assert!(
            scripts == 1 && page.text.contains("<script type=\"module\" src=\"/assets/desk.js\"></script>"),
            "{path}"
        );
        assert!(
            !page.text.contains("<img") && !page.text.contains(" style=") && !page.text.contains("<style"),
            "{path}"
        );
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(
            (&page.headers["cache-control"], &page.headers["referrer-policy"]),
            (&"no-store".parse().unwrap(), &"same-origin".parse().unwrap())
        );
    }
    let run = visit(&world, Method::GET, "/runs/acme/x", &cookie).await.text;
    assert!(run.contains("&lt;script&gt;alert(1)") && run.contains("&lt;img src=x"), "{run}");
}

#[tokio::test]
async fn unknown_paths_answer_browsers_with_pages_and_programs_with_problems() {
    let world = World::new().await;
    let lost = |path: &'static str, accept: &'static str| {
        let request = Request::builder().uri(path).header(header::ACCEPT, accept);
        world.send(request.body(Body::empty()).unwrap())
    };
    let page = lost("/nowhere", "text/html,*/*").await;
    assert_eq!((page.status.as_u16(), page.text.contains("Not found.")), (404, true));
    for (path, accept) in [("/nowhere", "*/*"), ("/v1/nowhere", "text/html,*/*")] {
        assert_eq!(lost(path, accept).await.short(), (404, "no_such_path".into()), "{path}");
    }
}

#[tokio::test]
async fn every_error_code_has_a_page_that_needs_no_key() {
    let world = World::new().await;
    for error in redrive_server::error_catalogue() {
        let page = visit(&world, Method::GET, &format!("/errors/{}", error.code), "").await;
        assert_eq!(
            (page.status.as_u16(), &page.headers["content-type"]),
            (200, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(page.text.contains(&format!("<code>{}</code>", error.code)), "{}", page.text);
        assert!(page.headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none';"));
    }
    let problem = world.get("/v1/runs/absent", &world.tenant).await;
    assert_eq!(visit(&world, Method::GET, problem.get("type").as_str().unwrap(), "").await.status, 200);
    assert_eq!(visit(&world, Method::GET, "/errors/no_such_code", "").await.short(), (404, "not_found".into()));
}

#[tokio::test]
async fn assets_are_cached_and_revalidated() {
    let world = World::new().await;
    for page in ui::table().iter().filter(|page| page.path.starts_with("/assets/")) {
        let first = visit(&world, Method::GET, page.path, "").await;
        assert_eq!((first.status.as_u16(), &first.headers["cache-control"]), (200, &"no-cache".parse().unwrap()));
        let again = Request::builder().uri(page.path).header(header::IF_NONE_MATCH, first.headers["etag"].clone());
        let again = world.send(again.body(Body::empty()).unwrap()).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{}", page.path);
    }
}
