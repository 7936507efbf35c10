//! Scopes, queues, rotation, use and guessing of keys.

use axum::body::Body;
use http::{Method, Request, header};
use redrive_core::access::{KeyLimits, KeyScope};
use redrive_core::wire::Role;
use redrive_engine::KeyRecord;
use redrive_server::ClientAddress;
use redrive_server::auth::{WRONG_KEYS_MAX, WRONG_KEYS_WINDOW_MS, new_key, new_secret};
use serde_json::{Value, json};

use crate::pages::{log_in, visit};
use crate::world::{Answered, World};

/// A key of acme (or of all, by its role) with these limits.
pub async fn limited(world: &World, role: Role, scopes: &[KeyScope], queues: &[&str]) -> String {
    let (secret, record) = new_key(world.dice.as_ref(), role, Some("acme".parse().unwrap()), world.store.now());
    let limits = KeyLimits {
        scopes: (!scopes.is_empty()).then(|| scopes.iter().copied().collect()),
        queues: (!queues.is_empty()).then(|| queues.iter().map(|name| name.parse().unwrap()).collect()),
    };
    world.store.put_key(KeyRecord { limits, ..record }, "admin:ops".into()).await.unwrap();
    secret
}

async fn report(world: &World, run: &str, queue: &str) -> Answered {
    let body = format!(
        r#"{{"run_id":"{run}","queue":"{queue}","payload":{{"n":1}},"error":{{"message":"boom","terminal":true}}}}"#
    );
    world.work("/v1/failures", body).await
}

#[tokio::test]
async fn a_refused_scope_is_named_with_what_the_key_has() {
    let world = World::new().await;
    world.kill("r1").await;
    let reader = limited(&world, Role::Tenant, &[KeyScope::Read], &[]).await;
    assert_eq!(world.get("/v1/runs/r1", &reader).await.status, 200);
    let refused = world.post("/v1/runs/r1/replay", &reader, "").await;
    assert_eq!(refused.short(), (403, "missing_scope".into()));
    assert_eq!((refused.get("needed"), refused.get("held")), (json!(["triage"]), json!(["read"])));
    // The role is checked first, and nothing is looked up before either.
    assert_eq!(world.get("/v1/keys", &reader).await.short(), (403, "forbidden".into()));
    assert_eq!(world.post("/v1/runs/absent/replay", &reader, "").await.short(), (403, "missing_scope".into()));
}

#[tokio::test]
async fn a_patch_needs_a_key_that_reads_payloads() {
    let world = World::new().await;
    world.kill("r1").await;
    let key = limited(&world, Role::Operator, &[KeyScope::Read, KeyScope::Triage, KeyScope::Bulk], &[]).await;
    let probe = json!({"tenant": "acme", "fix": {"json_patch": [{"op": "test", "path": "/n", "value": 1}]}});
    for path in ["/v1/runs/r1/plan", "/v1/runs/r1/replay"] {
        let refused = world.post(path, &key, probe.clone()).await;
        assert_eq!((refused.short(), refused.get("needed")), ((403, "missing_scope".into()), json!(["read:payload"])));
    }
    let bulk = json!({"action": "replay", "all": true, "dry_run": true, "fix": probe["fix"]});
    assert_eq!(world.post("/v1/operations", &key, bulk).await.short(), (403, "missing_scope".into()));
    assert_eq!(world.post("/v1/runs/r1/plan", &world.operator, probe).await.status, 200);
}

/// Templates mask it.
const CANARY: &str = "7f3a9c51-3b1e-4d2a-9f00-5c6d7e8f9a0b";

