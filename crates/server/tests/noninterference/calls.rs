//! Every call: ordinary work, and any route and page with hostile numbers, names and sizes in any field.

use std::fmt;

use http::Method;
use redrive_server::routes;
use redrive_server::ui;
use serde_json::{Value, json};

use crate::player::Known;
use crate::rng::Rng;

const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    Worker,
    Tenant,
    Session,
    Nobody,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub credential: Credential,
    pub media: Option<&'static str>,
    pub body: String,
}

impl Call {
    pub fn get(credential: Credential, path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), credential, media: None, body: String::new() }
    }

    pub fn post(credential: Credential, path: impl Into<String>, body: &Value) -> Self {
        let body = body.to_string();
        Self { method: Method::POST, path: path.into(), credential, media: Some(JSON), body }
    }

    pub fn form(credential: Credential, path: impl Into<String>, body: String) -> Self {
        Self { method: Method::POST, path: path.into(), credential, media: Some(FORM), body }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = &self.body[..self.body.floor_char_boundary(300)];
        write!(f, "{:?} {} {} {body}", self.credential, self.method, self.path)
    }
}

/// Names that both tenants of a play use, so that only the tenant distinguishes their objects.
pub struct Names {
    own: String,
    other: String,
    runs: Vec<String>,
    queues: Vec<String>,
    effects: Vec<String>,
    /// Of a play, and of the tenant where breakers are on.
    model: String,
    suffix: u64,
}

impl Names {
    pub fn new(play: u64, own: &str, other: &str, breakers: bool) -> Self {
        let each = |names: &[&str]| names.iter().map(|name| format!("{name}{play}")).collect();
        let model = if breakers { format!("m-{own}") } else { format!("m{play}") };
        Self {
            own: own.to_owned(),
            other: other.to_owned(),
            runs: each(&["r", "s", "u"]),
            queues: each(&["q", "p"]),
            effects: each(&["charge:", "mail:"]),
            model,
            suffix: play,
        }
    }
}

/// Where counters overflow, keys are packed and types end.
const NUMBERS: [i128; 24] = [
    0,
    1,
    2,
    3,
    -1,
    999_999,
    1_000_000,
    1_000_001,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    (1 << 20) + 2,
    (1 << 21) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    1 << 53,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    1 << 64,
    (1 << 40) + 1,
];

