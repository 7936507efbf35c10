//! Many reports in one call: always 200, a line each, in order.

use http::Method;
use serde_json::Value;

use crate::world::{Answered, World, request};

async fn send(world: &World, body: impl Into<axum::body::Body>) -> Answered {
    let mut request = request(Method::POST, "/v1/failures", &world.worker, body);
    request.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    world.send(request).await
}

fn lines(answered: &Answered) -> Vec<(u64, String)> {
    let read = |line: &str| {
        let json: Value = serde_json::from_str(line).unwrap();
        let word = json["code"].as_str().or_else(|| json["run_id"].as_str()).unwrap().to_owned();
        (json["status"].as_u64().unwrap(), word)
    };
    answered.text.lines().map(read).collect()
}

#[tokio::test]
async fn each_line_of_a_batch_has_its_own_answer() {
    let world = World::new().await;
    let body = [
        &br#"{"run_id":"a","attempt":1,"error":{"message":"m"}}"#[..],
        br#"{"run_id":"b","bogus":1,"error":{"message":"m"}}"#,
        b"not json",
        b"",
        b"{\"run_id\":\"\xff\"}",
        br#"{"run_id":"c","tenant":"globex","error":{"message":"m"}}"#,
        br#"{"run_id":"a","attempt":1,"error":{"message":"m"}}"#,
        br#"{"run_id":"a","attempt":1,"error":{"message":"other"}}"#,
        br#"{"run_id":"d","error":{"message":"m"}}"#,
    ]
    .join(&b'\n');
    let answered = send(&world, body).await;
    assert_eq!(answered.status, 200);
    assert_eq!(answered.headers["content-type"], "application/x-ndjson");
    let expected = [
        (201, "a"),
        (422, "unknown_field"),
        (400, "bad_json"),
        (400, "bad_json"),
        (422, "wrong_tenant"),
        (200, "a"),
        (409, "attempt_conflict"),
        (201, "d"),
    ];
    assert_eq!(lines(&answered), expected.map(|(status, word)| (status, word.to_owned())));
}

#[tokio::test]
async fn a_batch_longer_than_a_piece_keeps_its_order() {
    let world = World::new().await;
    let line = |i: usize| match i % 7 {
        3 => "{}".to_owned(),
        _ => format!(r#"{{"run_id":"r-{i}","error":{{"message":"m"}}}}"#),
    };
    let body: Vec<String> = (0..2_500).map(line).collect();
    let answered = lines(&send(&world, body.join("\r\n")).await);
    assert_eq!(answered.len(), 2_500);
    for (i, (status, word)) in answered.iter().enumerate() {
        let expected = if i % 7 == 3 { (422, "invalid_field".to_owned()) } else { (201, format!("r-{i}")) };
        assert_eq!((*status, word.clone()), expected, "line {i}");
    }
}

#[tokio::test]
async fn a_report_is_recognised_in_a_batch_and_alone() {
    let world = World::new().await;
    let report = r#"{"run_id":"a","attempt":1,"error":{"message":"m"}}"#;
    assert_eq!(world.work("/v1/failures", report).await.status, 201);
    assert_eq!(lines(&send(&world, report).await), [(200, "a".to_owned())]);
}

#[tokio::test]
async fn too_many_lines_are_refused_before_any_is_stored() {
    let limits = redrive_server::ServerLimits { batch_max_lines: 2, ..redrive_server::ServerLimits::default() };
    let world = World::with(limits).await;
    let line = r#"{"run_id":"a","error":{"message":"m"}}"#;
    let answered = send(&world, [line, line, line].join("\n")).await;
    assert_eq!((answered.short(), answered.get("limit_lines")), ((413, "body_too_large".into()), 2.into()));
    assert_eq!(world.get("/v1/runs/a", &world.worker).await.status, 404);
}