/// A run with the canary in everything that a payload or an error can hold.
async fn with_canaries(world: &World) {
    let lease = world
        .work("/v1/runs", json!({"run_id": "r1", "mode": "start", "resumable": true, "payload": {"secret": CANARY}, "headers": {"x-secret": CANARY}}))
        .await
        .get("lease");
    let step = json!({"lease": lease, "name": "charge", "key": "charge:1", "effect": true, "status": "committed", "output": {"receipt": CANARY}});
    assert_eq!(world.work("/v1/runs/r1/steps", step).await.status, 200);
    let failed = json!({
        "lease": lease,
        "error": {"type": "ValidationError", "message": format!("bad {CANARY}"), "detail": CANARY, "headers": {"x": CANARY}, "reason": "schema_mismatch"},
        "response": {"status": 500, "headers": {"x": CANARY}, "body": CANARY},
        "partial_output": CANARY,
    });
    assert_eq!(world.work("/v1/runs/r1/fail", failed).await.status, 200);
}

#[tokio::test]
async fn reading_without_payloads_hides_what_agents_sent() {
    let world = World::new().await;
    with_canaries(&world).await;
    let reader = limited(&world, Role::Tenant, &[KeyScope::Read], &[]).await;
    let whole = limited(&world, Role::Tenant, &[KeyScope::ReadPayload], &[]).await;
    for path in ["/v1/runs/r1", "/v1/effects/charge:1"] {
        let (hidden, shown) = (world.get(path, &reader).await, world.get(path, &whole).await);
        assert_eq!((hidden.status.as_u16(), hidden.get("payload_hidden")), (200, json!(true)), "{path}");
        assert!(!hidden.text.contains(CANARY), "{path}: {}", hidden.text);
        assert!(shown.text.contains(CANARY) && shown.get("payload_hidden").is_null(), "{path}: {}", shown.text);
    }
    let run = world.get("/v1/runs/r1", &reader).await.json();
    assert_eq!(run["attempts"][0]["error"]["type"], "ValidationError");
    for path in ["/v1/runs", "/v1/runs/r1/plan", "/v1/runs/r1/duplicates", "/v1/changes", "/v1/patterns"] {
        let answered = world.get(path, &reader).await;
        assert_eq!(answered.status, 200, "{path}: {}", answered.text);
        assert!(!answered.text.contains(CANARY), "{path}: {}", answered.text);
    }
    for path in ["/v1/runs/r1/revisions/1", "/v1/runs/r1/attempts/1/sent"] {
        assert_eq!(world.get(path, &reader).await.get("needed"), json!(["read:payload"]), "{path}");
    }
}

#[tokio::test]
async fn pages_hide_payloads_from_keys_without_the_scope() {
    let world = World::new().await;
    with_canaries(&world).await;
    let reader = limited(&world, Role::Tenant, &[KeyScope::Read], &[]).await;
    let (hidden, shown) = (log_in(&world, &reader).await, log_in(&world, &world.tenant).await);
    let page = async |cookie: &str, path: &str| visit(&world, Method::GET, path, cookie).await;
    let run = page(&hidden, "/runs/acme/r1").await;
    assert!(run.status == 200 && run.text.contains("may read runs but not payloads"), "{}", run.text);
    assert!(!run.text.contains(CANARY), "{}", run.text);
    assert!(page(&shown, "/runs/acme/r1").await.text.contains(CANARY));
    for path in ["/runs/acme/r1/payload", "/runs/acme/r1/fix", "/runs/acme/r1/attempts/1"] {
        let refused = page(&hidden, path).await;
        assert!(refused.status == 403 && !refused.text.contains(CANARY), "{path}");
    }
}

