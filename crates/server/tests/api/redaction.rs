//! Redaction: a secret in any text reaches no row, page, answer or log; in payloads as the policy says.

use http::Method;
use redrive_core::policy::{Policies, PolicyLayer, RedactLayer};
use serde_json::{Value, json};

use crate::pages::{log_in, visit};
use crate::world::{Log, World};

const CANARY: &str = concat!("ghp", "_Canary9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI");
const MARK: &str = "[redacted:github_token]";

async fn ok(world: &World, method: Method, path: &str, key: &str, body: Value) -> Value {
    let answered = world.call(method, path, key, body.to_string()).await;
    assert!(answered.status.is_success(), "{path}: {}", answered.text);
    answered.json()
}

/// Everything that anybody can read back, and the files of the store.
async fn everything(world: &World, runs: &[&str]) -> String {
    let mut said = String::new();
    for run in runs {
        for path in ["", "/plan", "/duplicates"] {
            said += &world.get(&format!("/v1/runs/{run}{path}"), &world.tenant).await.text;
        }
    }
    for path in [
        "/v1/runs",
        "/v1/patterns",
        "/v1/breakers",
        "/v1/tenants/acme/breaker",
        "/v1/tenants/acme/health",
        "/v1/changes",
    ] {
        said += &world.get(path, &world.tenant).await.text;
    }
    let patterns = world.get("/v1/patterns", &world.tenant).await.json();
    for pattern in patterns["patterns"].as_array().unwrap() {
        said += &world.get(&format!("/v1/patterns/{}", pattern["id"].as_str().unwrap()), &world.tenant).await.text;
    }
    for path in ["/v1/operations", "/v1/queues", "/v1/health", "/v1/keys"] {
        said += &world.get(path, &world.admin).await.text;
    }
    said += &pages(world, runs).await;
    said + &world.stored()
}

async fn pages(world: &World, runs: &[&str]) -> String {
    let cookie = log_in(world, &world.operator).await;
    let mut said = String::new();
    let mut paths = vec!["/".to_owned(), "/runs".into(), "/patterns".into(), "/operations".into(), "/tenants".into()];
    for run in runs {
        for page in ["", "/payload?view=tree", "/payload?view=raw", "/payload?view=hex", "/fix"] {
            paths.push(format!("/runs/acme/{run}{page}"));
        }
    }
    for path in paths {
        let shown = visit(world, Method::GET, &path, &cookie).await;
        assert!(shown.status == 200 || shown.status == 404, "{path}: {}", shown.text);
        said += &shown.text;
    }
    said
}

fn evidence() -> Value {
    json!({"type": CANARY, "message": format!("push failed: {CANARY}"), "detail": format!("Traceback\n{CANARY}\n"),
        "headers": {"authorization": "Bearer anything", "x-token": CANARY}, "terminal": true})
}