fn hostile(rng: &mut Rng, names: &Names) -> Value {
    match rng.below(14) {
        0..=4 => serde_json::from_str(&rng.pick(&NUMBERS).to_string()).unwrap(),
        5 => json!(names.other),
        6 => json!(rng.pick(&names.runs)),
        7 => json!(rng.pick(&[
            "",
            ".",
            "..",
            "*",
            "送金",
            "返金",
            "a b",
            "a-b",
            "a/b",
            "%00",
            "\u{0}",
            "' OR 1=1 --",
            "<b>"
        ])),
        8 => json!(rng.pick(&["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "-1"])),
        9 => json!("x".repeat(*rng.pick(&[200, 201, 4_096, 70_000]))),
        10 => json!(vec![rng.pick(&names.queues).clone(); *rng.pick(&[2, 101, 1_001])]),
        11 => (0..*rng.pick(&[3, 40, 130])).fold(json!(1), |inner, _| json!([inner])),
        12 => (0..120).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into(),
        _ => rng.pick(&[Value::Null, json!(true), json!([]), json!({}), json!(1e300), json!(-0.5)]).clone(),
    }
}

/// A valid body with something hostile in one field.
fn mutate(rng: &mut Rng, names: &Names, body: &mut Value) {
    let mut places = Vec::new();
    leaves(body, String::new(), &mut places);
    if let Some(place) = (!places.is_empty()).then(|| rng.pick(&places).clone())
        && let Some(leaf) = body.pointer_mut(&place)
    {
        *leaf = hostile(rng, names);
    }
}

fn leaves(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                leaves(inner, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                leaves(inner, format!("{at}/{index}"), places);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if !at.is_empty() {
        places.push(at);
    }
}

pub fn any(rng: &mut Rng, names: &Names, known: &Known) -> Call {
    match rng.below(100) {
        0..=21 => report(rng, names),
        22..=31 => begin(rng, names),
        32..=43 => lease(rng, names),
        44..=57 => under_lease(rng, names, known),
        58..=73 => read(rng, names, known),
        74..=83 => any_route(rng, names, known),
        84..=91 => decide(rng, names, known),
        _ => any_page(rng, names, known),
    }
}

fn run_fields(rng: &mut Rng, names: &Names) -> Value {
    let mut fields = json!({
        "run_id": rng.pick(&names.runs),
        "queue": rng.pick(&names.queues),
        "payload": {"of": names.own, "model": names.model, "messages": [{"role": "user", "content": names.own}]},
        "agent": rng.pick(&["ann", "bo"]),
        "model": names.model,
        "provider": names.model,
        "environment": rng.pick(&["prod", "test"]),
        "customer": "customer-1",
        "versions": {"worker": rng.pick(&["v1", "v2"]), "prompt": rng.pick(&["p1", "p2"])},
        "resumable": rng.percent(50),
    });
    if rng.percent(30) {
        fields["order_key"] = json!(format!("o{}", names.suffix));
    }
    if rng.percent(30) {
        fields["idempotency_key"] = json!(format!("i{}", names.suffix));
    }
    fields
}

fn failure(rng: &mut Rng, names: &Names) -> Value {
    const MESSAGES: [&str; 6] = [
        "Request timed out",
        "invalid api key",
        "maximum context length is 8192 tokens, you requested 9000",
        "KeyError: 'total'",
        "429 Too Many Requests",
        "the tool ended with exit code 3",
    ];
    let mut body = run_fields(rng, names);
    body["error"] = json!({"message": rng.pick(&MESSAGES), "terminal": rng.percent(15)});
    body["usage"] = json!({"input_tokens": 10, "output_tokens": 3, "cost_usd": 0.01});
    if rng.percent(40) {
        let numbers: [i128; 6] = [1, 2, 3, 1_000_000, (1 << 20) + 1, (1 << 20) + 2];
        body["attempt"] = json!(i64::try_from(*rng.pick(&numbers)).unwrap());
    }
    if rng.percent(40) {
        let status = rng.pick(&["started", "committed", "failed"]);
        body["steps"] = json!([{"name": "charge", "key": rng.pick(&names.effects), "effect": true, "status": status}]);
    }
    if rng.percent(25) {
        mutate(rng, names, &mut body);
    }
    body
}

fn report(rng: &mut Rng, names: &Names) -> Call {
    if rng.percent(80) {
        return Call::post(Credential::Worker, "/v1/failures", &failure(rng, names));
    }
    let lines: Vec<String> = (0..1 + rng.below(6)).map(|_| failure(rng, names).to_string()).collect();
    let call = Call::post(Credential::Worker, "/v1/failures", &Value::Null);
    Call { media: Some(LINES), body: lines.join("\n"), ..call }
}

fn begin(rng: &mut Rng, names: &Names) -> Call {
    let mut body = run_fields(rng, names);
    body["mode"] = json!(rng.pick(&["start", "enqueue"]));
    if rng.percent(30) {
        body["start_id"] = json!("6f9619ff-8b86-4d01-b42d-00c04fc964ff");
    }
    if rng.percent(15) {
        mutate(rng, names, &mut body);
    }
    Call::post(Credential::Worker, "/v1/runs", &body)
}

fn lease(rng: &mut Rng, names: &Names) -> Call {
    let mut body = json!({
        "queues": [rng.pick(&names.queues)],
        "max": 1 + rng.below(3),
        "versions": {"worker": rng.pick(&["v1", "v2", "v3"]), "prompt": "p9"},
        "worker": rng.pick(&["w1", "w2"]),
    });
    if rng.percent(20) {
        mutate(rng, names, &mut body);
    }
    Call::post(Credential::Worker, "/v1/leases", &body)
}

fn under_lease(rng: &mut Rng, names: &Names, known: &Known) -> Call {
    let (run, lease) = if known.leases.is_empty() || rng.percent(10) {
        (rng.pick(&names.runs).clone(), format!("l{}-1-1", 1 + rng.below(4)))
    } else {
        // The newest is most often still good.
        let newest = known.leases.len() - 1;
        known.leases[if rng.percent(70) { newest } else { rng.below(newest + 1) }].clone()
    };
    let (verb, mut body) = match rng.below(7) {
        0 => ("heartbeat", json!({})),
        1 | 2 => {
            let status = rng.pick(&["started", "committed", "failed"]);
            let key = rng.pick(&names.effects);
            ("steps", json!({"name": "charge", "key": key, "effect": true, "status": status, "output": names.own}))
        }
        3 | 4 => ("succeed", json!({"output": format!("done by {}", names.own), "usage": {"input_tokens": 5}})),
        5 => ("fail", json!({"error": {"message": "Request timed out"}, "model": names.model})),
        _ => ("release", json!({})),
    };
    body["lease"] = json!(lease);
    if rng.percent(15) {
        mutate(rng, names, &mut body);
    }
    Call::post(Credential::Worker, format!("/v1/runs/{run}/{verb}"), &body)
}

fn read(rng: &mut Rng, names: &Names, known: &Known) -> Call {
    let (run, queue) = (rng.pick(&names.runs).clone(), rng.pick(&names.queues).clone());
    let number = *rng.pick(&NUMBERS);
    let pattern = known.patterns.last().cloned().unwrap_or_else(|| "none".to_owned());
    let path = match rng.below(22) {
        0 => format!("/v1/runs/{run}"),
        1 | 2 => format!("/v1/runs/{run}/attempts/{number}/sent"),
        3 => format!("/v1/runs/{run}/revisions/{number}"),
        4 => format!("/v1/runs/{run}/plan"),
        5 => format!("/v1/runs/{run}/duplicates"),
        6 => format!("/v1/runs?queue={queue}"),
        7 => format!("/v1/runs?limit={number}"),
        8 => "/v1/runs?state=dead&limit=1".to_owned(),
        9 => format!("/v1/runs?tenant={}", names.other),
        10 => format!("/v1/runs?cursor={}", known.cursor.as_deref().unwrap_or("none")),
        11 => format!("/v1/stats?queue={queue}"),
        12 => "/v1/stats".to_owned(),
        13 => "/v1/health".to_owned(),
        14 => format!("/v1/tenants/{}/health", rng.pick(&[&names.own, &names.other])),
        15 => format!("/v1/tenants/{}/breaker", rng.pick(&[&names.own, &names.other])),
        16 => "/v1/breakers".to_owned(),
        17 => format!("/v1/effects/{}", rng.pick(&names.effects)),
        18 => "/v1/patterns".to_owned(),
        19 => format!("/v1/patterns/{pattern}"),
        20 => "/v1/tenants".to_owned(),
        _ => "/v1/changes".to_owned(),
    };
    Call::get(Credential::Tenant, path)
}

fn decide(rng: &mut Rng, names: &Names, known: &Known) -> Call {
    let (run, queue) = (rng.pick(&names.runs).clone(), rng.pick(&names.queues).clone());
    let hash = known.plan_hash.clone().unwrap_or_else(|| "h".to_owned());
    let (verb, mut body) = match rng.below(13) {
        0 | 1 => ("replay", json!({"queue": queue, "model": names.model, "reason": "again"})),
        2 => ("replay", json!({"fix": {"json_patch": [{"op": "add", "path": "/fixed", "value": names.own}]}})),
        3 => ("cancel", json!({"reason": "enough"})),
        4 => ("resolve", json!({"reason": "settled"})),
        5 => ("discard", json!({})),
        6 => ("note", json!({"reason": names.own})),
        7 => ("review", json!({})),
        8 => ("approve", json!({"plan_hash": hash})),
        9 => ("defer", json!({"until": "2099-01-01T00:00:00Z"})),
        10 => ("reassign", json!({"queue": queue})),
        11 => ("merge", json!({"into": rng.pick(&names.runs)})),
        _ => ("unmerge", json!({})),
    };
    if rng.percent(20) {
        mutate(rng, names, &mut body);
    }
    Call::post(Credential::Tenant, format!("/v1/runs/{run}/{verb}"), &body)
}

/// A path with a value for each parameter.
fn filled(rng: &mut Rng, names: &Names, known: &Known, path: &str) -> String {
    let number = *rng.pick(&NUMBERS);
    let pattern = known.patterns.last().cloned().unwrap_or_else(|| number.to_string());
    let tenant = if path.starts_with("/runs/") || rng.percent(50) { &names.own } else { &names.other };
    path.replace("{run_id}", rng.pick(&names.runs).as_str())
        .replace("{tenant}", tenant)
        .replace("{attempt}", &number.to_string())
        .replace("{revision}", &number.to_string())
        .replace("{key}", rng.pick(&names.effects).as_str())
        .replace("{name}", rng.pick(&names.queues).as_str())
        .replace("{id}", &pattern)
}

fn any_route(rng: &mut Rng, names: &Names, known: &Known) -> Call {
    let table = routes::table();
    let route = rng.pick(&table);
    let credential = *rng.pick(&[Credential::Worker, Credential::Tenant]);
    let path = filled(rng, names, known, route.path);
    if route.method != Method::POST && route.method != Method::PUT {
        return Call { method: route.method.clone(), ..Call::get(credential, path) };
    }
    let mut body = body_of(route.path, names).unwrap_or_else(|| json!({}));
    if rng.percent(60) {
        mutate(rng, names, &mut body);
    }
    Call { method: route.method.clone(), ..Call::post(credential, path, &body) }
}

/// A valid body for every route that takes one.
fn body_of(path: &str, names: &Names) -> Option<Value> {
    let run = &names.runs[0];
    Some(match path {
        "/v1/failures" => json!({"run_id": run, "attempt": 1, "error": {"message": "m"}}),
        "/v1/leases" => json!({"queues": [names.queues[0]], "max": 1}),
        "/v1/heartbeats" => json!({"heartbeats": [{"run_id": run, "lease": "l1-1-1-1"}]}),
        "/v1/runs" => json!({"run_id": run, "mode": "enqueue"}),
        "/v1/preflight" => json!({"payload": {"model": names.model}, "run_id": run}),
        "/v1/operations" => json!({"action": "discard", "filter": {"queue": names.queues[0]}, "dry_run": true}),
        "/v1/keys" => json!({"role": "worker", "tenant": names.own}),
        "/v1/queues/{name}" => json!({"owner": names.own}),
        "/v1/breakers" => {
            json!({"action": "open", "reason": "r", "model": names.model, "until": "2099-01-01T00:00:00Z"})
        }
        "/v1/tenants/{tenant}/breaker" => json!({"action": "open", "reason": "r", "until": "2099-01-01T00:00:00Z"}),
        "/v1/effects/{key}/reconcile" => json!({"outcome": "committed", "reason": "r"}),
        "/v1/patterns/{id}/resolve" => json!({"in_version": {"worker": "v2"}}),
        "/v1/patterns/{id}/assign" | "/v1/runs/{run_id}/assign" => json!({"to": "ops"}),
        "/v1/patterns/{id}/merge" => json!({"into": "1-0000000000000000"}),
        "/v1/patterns/{id}/note" | "/v1/runs/{run_id}/note" => json!({"reason": "n"}),
        "/v1/runs/{run_id}/steps" => json!({"lease": "l1-1-1-1", "name": "s", "status": "started"}),
        "/v1/runs/{run_id}/heartbeat" | "/v1/runs/{run_id}/succeed" | "/v1/runs/{run_id}/release" => {
            json!({"lease": "l1-1-1-1"})
        }
        "/v1/runs/{run_id}/fail" => json!({"lease": "l1-1-1-1", "error": {"message": "m"}}),
        "/v1/runs/{run_id}/approve" => json!({"plan_hash": "h"}),
        "/v1/runs/{run_id}/defer" => json!({"until": "2099-01-01T00:00:00Z"}),
        "/v1/runs/{run_id}/reassign" => json!({"queue": names.queues[1]}),
        "/v1/runs/{run_id}/merge" => json!({"into": names.runs[1]}),
        "/v1/runs/{run_id}/plan" => json!({"fix": {"payload": 1}}),
        "/v1/patterns/{id}/acknowledge"
        | "/v1/patterns/{id}/mute"
        | "/v1/patterns/{id}/unmerge"
        | "/v1/runs/{run_id}/cancel"
        | "/v1/runs/{run_id}/discard"
        | "/v1/runs/{run_id}/reject"
        | "/v1/runs/{run_id}/replay"
        | "/v1/runs/{run_id}/resolve"
        | "/v1/runs/{run_id}/review"
        | "/v1/runs/{run_id}/unmerge"
        | "/v1/operations/{id}/cancel"
        | "/v1/operations/{id}/pause"
        | "/v1/operations/{id}/resume"
        | "/v1/operations/{id}/start"
        | "/api/v1/dlq/{tenant}/messages/{run_id}/abandon"
        | "/api/v1/dlq/{tenant}/messages/{run_id}/replay" => json!({}),
        _ => return None,
    })
}

/// Routes that take a body and have none here.
pub fn routes_without_a_body() -> Vec<String> {
    let names = Names::new(0, "a", "b", false);
    let takes_one = |method: &Method| method == Method::POST || method == Method::PUT;
    let table = routes::table();
    let missing = table.iter().filter(|route| takes_one(&route.method) && body_of(route.path, &names).is_none());
    missing.map(|route| format!("{} {}", route.method, route.path)).collect()
}

fn any_page(rng: &mut Rng, names: &Names, known: &Known) -> Call {
    let table: Vec<_> = ui::table().into_iter().filter(|page| page.asks).collect();
    let page = rng.pick(&table);
    let path = filled(rng, names, known, page.path);
    if page.method != Method::POST {
        return Call::get(Credential::Session, path);
    }
    const FIELDS: [&str; 10] =
        ["reason", "to", "into", "agent", "queue", "until", "plan_hash", "payload", "key", "outcome"];
    let fields = (0..rng.below(3)).map(|_| {
        let field = rng.pick(&FIELDS);
        let value = match hostile(rng, names) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let plain: String = value.chars().filter(char::is_ascii_alphanumeric).take(300).collect();
        format!("{field}={plain}")
    });
    let body = fields.collect::<Vec<_>>().join("&");
    Call::form(Credential::Session, path, body)
}

/// Everything that a tenant can see of its own, and where another's might show.
pub fn looks(names: &Names) -> Vec<Call> {
    let mut looks = Vec::new();
    for run in &names.runs {
        looks.push(format!("/v1/runs/{run}"));
        looks.push(format!("/v1/runs/{run}/attempts/1/sent"));
        looks.push(format!("/v1/runs/{run}/attempts/{}/sent", (1 << 20) + 1));
        looks.push(format!("/v1/runs/{run}/plan"));
    }
    for queue in &names.queues {
        looks.push(format!("/v1/stats?queue={queue}"));
    }
    let key = |effect: &String| format!("/v1/effects/{effect}");
    looks.extend(names.effects.iter().map(key));
    looks.extend(["/v1/runs", "/v1/patterns", "/v1/health", "/v1/stats", "/v1/breakers"].map(str::to_owned));
    looks.push(format!("/v1/tenants/{}/health", names.own));
    let page = |path: String| Call::get(Credential::Session, path);
    let pages = ["/".to_owned(), format!("/runs/{}/{}", names.own, names.runs[0]), format!("/tenants/{}", names.own)];
    looks.into_iter().map(|path| Call::get(Credential::Tenant, path)).chain(pages.map(page)).collect()
}