#[tokio::test]
async fn a_key_for_queues_sees_and_moves_only_their_runs() {
    let world = World::new().await;
    for (run, queue) in [("ours", "a"), ("theirs", "b")] {
        assert_eq!(report(&world, run, queue).await.status, 201);
    }
    let key = limited(&world, Role::Tenant, &[], &["a"]).await;
    let listed = world.get("/v1/runs", &key).await.json();
    assert_eq!((listed["runs"].as_array().unwrap().len(), &listed["total"]), (1, &json!(1)));
    assert_eq!(world.get("/v1/runs?queue=b", &key).await.short(), (403, "queue_not_allowed".into()));
    assert_eq!(world.get("/api/v1/dlq/acme/messages", &key).await.get("total"), 1);
    assert_eq!(world.get("/v1/runs/ours", &key).await.status, 200);
    let (theirs, absent) = (world.get("/v1/runs/theirs", &key).await, world.get("/v1/runs/absent", &key).await);
    assert_eq!((theirs.status.as_u16(), &theirs.text), (404, &absent.text));
    let moved = world.post("/v1/runs/ours/reassign", &key, json!({"queue": "b"})).await;
    assert_eq!((moved.short(), moved.get("allowed")), ((403, "queue_not_allowed".into()), json!(["a"])));
    let merged = world.post("/v1/runs/ours/merge", &key, json!({"into": "theirs"})).await;
    assert_eq!(merged.short(), (404, "not_found".into()));
    assert_eq!(world.get("/v1/patterns", &key).await.short(), (403, "queue_not_allowed".into()));
    assert_eq!(world.post("/v1/runs/ours/resolve", &key, "").await.status, 200);
    assert_eq!(world.state("theirs").await, "dead");
}

#[tokio::test]
async fn a_worker_key_for_queues_reports_and_leases_only_there() {
    let world = World::new().await;
    for queue in ["a", "b"] {
        let body = format!(r#"{{"run_id":"due-{queue}","queue":"{queue}","mode":"enqueue"}}"#);
        assert_eq!(world.work("/v1/runs", body).await.status, 201);
    }
    let key = limited(&world, Role::Worker, &[], &["a"]).await;
    let failure = |run: &str, queue: &str| json!({"run_id": run, "queue": queue, "error": {"message": "m"}});
    let refused = world.post("/v1/failures", &key, failure("new", "b")).await;
    assert_eq!((refused.short(), refused.get("queue")), ((403, "queue_not_allowed".into()), json!("b")));
    // A run of another queue is not reported on under an allowed name either.
    assert_eq!(
        world.post("/v1/failures", &key, failure("due-b", "a")).await.short(),
        (403, "queue_not_allowed".into())
    );
    assert_eq!(world.post("/v1/failures", &key, failure("new", "a")).await.status, 201);
    let start = json!({"run_id": "started", "queue": "b", "mode": "start"});
    assert_eq!(world.post("/v1/runs", &key, start).await.short(), (403, "queue_not_allowed".into()));

    let lines = format!("{}\n{}\n", failure("l1", "a"), failure("l2", "b"));
    let request = crate::world::request(Method::POST, "/v1/failures", &key, lines);
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, "application/x-ndjson".parse().unwrap());
    let answered = world.send(Request::from_parts(parts, body)).await;
    let statuses: Vec<Value> =
        answered.text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["status"].clone()).collect();
    assert_eq!(statuses, [201, 403], "{}", answered.text);

    let leased = world.post("/v1/leases", &key, json!({"queues": ["*"], "max": 10})).await.get("leases");
    let runs: Vec<&str> = leased.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert_eq!(runs, ["due-a"]);
    let refused = world.post("/v1/leases", &key, json!({"queues": ["a", "b"]})).await;
    assert_eq!(refused.short(), (403, "queue_not_allowed".into()));
}