#[tokio::test]
async fn a_secret_in_any_text_is_kept_nowhere() {
    let (log, _guard) = Log::start();
    let world = World::new().await;
    let (worker, tenant) = (world.worker.clone(), world.tenant.clone());
    let response =
        json!({"status": 500, "headers": {"set-cookie": "sid=secret-cookie-value", "x": CANARY}, "body": CANARY});
    let names = |run: &str| {
        json!({"run_id": run, "agent": CANARY, "task_type": CANARY, "environment": CANARY, "customer": CANARY,
            "model": CANARY, "provider": CANARY, "content_type": CANARY, "destination": format!("https://u:{CANARY}@h/"),
            "versions": {"worker": CANARY}, "links": {"trace": format!("https://h/?t={CANARY}")}})
    };
    let with = |mut base: Value, more: Value| {
        base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        base
    };
    let check = json!([{"name": "s", "status": "committed", "effect": false, "check": CANARY}]);
    let report = with(
        names("a"),
        json!({"error": evidence(), "response": response, "partial_output": CANARY, "finish_reason": CANARY, "tool": CANARY,
            "step": CANARY, "steps": check, "started_at": CANARY}),
    );
    let told = ok(&world, Method::POST, "/v1/failures", &worker, report.clone()).await;
    assert!(!told.to_string().contains("ghp_"), "{told}");
    let again = world.work("/v1/failures", &report).await;
    assert_eq!(again.status, 200, "the same report again is recognised");

    let begun = ok(&world, Method::POST, "/v1/runs", &worker, with(names("b"), json!({"mode": "start"}))).await;
    let lease = begun["lease"].clone();
    let step = json!({"lease": lease, "name": "look", "effect": false, "status": "committed", "check": CANARY});
    ok(&world, Method::POST, "/v1/runs/b/steps", &worker, step).await;
    let fail = json!({"lease": lease, "error": evidence(), "response": response, "partial_output": CANARY, "tool": CANARY,
        "step": CANARY, "model": CANARY, "finish_reason": CANARY, "steps": check});
    ok(&world, Method::POST, "/v1/runs/b/fail", &worker, fail).await;
    let lease =
        ok(&world, Method::POST, "/v1/runs", &worker, json!({"run_id": "c", "mode": "start"})).await["lease"].clone();
    let success = json!({"lease": lease, "output": "ok", "finish_reason": CANARY});
    ok(&world, Method::POST, "/v1/runs/c/succeed", &worker, success).await;

    let why = json!({"reason": format!("because {CANARY}")});
    for (verb, more) in [
        ("note", json!({})),
        ("assign", json!({"to": "me"})),
        ("defer", json!({"until": "2030-01-01T00:00:00Z"})),
        ("replay", json!({"instruction": CANARY, "model": CANARY, "agent": CANARY})),
        ("cancel", json!({})),
        ("review", json!({})),
        ("reject", json!({})),
        ("resolve", json!({})),
    ] {
        let answered = world.post(&format!("/v1/runs/a/{verb}"), &tenant, with(why.clone(), more)).await;
        assert!(answered.status.is_success() || answered.status == 409, "{verb}: {}", answered.text);
    }
    let id = told["pattern"]["id"].as_str().unwrap();
    for verb in ["acknowledge", "note", "mute", "resolve"] {
        ok(&world, Method::POST, &format!("/v1/patterns/{id}/{verb}"), &tenant, why.clone()).await;
    }
    let open = with(why.clone(), json!({"action": "open"}));
    ok(&world, Method::POST, "/v1/tenants/acme/breaker", &world.operator, open).await;
    let bulk = json!({"action": "replay", "filter": {"tenant": "acme", "q": CANARY}, "dry_run": true, "reason": CANARY,
        "instruction": CANARY, "model": CANARY});
    ok(&world, Method::POST, "/v1/operations", &world.operator, bulk).await;
    ok(&world, Method::POST, "/v1/leases", &worker, json!({"queues": ["*"], "worker": CANARY})).await;
    ok(&world, Method::POST, "/v1/keys", &world.admin, json!({"role": "operator", "note": CANARY})).await;

    let found = everything(&world, &["a", "b", "c"]).await;
    assert!(found.contains(MARK));
    let around =
        |at: usize| found[found.floor_char_boundary(at.saturating_sub(120))..].chars().take(240).collect::<String>();
    assert_eq!(found.find("Canary9kQ2").map(around), None);
    assert!(!found.contains("secret-cookie-value") && !found.contains("Bearer anything"));
    assert!(!log.text().contains("Canary9kQ2"));
}

#[tokio::test]
async fn payloads_are_exact_in_the_api_and_masked_on_pages() {
    let world = World::new().await;
    let payload = json!({"note": CANARY, "n": 1});
    let report = json!({"run_id": "a", "payload": payload, "headers": {"x": CANARY}, "error": {"message": "m", "terminal": true}});
    ok(&world, Method::POST, "/v1/failures", &world.worker, report).await;
    let run = world.show("a").await;
    assert_eq!((&run["payload"], &run["headers"]["x"]), (&payload, &json!(CANARY)), "not configured: exact");
    let shown = pages(&world, &["a"]).await;
    assert!(shown.contains(MARK) && !shown.contains("Canary9kQ2"));
    // A mark in the editor stands for the stored value.
    let cookie = log_in(&world, &world.operator).await;
    let edited = format!("payload=%7B%22note%22%3A%22{MARK}%22%2C%22n%22%3A2%7D");
    let sent = crate::pages::send(&world, "/runs/acme/a/replay", &cookie, &edited).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    assert_eq!(world.show("a").await["payload"], json!({"note": CANARY, "n": 2}));
}

