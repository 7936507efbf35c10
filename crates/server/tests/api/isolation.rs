//! Every route with every role and an object that is own, another tenant's, absent or malformed, from the table of routes.
//! Another tenant's object has to look absent. A route without a row here fails.

use std::collections::BTreeMap;

use http::Method;
use redrive_core::wire::Role;
use redrive_server::routes::table;
use redrive_server::ui;
use serde_json::{Map, Value, json};

use crate::bounds::{Part, Place, places};
use crate::pages::{log_in, visit};
use crate::world::{Answered, World};

/// How to call a route: its path with the object in it, and a valid body.
struct Row {
    path: fn(&Thing) -> String,
    body: fn(&Thing) -> String,
}

/// What a call is about.
struct Thing {
    tenant: &'static str,
    run: &'static str,
    pattern: String,
    lease: &'static str,
}

fn rows() -> BTreeMap<(&'static str, &'static str), Row> {
    let none: fn(&Thing) -> String = |_| String::new();
    let lease: fn(&Thing) -> String = |thing| format!(r#"{{"lease":"{}"}}"#, thing.lease);
    macro_rules! row {
        ($method:literal $path:literal, $to:expr, $body:expr) => {
            (($method, $path), Row { path: $to, body: $body })
        };
    }
    BTreeMap::from([
        row!("POST" "/v1/failures", |_| "/v1/failures".into(), |t| format!(r#"{{"run_id":"mine","tenant":"{}","error":{{"message":"m"}}}}"#, t.tenant)),
        row!("POST" "/v1/heartbeats", |_| "/v1/heartbeats".into(), |t| format!(r#"{{"leases":[{{"run_id":"{}","lease":"{}"}}]}}"#, t.run, t.lease)),
        row!("POST" "/v1/leases", |_| "/v1/leases".into(), |t| format!(r#"{{"queues":["none"],"tenant":"{}"}}"#, t.tenant)),
        row!("POST" "/v1/runs", |_| "/v1/runs".into(), |t| format!(r#"{{"run_id":"mine","mode":"enqueue","tenant":"{}"}}"#, t.tenant)),
        row!("POST" "/v1/preflight", |_| "/v1/preflight".into(), |t| format!(r#"{{"payload":1,"run_id":"{}","tenant":"{}"}}"#, t.run, t.tenant)),
        row!("POST" "/v1/runs/{run_id}/heartbeat", |t| format!("/v1/runs/{}/heartbeat", t.run), lease),
        row!("POST" "/v1/runs/{run_id}/steps", |t| format!("/v1/runs/{}/steps", t.run), |t| format!(r#"{{"lease":"{}","name":"s","status":"started"}}"#, t.lease)),
        row!("POST" "/v1/runs/{run_id}/succeed", |t| format!("/v1/runs/{}/succeed", t.run), lease),
        row!("POST" "/v1/runs/{run_id}/fail", |t| format!("/v1/runs/{}/fail", t.run), |t| format!(r#"{{"lease":"{}","error":{{"message":"m"}}}}"#, t.lease)),
        row!("POST" "/v1/runs/{run_id}/release", |t| format!("/v1/runs/{}/release", t.run), lease),
        row!("GET" "/v1/runs", |t| format!("/v1/runs?tenant={}", t.tenant), none),
        row!("GET" "/v1/runs/{run_id}", |t| format!("/v1/runs/{}", t.run), none),
        row!("GET" "/v1/runs/{run_id}/attempts/{attempt}/sent", |t| format!("/v1/runs/{}/attempts/1/sent", t.run), none),
        row!("GET" "/v1/effects/{key}", |t| format!("/v1/effects/{}:charge", t.run), none),
        row!("POST" "/v1/effects/{key}/reconcile", |t| format!("/v1/effects/{}:charge/reconcile", t.run), |_| r#"{"outcome":"committed"}"#.into()),
        row!("GET" "/v1/patterns", |t| format!("/v1/patterns?tenant={}", t.tenant), none),
        row!("GET" "/v1/patterns/{id}", |t| format!("/v1/patterns/{}", t.pattern), none),
        row!("GET" "/v1/tenants", |_| "/v1/tenants".into(), none),
        row!("GET" "/v1/tenants/{tenant}/health", |t| format!("/v1/tenants/{}/health", t.tenant), none),
        row!("GET" "/v1/tenants/{tenant}/breaker", |t| format!("/v1/tenants/{}/breaker", t.tenant), none),
        row!("POST" "/v1/tenants/{tenant}/breaker", |t| format!("/v1/tenants/{}/breaker", t.tenant), |_| r#"{"action":"close","reason":"r"}"#.into()),
        row!("POST" "/v1/breakers", |_| "/v1/breakers".into(), |_| r#"{"action":"close","reason":"r","model":"m"}"#.into()),
        row!("GET" "/v1/breakers", |t| format!("/v1/breakers?tenant={}", t.tenant), none),
        row!("GET" "/v1/health", |t| format!("/v1/health?tenant={}", t.tenant), none),
        row!("GET" "/v1/stats", |t| format!("/v1/stats?tenant={}", t.tenant), none),
        row!("GET" "/v1/changes", |t| format!("/v1/changes?tenant={}", t.tenant), none),
        row!("GET" "/v1/limits", |_| "/v1/limits".into(), none),
        row!("POST" "/v1/runs/{run_id}/replay", |t| format!("/v1/runs/{}/replay", t.run), none),
        row!("POST" "/v1/runs/{run_id}/cancel", |t| format!("/v1/runs/{}/cancel", t.run), none),
        row!("POST" "/v1/runs/{run_id}/resolve", |t| format!("/v1/runs/{}/resolve", t.run), none),
        row!("POST" "/v1/runs/{run_id}/discard", |t| format!("/v1/runs/{}/discard", t.run), none),
        row!("POST" "/v1/runs/{run_id}/note", |t| format!("/v1/runs/{}/note", t.run), |_| r#"{"reason":"n"}"#.into()),
        row!("POST" "/v1/runs/{run_id}/review", |t| format!("/v1/runs/{}/review", t.run), none),
        row!("POST" "/v1/runs/{run_id}/approve", |t| format!("/v1/runs/{}/approve", t.run), |_| r#"{"plan_hash":"h"}"#.into()),
        row!("POST" "/v1/runs/{run_id}/reject", |t| format!("/v1/runs/{}/reject", t.run), none),
        row!("POST" "/v1/runs/{run_id}/defer", |t| format!("/v1/runs/{}/defer", t.run), |_| r#"{"until":"2099-01-01T00:00:00Z"}"#.into()),
        row!("POST" "/v1/runs/{run_id}/reassign", |t| format!("/v1/runs/{}/reassign", t.run), |_| r#"{"agent":"a"}"#.into()),
        row!("POST" "/v1/runs/{run_id}/assign", |t| format!("/v1/runs/{}/assign", t.run), |_| r#"{"to":"ops"}"#.into()),
        row!("POST" "/v1/runs/{run_id}/merge", |t| format!("/v1/runs/{}/merge", t.run), |_| r#"{"into":"elsewhere"}"#.into()),
        row!("POST" "/v1/runs/{run_id}/unmerge", |t| format!("/v1/runs/{}/unmerge", t.run), none),
        row!("GET" "/v1/runs/{run_id}/plan", |t| format!("/v1/runs/{}/plan", t.run), none),
        row!("POST" "/v1/runs/{run_id}/plan", |t| format!("/v1/runs/{}/plan", t.run), |_| r#"{"fix":{"payload":1}}"#.into()),
        row!("GET" "/v1/runs/{run_id}/revisions/{revision}", |t| format!("/v1/runs/{}/revisions/1", t.run), none),
        row!("GET" "/v1/runs/{run_id}/duplicates", |t| format!("/v1/runs/{}/duplicates", t.run), none),
        row!("POST" "/v1/patterns/{id}/acknowledge", |t| format!("/v1/patterns/{}/acknowledge", t.pattern), none),
        row!("POST" "/v1/patterns/{id}/resolve", |t| format!("/v1/patterns/{}/resolve", t.pattern), |_| r#"{"in_version":{"worker":"v2"}}"#.into()),
        row!("POST" "/v1/patterns/{id}/mute", |t| format!("/v1/patterns/{}/mute", t.pattern), none),
        row!("POST" "/v1/patterns/{id}/assign", |t| format!("/v1/patterns/{}/assign", t.pattern), |_| r#"{"to":"ops"}"#.into()),
        row!("POST" "/v1/patterns/{id}/note", |t| format!("/v1/patterns/{}/note", t.pattern), |_| r#"{"reason":"n"}"#.into()),
        row!("POST" "/v1/patterns/{id}/merge", |t| format!("/v1/patterns/{}/merge", t.pattern), |t| format!(r#"{{"into":"{}"}}"#, t.pattern)),
        row!("POST" "/v1/patterns/{id}/unmerge", |t| format!("/v1/patterns/{}/unmerge", t.pattern), none),
        row!("POST" "/v1/operations", |_| "/v1/operations".into(), |_| r#"{"action":"resolve","filter":{"q":"no-such"},"dry_run":true}"#.into()),
        row!("GET" "/v1/operations", |_| "/v1/operations".into(), none),
        row!("GET" "/v1/operations/{id}", |t| format!("/v1/operations/{}", t.pattern), none),
        row!("GET" "/v1/operations/{id}/items", |t| format!("/v1/operations/{}/items", t.pattern), none),
        row!("POST" "/v1/operations/{id}/start", |t| format!("/v1/operations/{}/start", t.pattern), none),
        row!("POST" "/v1/operations/{id}/pause", |t| format!("/v1/operations/{}/pause", t.pattern), none),
        row!("POST" "/v1/operations/{id}/resume", |t| format!("/v1/operations/{}/resume", t.pattern), none),
        row!("POST" "/v1/operations/{id}/cancel", |t| format!("/v1/operations/{}/cancel", t.pattern), none),
        row!("GET" "/v1/queues", |_| "/v1/queues".into(), none),
        row!("GET" "/v1/queues/{name}", |_| "/v1/queues/default".into(), none),
        row!("PUT" "/v1/queues/{name}", |_| "/v1/queues/other".into(), |_| "{}".into()),
        row!("GET" "/v1/keys", |_| "/v1/keys".into(), none),
        row!("POST" "/v1/keys", |_| "/v1/keys".into(), |_| r#"{"role":"worker"}"#.into()),
        row!("DELETE" "/v1/keys/{id}", |_| "/v1/keys/none".into(), none),
        row!("GET" "/api/v1/dlq/{tenant}/messages", |t| format!("/api/v1/dlq/{}/messages", t.tenant), none),
        row!("POST" "/api/v1/dlq/{tenant}/messages/{run_id}/replay", |t| format!("/api/v1/dlq/{}/messages/{}/replay", t.tenant, t.run), none),
        row!("POST" "/api/v1/dlq/{tenant}/messages/{run_id}/abandon", |t| format!("/api/v1/dlq/{}/messages/{}/abandon", t.tenant, t.run), none),
        row!("GET" "/healthz", |_| "/healthz".into(), none),
        row!("GET" "/readyz", |_| "/readyz".into(), none),
        row!("GET" "/openapi.json", |_| "/openapi.json".into(), none),
        row!("GET" "/metrics", |_| "/metrics".into(), none),
    ])
}

/// The same names in two tenants, so that only the tenant can tell them apart.
async fn peopled() -> (World, Thing, Thing, Thing, Thing) {
    let world = World::new().await;
    let report = |run: &str, message: &str| format!(r#"{{"run_id":"{run}","error":{{"message":"{message}"}}}}"#);
    world.work("/v1/failures", report("ours", "ours broke here")).await;
    world.post("/v1/failures", &world.other_worker, report("theirs", "theirs broke there")).await;
    let in_doubt = |run: &str| {
        format!(
            r#"{{"run_id":"{run}-2","error":{{"message":"{run} broke"}},"steps":[{{"name":"charge","key":"{run}:charge","status":"started"}}]}}"#
        )
    };
    world.work("/v1/failures", in_doubt("ours")).await;
    world.post("/v1/failures", &world.other_worker, in_doubt("theirs")).await;
    let pattern =
        async |key: &str| world.get("/v1/patterns", key).await.get("patterns")[0]["id"].as_str().unwrap().to_owned();
    let (ours, theirs) = (pattern(&world.tenant).await, pattern(&world.other_tenant).await);
    let thing = |tenant, run, pattern: &str, lease| Thing { tenant, run, pattern: pattern.to_owned(), lease };
    let own = thing("acme", "ours", &ours, "l1-1-1-1");
    let other = thing("globex", "theirs", &theirs, "l2-1-1-1");
    let absent = thing("nobody", "absent", "ffffffffffffffff", "l2-1-1-1");
    let malformed = thing("a%20b", "a%20b", "a%20b", "l2-1-1-1");
    (world, own, other, absent, malformed)
}

async fn ask(world: &World, method: &Method, row: &Row, thing: &Thing, key: &str) -> Answered {
    world.call(method.clone(), &(row.path)(thing), key, (row.body)(thing)).await
}

fn keys(world: &World) -> [(Role, &str); 4] {
    [
        (Role::Worker, &world.worker),
        (Role::Tenant, &world.tenant),
        (Role::Operator, &world.operator),
        (Role::Admin, &world.admin),
    ]
}

#[test]
fn every_route_has_its_row_and_every_row_its_route() {
    let routes: Vec<(String, &str)> = table().iter().map(|r| (r.method.to_string(), r.path)).collect();
    let rows = rows();
    for (method, path) in &routes {
        assert!(rows.contains_key(&(method.as_str(), path)), "{method} {path} has no row in the isolation test");
    }
    assert_eq!(rows.len(), routes.len());
}

#[tokio::test]
async fn the_role_is_checked_before_anything_is_looked_up() {
    let (world, own, other, absent, malformed) = peopled().await;
    let rows = rows();
    for route in table() {
        let row = &rows[&(route.method.as_str(), route.path)];
        for (role, key) in keys(&world) {
            let may = route.roles.is_none_or(|roles| roles.contains(&role));
            for thing in [&own, &other, &absent, &malformed] {
                let answered = ask(&world, &route.method, row, thing, key).await;
                let plain_api_of_another = route.path.starts_with("/api/") && thing.tenant != "acme";
                let refused = answered.status == 403;
                let what = format!("{} {} as {role}: {}", route.method, route.path, answered.text);
                assert!(answered.status.as_u16() != 500, "{what}");
                assert!(refused || may, "{what}");
                assert!(!refused || !may || plain_api_of_another, "{what}");
            }
            let stranger = ask(&world, &route.method, row, &own, "").await;
            assert_eq!(stranger.status == 401, route.roles.is_some(), "{} {}", route.method, route.path);
        }
    }
}

#[tokio::test]
async fn another_tenants_things_look_absent() {
    let (world, _, other, absent, _) = peopled().await;
    let rows = rows();
    for route in table() {
        let row = &rows[&(route.method.as_str(), route.path)];
        for (role, key) in [(Role::Worker, &world.worker), (Role::Tenant, &world.tenant)] {
            let theirs = ask(&world, &route.method, row, &other, key).await;
            let nothing = ask(&world, &route.method, row, &absent, key).await;
            let what = format!("{} {} as {role}", route.method, route.path);
            assert_eq!(theirs.status, nothing.status, "{what}: {} {}", theirs.text, nothing.text);
            if theirs.status.is_client_error() {
                assert_eq!(theirs.text, nothing.text, "{what}");
            }
            assert!(!theirs.text.contains("theirs broke"), "{what}");
        }
    }
    let shown = world.get("/v1/runs/theirs?tenant=globex", &world.operator).await.json();
    assert_eq!((&shown["state"], shown["attempts"].as_array().map(Vec::len)), (&Value::from("scheduled"), Some(1)));
    let effect = world.get("/v1/effects/theirs:charge?tenant=globex", &world.operator).await;
    assert_eq!(effect.get("status"), "unknown");
}

/// Numbers at the edges of integer types, and those that a packed id would spill over.
const INTEGERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "1000000",
    "1000001",
    "1048575",
    "1048576",
    "1048578",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
];

/// Texts that name another tenant's objects, end a text early, or mean something to a store or a page.
fn texts(other: &Thing) -> Vec<String> {
    let odd = [
        "",
        " ",
        ".",
        "..",
        "*",
        "%",
        "_",
        "'",
        "\"",
        "\\",
        "\0",
        "\u{202e}",
        "<b>",
        "null",
        "a,b",
        "theirs:charge",
        "l2-1-1-1",
    ];
    let long = ["x".repeat(200), "x".repeat(201), "é".repeat(101), "x".repeat(1_001)];
    let named = [other.tenant, other.run, &other.pattern].map(str::to_owned);
    odd.into_iter().map(str::to_owned).chain(INTEGERS.map(str::to_owned)).chain(named).chain(long).collect()
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// A path with the same text in each of its parameters in turn.
fn paths(path: &str, texts: &[String]) -> Vec<String> {
    let places: Vec<&str> = path.split('/').filter(|part| part.starts_with('{')).collect();
    let plausible = |path: String| {
        let names = [
            ("{tenant}", "acme"),
            ("{run_id}", "ours"),
            ("{attempt}", "1"),
            ("{revision}", "1"),
            ("{key}", "ours:charge"),
        ];
        let path = names.iter().fold(path, |path, (place, name)| path.replace(place, name));
        path.replace("{id}", "1-0000000000000000").replace("{name}", "default")
    };
    let with =
        |place: &str| texts.iter().map(move |text| plausible(path.replace(place, &encoded(text)))).collect::<Vec<_>>();
    places.into_iter().flat_map(with).collect()
}

/// The body of a row with one value more, or another one, in this place.
fn with_value(body: &str, place: &Place, value: &Value) -> Option<String> {
    let mut whole: Value = serde_json::from_str(body).unwrap_or_else(|_| json!({}));
    let mut at = &mut whole;
    for part in &place.path {
        let name = match part {
            Part::Field(name) => name.clone(),
            Part::Entry => "x".to_owned(),
            Part::Name => value.as_str()?.to_owned(),
            Part::Item => {
                if !at.is_array() {
                    *at = json!([null]);
                }
                at = at.get_mut(0)?;
                continue;
            }
        };
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = at.as_object_mut()?.entry(name).or_insert(Value::Null);
    }
    *at = value.clone();
    Some(whole.to_string())
}

/// Every path, query and body of a route, with each of its strings and numbers at the edges.
fn edges(
    method: &Method,
    path: &str,
    row: &Row,
    own: &Thing,
    other: &Thing,
    document: &Value,
) -> Vec<(String, String)> {
    let texts = texts(other);
    let (plain, body) = ((row.path)(own), (row.body)(own));
    let mut calls: Vec<(String, String)> = paths(path, &texts).into_iter().map(|path| (path, body.clone())).collect();
    let bare = plain.split('?').next().unwrap_or_default();
    let described = &document["paths"][path][method.as_str().to_lowercase()];
    for parameter in described["parameters"].as_array().into_iter().flatten().filter(|p| p["in"] == "query") {
        let name = parameter["name"].as_str().unwrap();
        calls.extend(texts.iter().map(|text| (format!("{bare}?{name}={}", encoded(text)), body.clone())));
    }
    let route = format!("{method} {path}");
    for place in places(document).into_iter().filter(|place| place.route == route && !place.path.is_empty()) {
        let numbers = INTEGERS.iter().map(|number| serde_json::from_str(number).unwrap());
        let values: Vec<Value> = match () {
            () if place.is("integer") || place.is("number") => numbers.collect(),
            () if place.is("string") => texts.iter().map(|text| json!(text)).collect(),
            () => continue,
        };
        calls.extend(values.iter().filter_map(|value| Some((plain.clone(), with_value(&body, &place, value)?))));
    }
    calls
}

/// The other tenant's state.
async fn others_things(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["/v1/runs/theirs", "/v1/runs/theirs-2", "/v1/runs", "/v1/patterns", "/v1/effects/theirs:charge"] {
        let mut shown = world.get(&format!("{path}?tenant=globex"), &world.operator).await.json();
        shown.as_object_mut().unwrap().remove("next_cursor");
        all.push(shown);
    }
    all
}

#[tokio::test]
async fn no_value_at_any_edge_reaches_another_tenant() {
    let (world, own, other, _, _) = peopled().await;
    let (rows, document) = (rows(), redrive_server::openapi());
    let before = others_things(&world).await;
    let mut calls = 0;
    for route in table() {
        let row = &rows[&(route.method.as_str(), route.path)];
        let may = |role| route.roles.is_some_and(|roles| roles.contains(&role));
        let key = match (may(Role::Tenant), may(Role::Worker)) {
            (true, _) => &world.tenant,
            (false, true) => &world.worker,
            (false, false) => continue,
        };
        for (path, body) in edges(&route.method, route.path, row, &own, &other, &document) {
            let answered = world.call(route.method.clone(), &path, key, body.clone()).await;
            let what = format!("{} {path} {body}: {} {}", route.method, answered.status, answered.text);
            assert!(!answered.status.is_server_error(), "{what}");
            assert!(!answered.text.contains("theirs broke"), "{what}");
            calls += 1;
        }
    }
    assert!(calls > 3_000, "{calls}");
    assert_eq!(others_things(&world).await, before);
}

#[tokio::test]
async fn no_value_at_any_edge_is_the_servers_fault() {
    let (world, own, other, _, _) = peopled().await;
    let (rows, document) = (rows(), redrive_server::openapi());
    for route in table() {
        let for_operators = route.roles.is_some_and(|r| !r.contains(&Role::Tenant) && !r.contains(&Role::Worker));
        if !for_operators {
            continue;
        }
        let row = &rows[&(route.method.as_str(), route.path)];
        for (path, body) in edges(&route.method, route.path, row, &own, &other, &document) {
            let answered = world.call(route.method.clone(), &path, &world.admin, body.clone()).await;
            assert!(!answered.status.is_server_error(), "{} {path} {body}: {}", route.method, answered.text);
        }
    }
}

#[tokio::test]
async fn no_page_at_any_edge_shows_another_tenant() {
    let (world, _, other, _, _) = peopled().await;
    let cookie = log_in(&world, &world.tenant).await;
    let texts = texts(&other);
    for page in ui::table().iter().filter(|page| page.asks && page.method == Method::GET) {
        for path in paths(page.path, &texts) {
            let answered = visit(&world, Method::GET, &path, &cookie).await;
            assert!(!answered.status.is_server_error(), "{path}: {}", answered.text);
            assert!(!answered.text.contains("theirs broke"), "{path}: {}", answered.text);
        }
    }
}