#[tokio::test]
async fn operations_stay_in_the_queues_of_the_key() {
    let world = World::new().await;
    for (run, queue) in [("ours", "a"), ("theirs", "b")] {
        report(&world, run, queue).await;
    }
    let key = limited(&world, Role::Operator, &[], &["a"]).await;
    let resolve = |filter: Value| json!({"action": "resolve", "filter": filter, "dry_run": true});
    let allowed = world.post("/v1/operations", &key, resolve(json!({"queue": "a"}))).await;
    assert_eq!((allowed.status.as_u16(), allowed.get("matched")), (201, json!(1)), "{}", allowed.text);
    for filter in [json!({"state": "dead"}), json!({"queue": "b"}), json!({"queue": "a,b"})] {
        let refused = world.post("/v1/operations", &key, resolve(filter.clone())).await;
        assert_eq!(refused.short(), (403, "queue_not_allowed".into()), "{filter}");
    }
    let named = json!({"action": "resolve", "ids": ["theirs"], "filter": {"tenant": "acme"}});
    assert_eq!(world.post("/v1/operations", &key, named).await.short(), (403, "queue_not_allowed".into()));
    let others = world.post("/v1/operations", &world.operator, resolve(json!({"queue": "b"}))).await.get("id");
    let (own, others) = (allowed.get("id"), others.as_str().unwrap().to_owned());
    let at = |id: &str, verb: &str| format!("/v1/operations/{id}{verb}");
    assert_eq!(world.get(&at(own.as_str().unwrap(), ""), &key).await.status, 200);
    for answered in [
        world.get(&at(&others, ""), &key).await,
        world.get(&at(&others, "/items"), &key).await,
        world.post(&at(&others, "/start"), &key, "").await,
    ] {
        assert_eq!(answered.short(), (404, "not_found".into()));
    }
}

#[tokio::test]
async fn a_key_for_queues_opens_no_page() {
    let world = World::new().await;
    let key = limited(&world, Role::Tenant, &[], &["a"]).await;
    let refused = crate::pages::post(&world, "/login", "", &format!("key={key}"), None).await;
    assert!(refused.status == 403 && !refused.headers.contains_key("set-cookie"), "{}", refused.text);
}

#[tokio::test]
async fn a_key_is_rotated_with_an_overlap() {
    let world = World::new().await;
    let create = json!({"role": "worker", "tenant": "acme", "name": "ci", "scopes": ["ingest"], "queues": ["a"]});
    let made = world.post("/v1/keys", &world.admin, create).await.json();
    let (id, old) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let path = format!("/v1/keys/{id}/rotate");
    let rotated = world.post(&path, &world.admin, json!({"overlap_ms": 60_000})).await;
    assert_eq!(rotated.status, 201, "{}", rotated.text);
    let (new_id, new) = (rotated.get("id"), rotated.get("key").as_str().unwrap().to_owned());
    for key in [old, &new] {
        assert_eq!(world.get("/v1/limits", key).await.status, 200);
    }
    world.wait(60_000);
    assert_eq!(world.get("/v1/limits", old).await.short(), (401, "unauthorized".into()));
    assert_eq!(world.get("/v1/limits", &new).await.status, 200);

    let listed = world.get("/v1/keys", &world.admin).await;
    let keys = listed.get("keys");
    let successor = keys.as_array().unwrap().iter().find(|key| key["id"] == new_id).unwrap();
    let kept = ["lineage", "name", "scopes", "queues", "tenant"].map(|field| successor[field].clone());
    assert_eq!(kept, [json!(id), json!("ci"), json!(["ingest"]), json!(["a"]), json!("acme")]);
    assert!(successor["created_by"].as_str().unwrap().starts_with("admin:key-"));
    assert!(!listed.text.contains(&new[4..]));

    assert_eq!(world.post(&path, &world.admin, "").await.short(), (409, "key_ended".into()));
    assert_eq!(world.post("/v1/keys/none/rotate", &world.admin, "").await.short(), (404, "not_found".into()));
    let again = world.post(&format!("/v1/keys/{}/rotate", new_id.as_str().unwrap()), &world.admin, "").await;
    assert_eq!(again.status, 201);
    assert_eq!(world.get("/v1/limits", &new).await.status, 401);
}

