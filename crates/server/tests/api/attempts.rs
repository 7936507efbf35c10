//! Attempt numbers: tenant, run and attempt identify a report.

use http::Method;
use serde_json::Value;

use crate::world::{World, request};

fn report(attempt: Option<u32>, message: &str) -> String {
    let attempt = attempt.map_or(String::new(), |n| format!(r#""attempt":{n},"#));
    format!(r#"{{"run_id":"task-42",{attempt}"error":{{"message":"{message}"}}}}"#)
}

async fn send(world: &World, attempt: Option<u32>, message: &str) -> (u16, Value) {
    let answered = world.work("/v1/failures", report(attempt, message)).await;
    let json = answered.json();
    let told = if answered.status.is_success() { json["attempt"].clone() } else { json["code"].clone() };
    (answered.status.as_u16(), told)
}

#[tokio::test]
async fn a_failure_gets_its_whole_verdict() {
    let world = World::new().await;
    let answered = world.work("/v1/failures", report(Some(1), "Request timed out")).await;
    assert_eq!(answered.status, 201);
    let mut answer = answered.json();
    let due = answer["verdict"]["next_attempt_at"].take();
    assert!(due.as_str().is_some_and(|due| due.starts_with("2027-01-15T08:00:")), "{due}");
    let why = answer["verdict"]["why"].take();
    assert!(why.as_str().is_some_and(|why| why.len() > 20), "{why}");
    assert_eq!(answer["pattern"]["template"], "Request timed out");
    assert_eq!(answer["pattern"]["new"], true);
    answer["pattern"].take();
    answer["verdict"]["rule"].take();
    insta::assert_json_snapshot!(answer, @r#"
    {
      "attempt": 1,
      "breaker": "closed",
      "pattern": null,
      "run_id": "task-42",
      "state": "scheduled",
      "tenant": "acme",
      "verdict": {
        "action": "retry",
        "category": "transient",
        "changes": [],
        "dead_because": null,
        "held_by": null,
        "next_attempt_at": null,
        "reason": "timeout",
        "recommended_action": "retry_with_backoff",
        "rule": null,
        "target": {
          "agent": null,
          "model": null,
          "queue": null
        },
        "why": null
      }
    }
    "#);
}

#[tokio::test]
async fn a_higher_number_is_a_new_failure_and_gaps_count() {
    let world = World::new().await;
    assert_eq!(send(&world, Some(1), "a").await, (201, 1.into()));
    assert_eq!(send(&world, Some(3), "b").await, (201, 3.into()));
}

#[tokio::test]
async fn a_resent_report_gets_the_stored_answer() {
    let world = World::new().await;
    let first = world.work("/v1/failures", report(Some(2), "a")).await;
    let again = world.work("/v1/failures", format!(" {}\n", report(Some(2), "a"))).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    let mut same = again.json();
    same["pattern"]["new"] = first.json()["pattern"]["new"].clone();
    assert_eq!(same, first.json());
    assert_eq!(send(&world, Some(2), "b").await, (409, "attempt_conflict".into()));
    // A lower number without a report has no digest to compare with.
    assert_eq!(send(&world, Some(1), "a").await, (409, "attempt_conflict".into()));
}

#[tokio::test]
async fn an_unnumbered_report_is_a_resend_until_due() {
    let world = World::new().await;
    assert_eq!(send(&world, None, "Request timed out").await, (201, 1.into()));
    assert_eq!(send(&world, None, "Request timed out").await, (200, 1.into()));
    world.wait(59_000);
    assert_eq!(send(&world, None, "Request timed out").await, (200, 1.into()));
    world.wait(600_000);
    assert_eq!(send(&world, None, "Request timed out").await, (201, 2.into()));
    assert_eq!(send(&world, None, "something else").await, (201, 3.into()));
}

#[tokio::test]
async fn a_new_failure_under_a_live_lease_is_in_flight() {
    let world = World::new().await;
    world.retried_by_caller("default").await;
    assert_eq!(send(&world, Some(1), "a").await, (201, 1.into()));
    let started = world.start("task-42").await;
    assert_eq!((started.status.as_u16(), started.get("attempt")), (200, 2.into()));
    assert_eq!(send(&world, Some(2), "b").await, (409, "in_flight".into()));
    assert_eq!(send(&world, Some(1), "a").await, (200, 1.into()));
}

#[tokio::test]
async fn a_failure_of_a_closed_run_opens_it_again() {
    let world = World::new().await;
    world.kill("task-42").await;
    let resolved = world.post("/v1/runs/task-42/resolve", &world.tenant, "").await;
    assert_eq!(resolved.short(), (200, "resolved".into()));
    assert_eq!(send(&world, Some(2), "Request timed out").await, (201, 2.into()));
    assert_eq!(world.state("task-42").await, "scheduled");
}

#[tokio::test]
async fn payloads_come_back_byte_for_byte() {
    let world = World::new().await;
    let long = format!("\"{}\"", "x".repeat(15 << 20));
    let tokens =
        [r#"{"b":1, "a" :12345678901234567890.10}"#, r#""nul \u0000 half \ud800""#, "[ ]", "1e400", long.as_str()];
    for (i, token) in tokens.iter().enumerate() {
        let body = format!(r#"{{"run_id":"p-{i}","payload":{token},"error":{{"message":"m"}}}}"#);
        assert_eq!(world.work("/v1/failures", body).await.status, 201);
        let shown = world.get(&format!("/v1/runs/p-{i}"), &world.worker).await.text;
        assert!(shown.contains(&format!("\"payload\":{token},")), "{i}");
    }
    let body = r#"{"run_id":"bin","payload_base64":"AP/+","error":{"message":"m"}}"#;
    assert_eq!(world.work("/v1/failures", body).await.status, 201);
    assert_eq!(world.show("bin").await["payload_base64"], "AP/+");
}

#[tokio::test]
async fn an_omitted_payload_is_kept_by_hash_and_never_leased() {
    let world = World::new().await;
    let sha256 = "ab".repeat(32);
    let body = format!(
        r#"{{"run_id":"big","payload_omitted":{{"bytes":99999999,"sha256":"{sha256}"}},"error":{{"message":"Request timed out"}}}}"#
    );
    let answer = world.work("/v1/failures", body).await.json();
    assert_eq!((&answer["state"], &answer["verdict"]["dead_because"]), (&"dead".into(), &"rejected".into()));
    let shown = world.show("big").await;
    assert_eq!((&shown["replayable"], &shown["payload_omitted"]["bytes"]), (&false.into(), &99_999_999.into()));
    let replay = world.post("/v1/runs/big/replay", &world.tenant, "").await;
    assert_eq!(replay.short(), (409, "not_replayable".into()));
}

#[tokio::test]
async fn attempt_and_revision_numbers_are_bounded_in_paths() {
    let world = World::new().await;
    assert_eq!(send(&world, Some(2), "Request timed out").await.0, 201);
    let ask = async |path: String| world.get(&path, &world.tenant).await.short();
    for number in ["0", "1000001", "1048578", "4294967296", "-1", "x"] {
        for path in ["attempts/{}/sent", "revisions/{}"] {
            let path = format!("/v1/runs/task-42/{}", path.replace("{}", number));
            assert_eq!(ask(path.clone()).await, (422, "invalid_field".to_owned()), "{path}");
        }
    }
    for path in ["attempts/1000000/sent", "attempts/1/sent", "revisions/1000000", "revisions/2"] {
        assert_eq!(ask(format!("/v1/runs/task-42/{path}")).await, (404, "not_found".to_owned()), "{path}");
    }
    assert_eq!(world.get("/v1/runs/task-42/attempts/2/sent", &world.tenant).await.status, 200);
}

#[tokio::test]
async fn failures_past_the_last_attempt_are_refused_line_by_line() {
    let world = World::new().await;
    assert_eq!(send(&world, Some(1_000_000), "Request timed out").await, (201, 1_000_000.into()));
    let lines = ["a", "b", "c"].map(|message| report(None, message)).join("\n");
    let lines = format!("{lines}\n{{\"run_id\":\"other\",\"error\":{{\"message\":\"Request timed out\"}}}}");
    let mut request = request(Method::POST, "/v1/failures", &world.worker, lines);
    request.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    let answered = world.send(request).await;
    let answers: Vec<Value> = answered.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for refused in &answers[..3] {
        assert_eq!((&refused["status"], &refused["code"]), (&409.into(), &"too_many_attempts".into()), "{refused}");
    }
    assert_eq!((&answers[3]["status"], &answers[3]["attempt"]), (&201.into(), &1.into()));
    let shown = world.show("task-42").await;
    assert_eq!((&shown["attempt"], shown["attempts"].as_array().map(Vec::len)), (&1_000_000.into(), Some(1)));
    assert_eq!(world.show("other").await["attempts"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_long_run_is_read_page_by_page() {
    let world = World::new().await;
    for n in 1..=5 {
        assert_eq!(send(&world, Some(n), &format!("Request timed out {n}")).await.0, 201);
    }
    let (mut numbers, mut path) = (Vec::new(), "/v1/runs/task-42?limit=2".to_owned());
    loop {
        let shown = world.get(&path, &world.tenant).await.json();
        numbers
            .push(shown["attempts"].as_array().unwrap().iter().map(|one| one["attempt"].clone()).collect::<Vec<_>>());
        let Some(cursor) = shown["next_attempts_cursor"].as_str() else { break };
        path = format!("/v1/runs/task-42?limit=2&attempts_cursor={cursor}");
    }
    assert_eq!(numbers, [vec![4, 5], vec![2, 3], vec![1]]);
    let short = async |path: &str| world.get(path, &world.tenant).await.short();
    assert_eq!(short("/v1/runs/task-42?history_cursor=x").await, (400, "bad_cursor".to_owned()));
    assert_eq!(short("/v1/runs/task-42?limit=501").await, (422, "invalid_parameter".to_owned()));
}
