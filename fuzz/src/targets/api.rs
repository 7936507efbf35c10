//! The API under any bytes as body, query, cursor or key: no answer is a 500, every answer is JSON, and a problem has a
//! code.

use std::cell::RefCell;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Method, Request, header};
use http_body_util::BodyExt as _;
use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_engine::{ManualClock, SeededDice, Store};
use redrive_server::auth::new_key;
use redrive_server::router::router;
use redrive_server::{App, ServerLimits};
use redrive_store::sqlite::{Options, SqliteStore};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use super::{Ask, Target, told};
use crate::Verdict;

const BODY: &[&str] = &[
    "\"run_id\":\"a\"",
    "\"tenant\":",
    "\"error\":{\"message\":\"",
    "\"payload\":",
    "\"payload_base64\":\"",
    "\"attempt\":",
    "\"steps\":[",
    "\"effect\":true",
    "\"status\":\"started\"",
    "\"mode\":\"start\"",
    "\"lease\":\"l1-1-1-1\"",
    "\"reason\":",
    "\"force\":true",
    "\"fix\":",
    "\"json_patch\":[",
    "\"filter\":{",
    "\"until\":\"2027-01-15T08:00:00Z\"",
    "\"started_at\":",
    "\"usage\":{\"cost_usd\":",
    "\"headers\":{",
];
const QUERY: &[&str] = &[
    "state=dead",
    "&q=",
    "&limit=",
    "&cursor=",
    "&since=",
    "&sort=due",
    "&count=true",
    "&held=true",
    "&pattern=",
    "&severity=high",
    "&reason=x:",
    "&tenant=acme",
];

pub const REPORT: Target = Target { name: "report", corpus: &["reports"], words: BODY, make: report };
pub const LINES: Target = Target { name: "ndjson", corpus: &["reports"], words: BODY, make: lines };
pub const UNDER_LEASE: Target = Target { name: "under lease", corpus: &["bodies"], words: BODY, make: under_lease };
pub const PEOPLE: Target = Target { name: "people", corpus: &["bodies"], words: BODY, make: people };
pub const OPERATIONS: Target = Target { name: "operations", corpus: &["bodies"], words: BODY, make: operations };
pub const FILTERS: Target = Target { name: "filters", corpus: &["queries"], words: QUERY, make: filters };
pub const CURSORS: Target = Target { name: "cursors", corpus: &["queries"], words: QUERY, make: cursors };
pub const KEYS: Target = Target { name: "keys", corpus: &["names"], words: &["rdk_", "Bearer ", "bearer"], make: keys };

/// An app over a store of its own, thrown away with it.
struct Asked {
    runtime: Runtime,
    router: Router,
    key: String,
    _folder: TempDir,
}

impl Asked {
    #[allow(clippy::expect_used, reason = "without its app there is nothing to ask")]
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let dice = Arc::new(SeededDice::new(7));
        let data = folder.path().join("data");
        let options = Options { folder: data, clock, dice: dice.clone(), policies: Policies::default() };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open_throw_away(options).expect("a store"));
        let (key, record) = new_key(dice.as_ref(), Role::Admin, None, None, None, store.now());
        runtime.block_on(store.put_key(record)).expect("a key");
        let router = router(App::new(store, dice, None, ServerLimits::default()));
        let asked = Self { runtime, router, key, _folder: folder };
        // Something to be found, so that good questions have answers.
        for run in ["a", "b", "c"] {
            let body = format!(
                r#"{{"tenant":"acme","run_id":"{run}","payload":{{"n":[1,2]}},"error":{{"message":"boom {run}","terminal":true}}}}"#
            );
            let _ = asked.post("/v1/failures", "application/json", body.as_bytes());
        }
        asked
    }

    fn post(&self, path: &str, media: &'static str, body: &[u8]) -> Verdict {
        let mut request = Request::new(Body::from(body.to_vec()));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        self.send(path, request)
    }

    fn get(&self, path: &str) -> Verdict {
        self.send(path, Request::new(Body::empty()))
    }

    fn send(&self, path: &str, mut request: Request<Body>) -> Verdict {
        // The HTTP parser refuses invalid URIs before this.
        let Ok(uri) = path.parse() else { return Ok(0) };
        *request.uri_mut() = uri;
        if !request.headers().contains_key(header::AUTHORIZATION)
            && let Ok(key) = format!("Bearer {}", self.key).parse()
        {
            request.headers_mut().insert(header::AUTHORIZATION, key);
        }
        let (status, body) = self.runtime.block_on(async {
            let Ok(response) = self.router.clone().oneshot(request).await;
            let status = response.status().as_u16();
            (status, response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default())
        });
        let text = std::str::from_utf8(&body).map_err(|_| format!("{path}: an answer that is no UTF-8"))?;
        if status == 500 {
            return Err(format!("{path} was answered {status}: {text}"));
        }
        let mut codes = Vec::new();
        for line in text.lines() {
            let json: Value = serde_json::from_str(line).map_err(|e| format!("{path}: {e}: {text}"))?;
            let code = json["code"].as_str().unwrap_or_default().to_owned();
            if (status >= 400 && code.is_empty()) || json["status"] == 500 {
                return Err(format!("{path} was answered {status}: {line}"));
            }
            codes.push((
                code,
                json["verdict"]["reason"].as_str().unwrap_or_default().to_owned(),
                json["field"].is_string(),
            ));
        }
        codes.truncate(4);
        Ok(told((path.split('?').next(), status, codes)))
    }
}