fn redacting() -> Policies {
    let names = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect());
    let redact = RedactLayer {
        secrets: Some(true),
        keys: names(&["ssn"]),
        pointers: names(&["/customer/email"]),
        ..RedactLayer::default()
    };
    let defaults = PolicyLayer { redact: Some(redact), ..PolicyLayer::default() };
    Policies { defaults, ..Policies::default() }
}

#[tokio::test]
async fn a_masked_payload_is_gone_and_needs_a_fix() {
    let world = World::under(redacting()).await;
    let report = json!({"run_id": "a", "headers": {"cookie": "sid=kanarek-header"}, "error": {"message": "m"},
        "response": {"body": r#"{"ssn":"kanarek-response"}"#},
        "payload": {"customer": {"email": "kanarek@mail"}, "SSN": "kanarek-ssn", "note": CANARY, "keep": "kept"}});
    let told = ok(&world, Method::POST, "/v1/failures", &world.worker, report.clone()).await;
    assert_eq!((&told["state"], &told["verdict"]["dead_because"]), (&json!("dead"), &json!("rejected")));
    assert_eq!(world.work("/v1/failures", &report).await.status, 200, "the digest is of what was sent");
    let run = world.show("a").await;
    assert_eq!(
        run["payload"],
        json!({"customer": {"email": "[redacted:pointer]"}, "SSN": "[redacted:key]", "note": MARK, "keep": "kept"})
    );
    let listed: Vec<&str> =
        run["redacted"].as_array().unwrap().iter().map(|part| part["at"].as_str().unwrap()).collect();
    assert_eq!(listed, ["/SSN", "/customer/email", "/note", "header:cookie"]);
    assert_eq!(run["replayable"], false);
    let told = &world;
    let replay = async |body: Value| told.post("/v1/runs/a/replay", &told.tenant, body).await.short();
    assert_eq!(replay(json!({})).await, (409, "not_replayable".into()));
    let half = json!({"fix": {"json_patch": [{"op": "replace", "path": "/SSN", "value": "1"}]}});
    assert_eq!(replay(half).await, (422, "invalid_field".into()));
    assert_eq!(replay(json!({"fix": {"payload": {"keep": "kept"}}})).await, (200, "scheduled".into()));
    let run = world.show("a").await;
    assert_eq!(
        (&run["replayable"], &run["redacted"]),
        (&json!(true), &json!([{"at": "header:cookie", "kind": "cookie"}]))
    );

    let lease = world.begin("b").await;
    let step =
        json!({"lease": lease, "name": "s", "effect": false, "status": "committed", "output": {"ssn": "kanarek-step"}});
    let step = ok(&world, Method::POST, "/v1/runs/b/steps", &world.worker, step).await;
    assert_eq!((&step["output"], step["output_omitted"]["bytes"].is_u64()), (&Value::Null, true));
    let success = json!({"lease": lease, "output": {"ssn": "kanarek-output", "total": 3}});
    ok(&world, Method::POST, "/v1/runs/b/succeed", &world.worker, success).await;
    assert_eq!(world.show("b").await["output"], json!({"ssn": "[redacted:key]", "total": 3}));
    let found = everything(&world, &["a", "b"]).await;
    assert_eq!(found.find("kanarek"), None);
    assert!(!found.contains("Canary9kQ2"));
}

#[tokio::test]
async fn a_queue_may_redact_and_its_neighbour_not() {
    let world = World::new().await;
    world.set_queue("private", json!({"retry_by": "caller", "policy": {"redact": {"keys": ["ssn"]}}})).await;
    for queue in ["private", "default"] {
        let report = json!({"run_id": queue, "queue": queue, "payload": {"ssn": 1}, "error": {"message": "m"}});
        ok(&world, Method::POST, "/v1/failures", &world.worker, report).await;
    }
    assert_eq!(world.show("private").await["payload"], json!({"ssn": "[redacted:key]"}));
    assert_eq!(world.show("default").await["payload"], json!({"ssn": 1}));
    assert_eq!(world.state("private").await, "scheduled", "its caller has the original");
    let sealed =
        world.call(Method::PUT, "/v1/queues/q", &world.admin, r#"{"policy":{"redact":{"mode":"seal"}}}"#).await;
    assert_eq!(sealed.status, 422);
    assert!(sealed.text.contains("seal needs [encryption]"), "{}", sealed.text);
}
