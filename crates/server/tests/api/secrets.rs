//! No secret of a key, a portal link or its session appears in any log, error or page (promise T5).

use axum::body::Body;
use http::{Method, Request, header};
use redrive_server::ui;

use crate::pages::{log_in, visit};
use crate::world::{Log, World};

/// The secret in the answer that makes it, without its prefix.
fn body_of(secret: &str) -> &str {
    &secret[4..]
}

fn filled(path: &str) -> String {
    let names = [("{run_id}", "a"), ("{id}", "x"), ("{name}", "q"), ("{tenant}", "acme"), ("{attempt}", "1")];
    names.iter().fold(path.to_owned(), |path, (part, name)| path.replace(part, name))
}

#[tokio::test]
async fn a_key_appears_only_in_the_answer_that_makes_it() {
    let (log, _guard) = Log::start();
    let world = World::new().await;
    let made = world.post("/v1/keys", &world.admin, r#"{"role":"operator","note":"canary"}"#).await;
    let secret = made.get("key").as_str().unwrap().to_owned();
    let made = world.post("/v1/keys", &world.admin, r#"{"role":"admin","name":"canary"}"#).await;
    let path = format!("/v1/keys/{}/rotate", made.get("id").as_str().unwrap());
    let rotated = world.post(&path, &world.admin, "").await.get("key").as_str().unwrap().to_owned();

    let mut said = String::new();
    for route in redrive_server::routes::table() {
        for (key, body) in [(&secret, ""), (&rotated, "{"), (&secret, r#"{"reason":"r"}"#)] {
            said += &world.call(route.method.clone(), &filled(route.path), key, body).await.text;
        }
    }
    let cookie = log_in(&world, &rotated).await;
    for page in ui::table() {
        said += &visit(&world, page.method, &filled(page.path), &cookie).await.text;
    }
    world.app.stop();
    world.store.close().await;
    said += &world.call(Method::GET, "/v1/keys", &world.admin, "").await.text;
    said += &world.call(Method::GET, "/v1/limits", &format!("{secret}x"), "").await.text;
    tracing::info!("the log is read");

    let logged = log.text();
    assert!(logged.contains("the log is read"));
    for canary in [body_of(&secret), &secret[10..30], body_of(&rotated), body_of(&world.admin)] {
        assert!(!said.contains(canary), "in an answer");
        assert!(!logged.contains(canary), "in the log");
    }
}

#[tokio::test]
async fn a_portal_link_appears_only_in_the_answer_that_makes_it() {
    let (log, _guard) = Log::start();
    let world = World::new().await;
    let request = Request::builder().method(Method::POST).uri("/v1/portal-links").header(header::HOST, "desk.example");
    let request = request.header(header::AUTHORIZATION, format!("Bearer {}", world.operator));
    let made = world.send(request.body(Body::from(r#"{"tenant":"acme"}"#)).unwrap()).await;
    let url = made.get("url").as_str().unwrap().to_owned();
    let token = url.split_once("token=").unwrap().1.to_owned();
    let opened = visit(&world, Method::GET, &format!("/portal?token={token}"), "").await;
    let cookie = opened.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let session = cookie.split_once('=').unwrap().1.to_owned();

    let mut said = String::new();
    said += &visit(&world, Method::GET, &format!("/portal?token={token}"), "").await.text;
    said += &world.get("/v1/portal-links?tenant=acme", &world.operator).await.text;
    let operator = log_in(&world, &world.operator).await;
    for cookie in [&cookie, &operator] {
        for page in ui::table() {
            said += &visit(&world, page.method, &filled(page.path), cookie).await.text;
        }
    }
    world.store.close().await;
    said += &visit(&world, Method::GET, &format!("/portal?token={token}"), "").await.text;
    said += &visit(&world, Method::GET, "/", &cookie).await.text;
    tracing::info!("the log is read");

    let logged = log.text();
    assert!(logged.contains("the log is read"));
    for canary in [body_of(&token), &token[10..30], body_of(&session)] {
        assert!(!said.contains(canary), "in an answer");
        assert!(!logged.contains(canary), "in the log");
    }
}