/// A new app now and then keeps its store small.
fn asking(ask: impl Fn(&Asked, &[u8]) -> Verdict + 'static) -> Ask {
    const FRESH_EVERY: u32 = 20_000;
    let app = RefCell::new((0, None));
    Box::new(move |input| {
        let mut app = app.borrow_mut();
        app.0 += 1;
        if app.0 % FRESH_EVERY == 0 {
            app.1 = None;
        }
        ask(app.1.get_or_insert_with(Asked::new), input)
    })
}

fn report() -> Ask {
    asking(|app, input| app.post("/v1/failures", "application/json", input))
}

fn lines() -> Ask {
    asking(|app, input| app.post("/v1/failures", "application/x-ndjson", input))
}

/// The first byte says which.
fn one_of(app: &Asked, paths: &[&str], input: &[u8]) -> Verdict {
    let (first, body) = input.split_first().unwrap_or((&0, &[]));
    app.post(paths[usize::from(*first) % paths.len()], "application/json", body)
}

fn under_lease() -> Ask {
    asking(|app, input| {
        let paths = [
            "/v1/runs",
            "/v1/leases",
            "/v1/preflight",
            "/v1/runs/a/heartbeat",
            "/v1/runs/a/steps",
            "/v1/runs/a/succeed",
            "/v1/runs/a/fail",
            "/v1/runs/a/release",
        ];
        one_of(app, &paths, input)
    })
}

fn people() -> Ask {
    asking(|app, input| {
        let paths = [
            "/v1/runs/a/replay?tenant=acme",
            "/v1/runs/b/plan?tenant=acme",
            "/v1/runs/b/approve?tenant=acme",
            "/v1/runs/b/defer?tenant=acme",
            "/v1/runs/c/merge?tenant=acme",
            "/v1/runs/c/assign?tenant=acme",
            "/v1/runs/c/reassign?tenant=acme",
            "/v1/runs/b/note?tenant=acme",
            "/v1/effects/k/reconcile",
            "/v1/tenants/acme/breaker",
            "/v1/patterns/p/mute?tenant=acme",
            "/v1/keys",
        ];
        one_of(app, &paths, input)
    })
}

fn operations() -> Ask {
    asking(|app, input| app.post("/v1/operations", "application/json", input))
}

fn query(input: &[u8]) -> String {
    // As it came where a URI can hold it, otherwise escaped.
    match std::str::from_utf8(input) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte)) => {
            text.to_owned()
        }
        _ => form_urlencoded::byte_serialize(input).collect(),
    }
}

fn filters() -> Ask {
    asking(|app, input| {
        let query = query(input);
        let paths =
            ["/v1/runs", "/v1/patterns", "/v1/stats", "/v1/changes", "/v1/runs/a/plan", "/api/v1/dlq/acme/messages"];
        app.get(&format!("{}?{query}", paths[query.len() % paths.len()]))
    })
}

fn cursors() -> Ask {
    asking(|app, input| {
        let cursor: String = form_urlencoded::byte_serialize(input).collect();
        let paths = [
            "/v1/runs?limit=1&",
            "/v1/patterns?limit=1&",
            "/v1/operations?limit=1&",
            "/v1/tenants?limit=1&",
            "/v1/operations/op-1/items?",
        ];
        app.get(&format!("{}cursor={cursor}", paths[cursor.len() % paths.len()]))
    })
}

fn keys() -> Ask {
    asking(|app, input| {
        let mut request = Request::new(Body::empty());
        let given = [b"Bearer ".as_slice(), input].concat();
        let Ok(value) = HeaderValue::from_bytes(if input.starts_with(b"Bearer") { input } else { &given }) else {
            return Ok(0);
        };
        request.headers_mut().insert(header::AUTHORIZATION, value);
        match app.send("/v1/limits", request) {
            Err(what) => Err(what),
            Ok(happened)
                if happened == told((Some("/v1/limits"), 200_u16, vec![(String::new(), String::new(), false)])) =>
            {
                Err("a key that nobody made was let in".into())
            }
            Ok(happened) => Ok(happened),
        }
    })
}
