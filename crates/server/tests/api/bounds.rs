//! Every string, list, map and number of every request has a maximum. Made from the API's description: a request type
//! that gets a field without one fails here, and so does a bound that is not checked.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Map, Value, json};

use crate::world::{Answered, World};

/// A place in a body, and what the schema says about it.
#[derive(Debug, Clone)]
pub struct Place {
    pub route: String,
    pub path: Vec<Part>,
    schema: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub enum Part {
    Field(String),
    Item,
    /// A value of a map.
    Entry,
    /// A name of a map.
    Name,
}

impl Place {
    fn under(&self, part: Part, schema: &Value, document: &Value) -> Vec<Self> {
        let mut path = self.path.clone();
        path.push(part);
        alternatives(schema, document)
            .into_iter()
            .map(|schema| Self { path: path.clone(), schema, ..self.clone() })
            .collect()
    }

    pub fn name(&self) -> String {
        let parts = self.path.iter().map(|part| match part {
            Part::Field(name) => format!(".{name}"),
            Part::Item => "[]".into(),
            Part::Entry => ".*".into(),
            Part::Name => ".(name)".into(),
        });
        format!("{} {}", self.route, parts.collect::<String>())
    }

    pub fn is(&self, kind: &str) -> bool {
        match self.schema.get("type") {
            Some(Value::String(one)) => one == kind,
            Some(Value::Array(many)) => many.iter().any(|one| one == kind),
            _ => false,
        }
    }

    fn size(&self, key: &str) -> Option<usize> {
        self.schema.get(key)?.as_u64().map(|n| usize::try_from(n).unwrap())
    }

    /// The body with this value in its field, as text, and the name of the field in a problem.
    fn body(&self, value: String) -> (String, String) {
        let (mut text, mut field) = (value, String::new());
        for part in self.path.iter().rev() {
            (text, field) = match part {
                Part::Field(name) => (format!("{{{}:{text}}}", json!(name)), format!(".{name}{field}")),
                Part::Item => (format!("[{text}]"), format!("[0]{field}")),
                Part::Entry => (format!("{{\"x\":{text}}}"), format!(".x{field}")),
                Part::Name => (format!("{{{text}:\"v\"}}"), format!(".{}", text.trim_matches('"'))),
            };
        }
        let field = field.trim_start_matches('.');
        (text, field[..field.floor_char_boundary(200)].to_owned())
    }
}

/// What a schema may be: its references followed, its alternatives one by one.
fn alternatives(schema: &Value, document: &Value) -> Vec<Map<String, Value>> {
    let Value::Object(map) = schema else { return vec![Map::new()] };
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        return alternatives(document.pointer(target.trim_start_matches('#')).unwrap(), document);
    }
    match ["anyOf", "oneOf"].iter().find_map(|key| map.get(*key)?.as_array()) {
        Some(many) if !map.contains_key("type") => many.iter().flat_map(|one| alternatives(one, document)).collect(),
        _ => vec![map.clone()],
    }
}

/// Every value of every body that the API takes.
pub fn places(document: &Value) -> Vec<Place> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let contents = operation["requestBody"]["content"].as_object().into_iter().flatten();
            for (media, content) in contents.filter(|(media, _)| *media == "application/json") {
                assert_eq!(media, "application/json");
                for schema in alternatives(&content["schema"], document) {
                    let route = format!("{} {path}", method.to_uppercase());
                    walk(Place { route, path: Vec::new(), schema }, document, &mut found);
                }
            }
        }
    }
    found
}

fn walk(place: Place, document: &Value, found: &mut Vec<Place>) {
    let schema = &place.schema;
    let mut inner = Vec::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        inner.extend(place.under(Part::Field(name.clone()), field, document));
    }
    if let Some(items) = schema.get("items") {
        inner.extend(place.under(Part::Item, items, document));
    }
    let patterns = schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    for values in patterns.chain(schema.get("additionalProperties").filter(|values| values.is_object())) {
        inner.extend(place.under(Part::Entry, values, document));
    }
    if let Some(names) = schema.get("propertyNames") {
        let mut names = names.clone();
        names["type"] = "string".into();
        inner.extend(place.under(Part::Name, &names, document));
    }
    found.push(place);
    inner.into_iter().for_each(|place| walk(place, document, found));
}