#[tokio::test]
async fn bad_limits_of_a_key_are_refused_by_name() {
    let world = World::new().await;
    let many: Vec<String> = (0..101).map(|n| format!("q{n}")).collect();
    for (field, value) in [
        ("scopes", json!([])),
        ("scopes", json!(["fly"])),
        ("queues", json!([])),
        ("queues", json!(["a b"])),
        ("queues", json!(many)),
    ] {
        let mut body = json!({"role": "worker"});
        body[field] = value;
        let refused = world.post("/v1/keys", &world.admin, &body).await;
        assert_eq!(refused.status, 422, "{body}: {}", refused.text);
        assert!(refused.get("field").as_str().unwrap().starts_with(field), "{}", refused.text);
    }
    let long = world.post("/v1/keys/x/rotate", &world.admin, json!({"overlap_ms": 2_592_000_001_u64})).await;
    assert_eq!((long.status.as_u16(), long.get("field")), (422, json!("overlap_ms")));
}

#[tokio::test]
async fn another_replica_refuses_a_revoked_key_within_a_second() {
    let world = World::new().await;
    let other = world.replica().await;
    let made = world.post("/v1/keys", &world.admin, json!({"role": "worker"})).await.json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert_eq!(other.get("/v1/limits", secret).await.status, 200);
    let revoked = world.call(Method::DELETE, &format!("/v1/keys/{id}"), &world.admin, "").await;
    assert_eq!(revoked.status, 200);
    world.wait(999);
    assert_eq!(other.get("/v1/limits", secret).await.short(), (401, "unauthorized".into()));
}

#[tokio::test]
async fn the_last_use_is_written_once_a_minute() {
    let world = World::new().await;
    let made = world.post("/v1/keys", &world.admin, json!({"role": "worker"})).await.json();
    let secret = made["key"].as_str().unwrap();
    let used = async || {
        world.app.write_key_uses().await.unwrap();
        let keys = world.get("/v1/keys", &world.admin).await.get("keys");
        keys.as_array().unwrap().iter().find(|key| key["id"] == made["id"]).unwrap()["last_used_at"].clone()
    };
    assert_eq!(used().await, Value::Null);
    world.get("/v1/limits", secret).await;
    let first = used().await;
    assert_eq!(first, json!(world.store.now().to_string()));
    world.wait(30_000);
    world.get("/v1/limits", secret).await;
    assert_eq!(used().await, first);
    world.wait(30_000);
    world.get("/v1/limits", secret).await;
    assert_eq!(used().await, json!(world.store.now().to_string()));
}

async fn ask_from(world: &World, address: &str, key: &str) -> Answered {
    let mut request = crate::world::request(Method::GET, "/v1/limits", key, Body::empty());
    request.extensions_mut().insert(ClientAddress::new(address.parse().unwrap()));
    world.send(request).await
}

#[tokio::test]
async fn a_guessing_address_is_throttled_and_valid_keys_are_not() {
    let world = World::new().await;
    let guess = || new_secret(world.dice.as_ref()).0;
    for _ in 0..WRONG_KEYS_MAX {
        assert_eq!(ask_from(&world, "192.0.2.1", &guess()).await.short(), (401, "unauthorized".into()));
    }
    let refused = ask_from(&world, "192.0.2.1", &guess()).await;
    assert_eq!(refused.short(), (429, "too_many_wrong_keys".into()));
    assert_eq!(refused.headers["retry-after"], "60");
    // Neither a known key nor one that this server has never seen is refused for its neighbour.
    let fresh = limited(&world, Role::Worker, &[], &[]).await;
    world.wait(500);
    for key in [&world.worker, &fresh, &world.admin] {
        assert_eq!(ask_from(&world, "192.0.2.1", key).await.status, 200);
    }
    assert_eq!(ask_from(&world, "192.0.2.2", &guess()).await.status, 401);
    let metrics = world.get("/metrics", &world.operator).await.text;
    assert!(metrics.contains("redrive_wrong_keys_throttled_total 1\n"), "{metrics}");
    assert!(metrics.contains("redrive_wrong_keys_total 22\n"), "{metrics}");
    world.wait(WRONG_KEYS_WINDOW_MS);
    assert_eq!(ask_from(&world, "192.0.2.1", &guess()).await.status, 401);
}
