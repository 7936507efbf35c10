//! Bad input of any kind gets a problem that names the mistake, and never a 500.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::{Method, Request};
use hyper::body::Frame;
use redrive_server::ServerLimits;

use crate::world::{Answered, World, request};

#[tokio::test]
async fn mistakes_in_a_body_are_named() {
    let world = World::new().await;
    for (body, status, code, about, value) in [
        (r#"{"run_id":"a""#, 400, "bad_json", "offset", 13.into()),
        (r#"{"run_id":"a","error":{"message":"m"}} x"#, 400, "bad_json", "offset", 39.into()),
        (r#"{"run_id":"a","error":{"message":"m"},"state":"dead"}"#, 422, "unknown_field", "field", "state".into()),
        (r#"{"run_id":"a","error":{"message":"m","x":1}}"#, 422, "unknown_field", "field", "error.x".into()),
        (r#"{"run_id":"a/b","error":{"message":"m"}}"#, 422, "bad_id", "field", "run_id".into()),
        (r#"{"run_id":"a","error":{}}"#, 422, "invalid_field", "field", serde_json::Value::from("error.message")),
        (
            r#"{"run_id":"a","attempt":1000001,"error":{"message":"m"}}"#,
            422,
            "invalid_field",
            "field",
            "attempt".into(),
        ),
        (r#"{"run_id":"a","attempt":0,"error":{"message":"m"}}"#, 422, "invalid_field", "field", "attempt".into()),
        (
            r#"{"run_id":"a","payload":1,"payload_base64":"AA==","error":{"message":"m"}}"#,
            422,
            "invalid_field",
            "field",
            "payload_base64".into(),
        ),
        ("", 400, "bad_json", "offset", 0.into()),
    ] {
        let answered = world.work("/v1/failures", body).await;
        assert_eq!((answered.short(), answered.get(about)), ((status, code.into()), value), "{body}");
        assert_eq!(answered.headers["content-type"], "application/problem+json");
    }
    let raw =
        world.call(Method::POST, "/v1/failures", &world.worker, Bytes::from_static(b"{\"run_id\":\"\xff\"}")).await;
    assert_eq!((raw.short(), raw.get("offset")), ((400, "bad_json".into()), 11.into()));
}

#[tokio::test]
async fn mistakes_in_path_and_query_are_named() {
    let world = World::new().await;
    let long = "x".repeat(201);
    for path in [format!("/v1/runs/{long}"), "/v1/runs/a%20b".into(), "/v1/runs/%ff".into(), "/v1/runs/..".into()] {
        assert_eq!(world.get(&path, &world.worker).await.short(), (422, "bad_id".into()), "{path}");
    }
    let unknown = world.get("/v1/runs/a?verbose=1", &world.worker).await;
    assert_eq!((unknown.short(), unknown.get("parameter")), ((422, "unknown_parameter".into()), "verbose".into()));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let world = World::new().await;
    assert_eq!(world.get("/v1/nothing", &world.worker).await.short(), (404, "no_such_path".into()));
    assert_eq!(world.get("/nothing", &world.worker).await.short(), (404, "no_such_path".into()));
    let refused = world.call(Method::PATCH, "/v1/runs", &world.worker, "").await;
    assert_eq!(refused.short(), (405, "method_not_allowed".into()));
    let allow = refused.headers["allow"].to_str().unwrap();
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let world = World::new().await;
    for path in ["/healthz", "/v1/limits", "/v1/nothing", "/openapi.json"] {
        let headers = world.get(path, &world.worker).await.headers;
        assert_eq!(
            (&headers["x-content-type-options"], &headers["cache-control"]),
            (&"nosniff".parse().unwrap(), &"no-store".parse().unwrap())
        );
        assert!(headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
    }
}

#[tokio::test]
async fn an_unsupported_media_type_is_refused() {
    let world = World::new().await;
    for (name, value, code) in [
        ("content-type", "text/plain", "unsupported_media_type"),
        ("content-type", "multipart/form-data", "unsupported_media_type"),
        ("content-encoding", "gzip", "unsupported_encoding"),
    ] {
        let mut request = request(Method::POST, "/v1/failures", &world.worker, "{}");
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(world.send(request).await.short(), (415, code.into()), "{value}");
    }
}

/// `curl -d` sends this type for any body.
#[tokio::test]
async fn the_default_media_type_of_curl_is_read_as_json() {
    let world = World::new().await;
    let sent = [
        ("/v1/failures", r#"{"run_id":"a","error":{"message":"m"}}"#),
        ("/v1/runs", r#"{"run_id":"b","mode":"enqueue"}"#),
        ("/v1/leases", r#"{"queues":["*"]}"#),
    ];
    for (path, body) in sent {
        let mut request = request(Method::POST, path, &world.worker, body);
        request.headers_mut().insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
        let answered = world.send(request).await;
        assert!(answered.status.is_success(), "{path}: {}", answered.text);
    }
}

/// A body that fails the test when it is read.
struct Trap;

impl HttpBody for Trap {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("the body was read");
    }
}

fn trap() -> Body {
    Body::new(Trap)
}

/// A body that begins and never ends.
struct Stuck(Option<Bytes>);

impl HttpBody for Stuck {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

#[tokio::test]
async fn the_body_of_an_unauthorized_call_is_not_read() {
    let world = World::new().await;
    let stranger = Request::builder().method(Method::POST).uri("/v1/failures").body(trap()).unwrap();
    assert_eq!(world.send(stranger).await.short(), (401, "unauthorized".into()));
    let wrong_role = request(Method::POST, "/v1/failures", &world.tenant, trap());
    assert_eq!(world.send(wrong_role).await.short(), (403, "forbidden".into()));
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused_announced_or_not() {
    let world = World::with(ServerLimits { body_max_bytes: 1_000, ..ServerLimits::default() }).await;
    let mut announced = request(Method::POST, "/v1/failures", &world.worker, trap());
    announced.headers_mut().insert("content-length", "1001".parse().unwrap());
    let answered = world.send(announced).await;
    assert_eq!((answered.short(), answered.get("limit_bytes")), ((413, "body_too_large".into()), 1_000.into()));
    let silent = world.work("/v1/failures", "x".repeat(1_001)).await;
    assert_eq!(silent.short(), (413, "body_too_large".into()));
    assert_eq!(world.fail("a").await.status, 201);
}

#[tokio::test]
async fn bodies_in_memory_are_bounded_together_and_given_back() {
    let world =
        World::with(ServerLimits { body_max_bytes: 1_000, in_flight_max_bytes: 1_500, ..ServerLimits::default() })
            .await;
    let stuck = Body::new(Stuck(Some(Bytes::from(vec![b' '; 900]))));
    let waiting = world.send(request(Method::POST, "/v1/failures", &world.worker, stuck));
    let report = || format!(r#"{{"run_id":"a","error":{{"message":"{}"}}}}"#, "m".repeat(800));
    let mut waiting = Box::pin(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut waiting).await.is_err());
    let answered = world.work("/v1/failures", report()).await;
    assert_eq!(answered.short(), (503, "busy".into()));
    assert_eq!(answered.headers["retry-after"], "1");
    drop(waiting);
    assert_eq!(world.work("/v1/failures", report()).await.status, 201);
}

/// Begins a call whose body never ends.
async fn stall(world: &World, request: Request<Body>) -> impl Future<Output = Answered> {
    let mut waiting = Box::pin(world.send(request));
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err(), "it was answered");
    waiting
}

/// The same, once so many bytes of bodies are in memory.
async fn stall_with(world: &World, request: Request<Body>, bytes: usize) -> impl Future<Output = Answered> {
    let mut waiting = Box::pin(world.send(request));
    let counted = format!("\nredrive_request_body_bytes {bytes}\n");
    while !world.get("/metrics", &world.operator).await.text.contains(&counted) {
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut waiting).await.is_err(), "it was answered");
    }
    waiting
}

fn stuck(bytes: usize) -> Body {
    Body::new(Stuck(Some(Bytes::from(vec![b' '; bytes]))))
}

#[tokio::test]
async fn stalled_logins_take_no_room_from_reports() {
    let limits = ServerLimits { body_max_bytes: 5_000, in_flight_max_bytes: 10_000, ..ServerLimits::default() };
    let world = World::with(limits).await;
    let login = || Request::builder().method(Method::POST).uri("/login").body(stuck(4_000)).unwrap();
    let _stalled = [stall(&world, login()).await, stall(&world, login()).await, stall(&world, login()).await];
    assert_eq!(world.fail("a").await.status, 201);
}

#[tokio::test]
async fn a_login_form_takes_four_kib() {
    let world = World::new().await;
    let login = |bytes: usize| {
        let form = format!("key={}", "x".repeat(bytes - "key=".len()));
        world.send(Request::builder().method(Method::POST).uri("/login").body(form.into()).unwrap())
    };
    assert_eq!(login(4 * 1024).await.status, 401);
    assert_eq!(login(4 * 1024 + 1).await.status, 413);
}

#[tokio::test]
async fn a_body_that_stalls_gives_its_room_back() {
    let limits = ServerLimits {
        body_max_bytes: 1_000,
        in_flight_max_bytes: 1_000,
        body_timeout_ms: 3_600_000,
        body_stall_ms: 50,
        ..ServerLimits::default()
    };
    let world = World::with(limits).await;
    let stalled = world.send(request(Method::POST, "/v1/failures", &world.worker, stuck(1_000)));
    let stalled =
        tokio::time::timeout(Duration::from_secs(20), stalled).await.expect("an answer before the hour is up");
    assert_eq!(stalled.short(), (408, "slow_body".into()));
    assert_eq!(world.fail("a").await.status, 201);
}

/// A body that sends a byte now and then.
struct Trickle(tokio::time::Interval);

impl HttpBody for Trickle {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

#[tokio::test]
async fn a_trickling_body_counts_as_stalled() {
    let limits = ServerLimits {
        body_max_bytes: 1_000,
        body_timeout_ms: 3_600_000,
        body_stall_ms: 200,
        ..ServerLimits::default()
    };
    let world = World::with(limits).await;
    let body = Body::new(Trickle(tokio::time::interval(Duration::from_millis(2))));
    let slow = world.send(request(Method::POST, "/v1/failures", &world.worker, body));
    let slow = tokio::time::timeout(Duration::from_secs(20), slow).await.expect("an answer before the hour is up");
    assert_eq!(slow.short(), (408, "slow_body".into()));
}

#[tokio::test]
async fn one_tenants_bodies_leave_room_for_others() {
    let limits = ServerLimits { body_max_bytes: 1_000, in_flight_max_bytes: 2_000, ..ServerLimits::default() };
    let world = World::with(limits).await;
    let body = || request(Method::POST, "/v1/failures", &world.worker, stuck(900));
    let _stalled = stall_with(&world, body(), 900).await;
    assert_eq!(world.send(body()).await.short(), (503, "busy".into()));
    let report = r#"{"run_id":"a","error":{"message":"m"}}"#;
    assert_eq!(world.post("/v1/failures", &world.other_worker, report).await.status, 201);
}

#[tokio::test]
async fn texts_that_only_json_can_encode_are_kept() {
    let world = World::new().await;
    let text = r#""\u0000 \ud800 <script>alert(1)</script> \u001b[31m \u202e""#;
    let body = format!(
        r#"{{"run_id":"a","agent":{text},"customer":{text},"error":{{"type":{text},"message":{text},"detail":{text},"headers":{{"x":{text}}}}},"links":{{"l":{text}}}}}"#
    );
    assert_eq!(world.work("/v1/failures", body).await.status, 201);
    let shown = world.get("/v1/runs/a", &world.worker).await.text;
    assert!(shown.contains(&format!(r#""message":{text}"#)), "{shown}");
    assert!(shown.contains(&format!(r#""links":{{"l":{text}}}"#)), "{shown}");
    assert_eq!(world.get("/v1/runs?agent=%00", &world.tenant).await.status, 200);
}

/// A name is returned as sent and found as shown; one that looks alike is another name.
#[tokio::test]
async fn names_that_only_json_can_encode_stay_distinct() {
    let world = World::new().await;
    let (lone, letters) = (r#""\ud800""#, r#""\\ud800""#);
    let fields = ["agent", "task_type", "customer", "environment", "model", "provider", "tool", "step"];
    for (run, name) in [("lone", lone), ("letters", letters), ("upper", r#""\uD800""#)] {
        let all: String = fields.iter().map(|field| format!(r#""{field}":{name},"#)).collect();
        let steps = format!(
            r#""steps":[{{"name":{name},"effect":false,"status":"committed"}}],"versions":{{"prompt":{name}}}"#
        );
        let body = format!(r#"{{"run_id":"{run}",{all}{steps},"error":{{"message":"m"}}}}"#);
        assert_eq!(world.work("/v1/failures", body).await.status, 201, "{run}");
    }
    for (run, name, key) in [("lone", lone, "step:@ed@a0@80"), ("letters", letters, "step:@5cud800")] {
        let shown = world.get(&format!("/v1/runs/{run}"), &world.tenant).await;
        assert_eq!(shown.status, 200, "{run}");
        for field in fields.iter().chain(&["prompt", "name"]) {
            assert!(shown.text.contains(&format!(r#""{field}":{name}"#)), "{run} {field}: {}", shown.text);
        }
        assert!(shown.text.contains(&format!(r#""key":"{key}""#)), "{run}: {}", shown.text);
    }
    for field in ["agent", "customer", "environment"] {
        let found = async |shown: &str| {
            let listed = world.get(&format!("/v1/runs?{field}={shown}"), &world.tenant).await;
            assert_eq!(listed.status, 200, "{field}: {}", listed.text);
            ["lone", "letters", "upper"].map(|run| listed.text.contains(&format!(r#""run_id":"{run}""#)))
        };
        assert_eq!(found("%5Cud800").await, [true, false, true], "{field}");
        assert_eq!(found("%5C%5Cud800").await, [false, true, false], "{field}");
    }
    for page in ["/v1/runs", "/v1/patterns", "/v1/stats", "/v1/breakers", "/v1/changes", "/v1/health"] {
        assert_eq!(world.get(page, &world.tenant).await.status, 200, "{page}");
    }
    let body = r#"{"run_id":"a\ud800","error":{"message":"m"}}"#;
    assert_eq!(world.work("/v1/failures", body).await.status, 422, "an id is no name");
}

#[tokio::test]
async fn the_openapi_document_needs_no_key() {
    let world = World::new().await;
    let request = Request::builder().uri("/openapi.json").body(Body::empty()).unwrap();
    let answered = world.send(request).await;
    assert_eq!(answered.get("openapi"), "3.1.0");
    assert_eq!(answered.json(), redrive_server::openapi());
}