/// What a value without its own maximum lacks.
fn lacks(place: &Place) -> Option<&'static str> {
    let has = |keys: &[&str]| keys.iter().any(|key| place.schema.contains_key(*key));
    if has(&["x-bounded-by", "enum", "const"]) {
        return None;
    }
    let map = place.is("object") && !place.schema.contains_key("properties");
    let checks = [
        (place.is("string") && !has(&["maxLength", "x-cut-bytes"]), "maxLength"),
        (place.is("array") && !has(&["maxItems"]), "maxItems"),
        (map && !has(&["maxProperties", "x-cut-properties"]), "maxProperties"),
        (map && !has(&["propertyNames", "patternProperties"]), "propertyNames"),
        ((place.is("integer") || place.is("number")) && !has(&["maximum"]), "maximum"),
        (!has(&["type", "anyOf", "oneOf"]), "type"),
    ];
    checks.into_iter().find_map(|(lacking, what)| lacking.then_some(what))
}

#[test]
fn every_part_of_a_request_has_a_maximum() {
    let document = redrive_server::openapi();
    let all = places(&document);
    assert!(all.len() > 500, "{}", all.len());
    let lacking: Vec<String> = all.iter().filter_map(|p| Some(format!("{}: no {}", p.name(), lacks(p)?))).collect();
    assert!(lacking.is_empty(), "{lacking:#?}");
    let paths =
        document["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
    for parameter in paths.flat_map(|operation| operation["parameters"].as_array().unwrap()) {
        let schema = &parameter["schema"];
        let bound = if schema["type"] == "integer" { "maximum" } else { "maxLength" };
        assert!(schema[bound].is_u64(), "{parameter}");
    }
}

/// Free JSON and bytes: nothing else may go without a bound of its own.
#[test]
fn only_payloads_patches_and_outputs_are_free() {
    let document = redrive_server::openapi();
    let free = places(&document).into_iter().filter(|place| place.schema.contains_key("x-bounded-by"));
    let names: BTreeSet<String> = free
        .filter_map(|place| match place.path.last() {
            Some(Part::Field(name)) => Some(name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["output", "output_schema", "payload", "payload_base64", "value"].map(String::from).into());
}

/// Values at a bound and one beyond it.
fn around(place: &Place) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let text = |bytes: usize| json!("1".repeat(bytes)).to_string();
    if let Some(max) = place.size("maxLength") {
        pairs.push((text(max), text(max + 1)));
    }
    if let Some(max) = place.size("maxItems") {
        let list = |items: usize| format!("[{}]", vec!["null"; items].join(","));
        pairs.push((list(max), list(max + 1)));
    }
    if let Some(max) = place.size("maxProperties") {
        let map = |entries: usize| {
            let entries: Vec<String> = (0..entries).map(|n| format!("\"k{n}\":null")).collect();
            format!("{{{}}}", entries.join(","))
        };
        pairs.push((map(max), map(max + 1)));
    }
    if let Some(max) = place.schema.get("maximum").and_then(Value::as_f64) {
        pairs.push((format!("{max}"), format!("{}", max + 1.0)));
    }
    pairs
}

fn is_out_of_bounds(answered: &Answered) -> bool {
    answered.status == 422 && answered.json().get("max").is_some()
}

#[tokio::test]
async fn each_field_is_accepted_up_to_its_maximum() {
    let world = World::new().await;
    let mut sent = 0;
    for place in places(&redrive_server::openapi()) {
        if place.schema.contains_key("enum") {
            continue;
        }
        for (at, beyond) in around(&place) {
            let (method, path) = place.route.split_once(' ').unwrap();
            let path = path.replace(['{', '}'], "");
            let call = async |body: String| {
                world.call(method.parse::<Method>().unwrap(), &format!("{path}?tenant=acme"), &world.admin, body).await
            };
            let call_plain = async |body: String| world.call(method.parse().unwrap(), &path, &world.admin, body).await;
            let (body, _) = place.body(at);
            let mut within = call(body.clone()).await;
            if within.short().1 == "unknown_parameter" {
                within = call_plain(body).await;
            }
            assert!(!is_out_of_bounds(&within), "{} at its maximum: {}", place.name(), within.text);
            let (body, field) = place.body(beyond);
            let mut refused = call(body.clone()).await;
            if refused.short().1 == "unknown_parameter" {
                refused = call_plain(body).await;
            }
            assert!(is_out_of_bounds(&refused), "{} beyond: {}", place.name(), refused.text);
            assert_eq!(refused.get("field"), field, "{}", place.name());
            sent += 1;
        }
    }
    assert!(sent > 300, "{sent}");
}

#[tokio::test]
async fn each_parameter_is_accepted_up_to_its_maximum() {
    let world = World::new().await;
    let document = redrive_server::openapi();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().unwrap() {
                let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
                let (at, beyond) = match schema["maximum"].as_u64() {
                    Some(max) => (max.to_string(), (max + 1).to_string()),
                    None => {
                        let max = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
                        ("1".repeat(max), "1".repeat(max + 1))
                    }
                };
                let ask = async |value: &str| {
                    let (path, query) = match parameter["in"] == "path" {
                        true => (path.replace(&format!("{{{name}}}"), value), String::new()),
                        false => (path.clone(), format!("?{name}={value}")),
                    };
                    let path = path.replace("{attempt}", "1").replace("{revision}", "1").replace(['{', '}'], "");
                    world
                        .call(method.to_uppercase().parse().unwrap(), &format!("{path}{query}"), &world.admin, "{}")
                        .await
                };
                let named = |answered: &Answered| {
                    let problem = answered.json();
                    let field = problem.get("parameter").or_else(|| problem.get("field")).cloned();
                    answered.status == 422 && field == Some(name.into())
                };
                let (within, refused) = (ask(&at).await, ask(&beyond).await);
                let out_of_bounds = named(&within) && within.json().get("max").is_some();
                assert!(!out_of_bounds, "{method} {path} {name} at its maximum: {}", within.text);
                assert!(named(&refused), "{method} {path} {name} beyond: {}", refused.text);
            }
        }
    }
    let many = |n: usize| format!("/v1/runs?agent={}", vec!["a"; n].join(","));
    assert_eq!(world.get(&many(100), &world.tenant).await.status, 200);
    assert_eq!(world.get(&many(101), &world.tenant).await.short(), (422, "invalid_parameter".into()));
}

