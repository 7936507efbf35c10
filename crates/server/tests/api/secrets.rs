//! No secret appears in any log, error or answer.

use http::Method;

use crate::world::{Log, World};

#[tokio::test]
async fn a_key_appears_only_in_the_answer_that_makes_it() {
    let (log, _guard) = Log::start();
    let world = World::new().await;
    let made = world.post("/v1/keys", &world.admin, r#"{"role":"operator","note":"canary"}"#).await;
    let secret = made.get("key").as_str().unwrap().to_owned();

    let mut said = String::new();
    for route in redrive_server::routes::table() {
        let path =
            route.path.replace("{run_id}", "a").replace("{id}", "x").replace("{name}", "q").replace("{tenant}", "t");
        for body in ["", "{", r#"{"reason":"r"}"#] {
            said += &world.call(route.method.clone(), &path, &secret, body).await.text;
        }
    }
    world.app.stop();
    world.store.close().await;
    said += &world.call(Method::GET, "/v1/keys", &world.admin, "").await.text;
    said += &world.call(Method::GET, "/v1/limits", &format!("{secret}x"), "").await.text;
    tracing::info!("the log is read");

    let logged = log.text();
    assert!(logged.contains("the log is read"));
    for canary in [&secret[4..], &secret[10..30], &world.admin[4..]] {
        assert!(!said.contains(canary), "in an answer");
        assert!(!logged.contains(canary), "in the log");
    }
}
