//! Request ids, the span of a request, and metrics.

use axum::body::Body;
use http::{Method, Request};

use crate::world::{Answered, Log, World, request};

async fn get_as(world: &World, request_id: &str, path: &str, key: &str) -> Answered {
    let mut request = request(Method::GET, path, key, Body::empty());
    request.headers_mut().insert("x-request-id", request_id.parse().unwrap());
    world.send(request).await
}

#[tokio::test]
async fn every_answer_carries_the_request_id() {
    let world = World::new().await;
    for (path, key, status) in [
        ("/v1/limits", &world.worker, 200),
        ("/v1/runs/absent", &world.tenant, 404),
        ("/v1/limits", &String::new(), 401),
        ("/v1/keys", &world.tenant, 403),
        ("/v1/leases", &world.worker, 405),
        ("/nowhere", &world.worker, 404),
        ("/login", &String::new(), 200),
        ("/runs", &String::new(), 401),
    ] {
        let answered = get_as(&world, "call-7", path, key).await;
        assert_eq!((answered.status.as_u16(), &answered.headers["x-request-id"]), (status, &"call-7".parse().unwrap()));
    }
    let made = [world.get("/healthz", "").await, world.get("/healthz", "").await];
    let made = made.map(|answered| answered.headers["x-request-id"].to_str().unwrap().to_owned());
    assert!(made[0] != made[1] && made[0].len() == 32, "{made:?}");
    assert_ne!(get_as(&world, "a b", "/healthz", "").await.headers["x-request-id"], "a b");
}

#[tokio::test]
async fn log_lines_name_request_route_tenant_and_role() {
    let world = World::new().await;
    let (log, _guard) = Log::start();
    get_as(&world, "first", "/v1/runs/absent", &world.tenant).await;
    get_as(&world, "second", "/v1/keys", &world.operator).await;
    get_as(&world, "fourth", "/nowhere", "").await;
    let text = log.text();
    for (span, event) in [
        (
            r#"request{request_id="first" method="GET" route="/v1/runs/{run_id}" role="tenant" tenant=acme}"#,
            r#"request finished status=404 code="not_found""#,
        ),
        (
            r#"request{request_id="second" method="GET" route="/v1/keys" role="operator" tenant="*"}"#,
            r#"request finished status=403 code="forbidden""#,
        ),
        (
            r#"request{request_id="fourth" method="" route="other"}"#,
            r#"request finished status=404 code="no_such_path""#,
        ),
    ] {
        assert!(text.lines().any(|line| line.contains(span) && line.contains(event)), "{span} {event} in {text}");
    }
}

#[tokio::test]
async fn metrics_count_and_time_requests_by_route() {
    let world = World::new().await;
    world.kill("a").await;
    world.fail("b").await;
    world.get("/v1/nothing", &world.worker).await;
    world.send(Request::builder().uri("/login").body(Body::empty()).unwrap()).await;
    let metrics = world.get("/metrics", &world.operator).await;
    assert_eq!(metrics.headers["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    for line in [
        "# TYPE redrive_http_requests counter",
        r#"redrive_http_requests_total{method="POST",route="/v1/failures",status="2xx"} 2"#,
        r#"redrive_http_requests_total{method="",route="other",status="4xx"} 1"#,
        r#"redrive_http_requests_total{method="GET",route="/login",status="2xx"} 1"#,
        "# TYPE redrive_http_request_duration_seconds histogram",
        r#"redrive_http_request_duration_seconds_count{method="POST",route="/v1/failures"} 2"#,
        r#"redrive_http_request_duration_seconds_bucket{le="+Inf",method="POST",route="/v1/failures"} 2"#,
        r#"redrive_runs{state="dead"} 1"#,
        r#"redrive_runs{state="scheduled"} 1"#,
        "redrive_set_aside_rows 0",
        "redrive_request_body_bytes 0",
        "redrive_response_body_bytes 0",
        "# EOF",
    ] {
        assert!(metrics.text.lines().any(|said| said == line), "{line} in {}", metrics.text);
    }
    assert_eq!(world.get("/metrics", &world.tenant).await.short(), (403, "forbidden".into()));
}

#[tokio::test]
async fn metrics_time_commits_queues_and_leases() {
    let world = World::new().await;
    world.fail("a").await;
    world.wait(3_600_000);
    assert_eq!(world.lease(10).await.len(), 1);
    assert_eq!(world.lease(10).await.len(), 0);
    let metrics = world.get("/metrics", &world.operator).await.text;
    let count = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_count "));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse::<u64>().unwrap()
    };
    assert_eq!((count("redrive_lease_wait_seconds"), count("redrive_lease_overdue_seconds")), (1, 1));
    let commits = count("redrive_commit_duration_seconds");
    assert!(commits >= 3, "keys, a report and two lease calls: {commits}");
    assert_eq!(count("redrive_commit_commands"), commits);
    assert!(count("redrive_command_queue_wait_seconds") >= commits);
    for line in ["# TYPE redrive_commit_commands histogram", "# UNIT redrive_commit_duration_seconds seconds"] {
        assert!(metrics.lines().any(|written| written == line), "{line} in {metrics}");
    }
}