/// The texts of a failure that are cut, with how many bytes are kept.
fn evidence() -> Vec<(String, usize)> {
    let document = redrive_server::openapi();
    let of_report = places(&document).into_iter().filter(|place| place.route == "POST /v1/failures");
    let cut = of_report.filter_map(|place| Some((place.name(), place.size("x-cut-bytes")?)));
    cut.map(|(name, bytes)| (name.trim_start_matches("POST /v1/failures .").to_owned(), bytes)).collect()
}

#[tokio::test]
async fn evidence_beyond_its_bound_is_cut_and_marked() {
    let world = World::new().await;
    let fields = evidence();
    assert!(fields.len() >= 10, "{fields:?}");
    for (n, (field, max)) in fields.into_iter().enumerate() {
        for (more, run) in [(0, format!("whole-{n}")), (1, format!("cut-{n}"))] {
            let text = "é".repeat(max / 2) + &"x".repeat(max % 2 + more);
            let mut report = json!({ "run_id": run, "error": { "message": "boom" } });
            let (parent, name) = field.rsplit_once('.').unwrap_or(("", &field));
            let (at, key) = match name {
                "*" => (parent.to_owned(), "x-header".to_owned()),
                "(name)" => (parent.to_owned(), text.clone()),
                name => (parent.to_owned(), name.to_owned()),
            };
            let value = if name == "(name)" { json!("v") } else { json!(text) };
            let holder =
                at.split('.').filter(|part| !part.is_empty()).fold(&mut report, |value, part| &mut value[part]);
            holder[&key] = value.clone();
            let answered = world.work("/v1/failures", &report).await;
            assert_eq!(answered.status, 201, "{field}: {}", answered.text);
            let attempt = world.show(&run).await["attempts"][0].clone();
            let kept = at.split('.').filter(|part| !part.is_empty()).fold(&attempt, |value, part| &value[part]);
            let marked = attempt.get("truncated").cloned().unwrap_or_default();
            if more == 0 {
                assert_eq!(marked, Value::Null, "{field}");
                assert_eq!(kept[&key], value, "{field}");
                continue;
            }
            let mark = if name == "(name)" { &marked[&at] } else { &marked[&field.replace('*', "x-header")] };
            assert!(mark["sha256"].as_str().is_some_and(|hash| hash.len() == 64), "{field}: {marked}");
            if name == "(name)" {
                assert_eq!(kept, &json!({}), "{field}");
            } else {
                assert_eq!(mark["bytes"], max + 1, "{field}");
                assert!(kept[&key].as_str().unwrap().len() <= max, "{field}");
                assert!(text.starts_with(kept[&key].as_str().unwrap()), "{field}");
            }
        }
    }
}

#[tokio::test]
async fn headers_of_an_error_beyond_their_bound_are_left_out() {
    let world = World::new().await;
    let headers: Map<String, Value> = (0..101).map(|n| (format!("x-{n:03}"), json!("v"))).collect();
    let report =
        json!({ "run_id": "a", "error": { "message": "m", "headers": headers }, "response": { "headers": headers } });
    assert_eq!(world.work("/v1/failures", report).await.status, 201);
    let attempt = world.show("a").await["attempts"][0].clone();
    for part in ["error", "response"] {
        assert_eq!(attempt[part]["headers"].as_object().unwrap().len(), 100);
        assert!(attempt["truncated"][format!("{part}.headers")]["bytes"].is_u64(), "{attempt}");
    }
}

/// Also for a failure under a lease.
#[tokio::test]
async fn evidence_is_classified_before_it_is_cut() {
    let world = World::new().await;
    let lease = world.begin("a").await;
    let message = format!("{} Request timed out", "x ".repeat(40_000));
    let body = json!({ "lease": lease, "error": { "message": message } });
    let answered = world.work("/v1/runs/a/fail", body).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    let attempt = world.show("a").await["attempts"][0].clone();
    assert_eq!(attempt["truncated"]["error.message"]["bytes"], message.len());
}

#[tokio::test]
async fn an_array_is_never_accepted_as_an_object() {
    let world = World::new().await;
    world.set_queue("x", json!({ "owner": "ops", "policy": { "replay_approval": "always" } })).await;
    let wiped = world.call(Method::PUT, "/v1/queues/x", &world.admin, "[]").await;
    assert_eq!((wiped.short(), wiped.get("field")), ((422, "invalid_field".into()), "body".into()));
    let shown = world.get("/v1/queues/x", &world.admin).await.get("settings");
    assert_eq!((&shown["owner"], &shown["policy"]["replay_approval"]), (&json!("ops"), &json!("always")));
    for (body, field) in [
        (r#"{"run_id":"a","error":[null,"m"]}"#, "error"),
        (r#"{"run_id":"a","error":{"message":"m"},"usage":[1,2,3]}"#, "usage"),
        (r#"{"run_id":"a","error":{"message":"m"},"response":[500]}"#, "response"),
        (r#"["a"]"#, "body"),
    ] {
        let refused = world.work("/v1/failures", body).await;
        assert_eq!((refused.short(), refused.get("field")), ((422, "invalid_field".into()), field.into()), "{body}");
    }
    for place in places(&redrive_server::openapi()).into_iter().filter(|place| place.path.is_empty()) {
        let (method, path) = place.route.split_once(' ').unwrap();
        let path = path.replace(['{', '}'], "");
        let refused = world.call(method.parse().unwrap(), &path, &world.admin, "[]").await;
        assert_eq!((refused.short(), refused.get("field")), ((422, "invalid_field".into()), "body".into()), "{path}");
    }
}

#[tokio::test]
async fn a_cost_out_of_range_is_refused() {
    let world = World::new().await;
    for cost in ["-0.01", "1000000001", "1e300"] {
        let body = format!(r#"{{"run_id":"a","error":{{"message":"m"}},"usage":{{"cost_usd":{cost}}}}}"#);
        let refused = world.work("/v1/failures", body).await;
        assert_eq!((refused.short(), refused.get("field")), ((422, "invalid_field".into()), "usage.cost_usd".into()));
    }
    let body = r#"{"run_id":"a","error":{"message":"m"},"usage":{"cost_usd":1000000000}}"#;
    assert_eq!(world.work("/v1/failures", body).await.status, 201);
}

#[tokio::test]
async fn a_long_version_kind_is_refused() {
    let world = World::new().await;
    let kind = "k".repeat(3_000);
    let bodies = [
        ("/v1/failures", json!({ "run_id": "a", "error": { "message": "m" }, "versions": { kind.clone(): "1" } })),
        ("/v1/runs", json!({ "run_id": "a", "mode": "start", "versions": { kind.clone(): "1" } })),
        ("/v1/leases", json!({ "queues": ["*"], "versions": { kind.clone(): "1" } })),
    ];
    for (path, body) in bodies {
        let refused = world.work(path, body).await;
        assert_eq!(refused.short(), (422, "invalid_field".into()), "{path}");
        assert!(refused.get("field").as_str().unwrap().starts_with("versions.kkk"), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_wrong_client_clock_is_no_reason_to_refuse() {
    let world = World::new().await;
    for (n, time) in
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "12026-01-01T00:00:00Z", "soon", ""].iter().enumerate()
    {
        let run = format!("run-{n}");
        let body = json!({ "run_id": run, "error": { "message": "m" }, "started_at": time, "ended_at": time });
        let answered = world.work("/v1/failures", body).await;
        assert_eq!(answered.status, 201, "{time}: {}", answered.text);
        let attempt = world.show(&run).await["attempts"][0].clone();
        assert_eq!((&attempt["started_at"], &attempt["ended_at"]), (&json!(time), &json!(time)));
    }
}
