//! One run in detail, over rows put in by hand.

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::wire::RunDetail;
use rusqlite::params;

use crate::shared::detail::run_detail;
use crate::shared::reader::ready;
use crate::sqlite::tests::fixture::{Fixture, NOW_MS, Seed};
use redrive_engine::codec::encode;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{DetailCall, PayloadKind, RunRef};
use redrive_engine::runs::document::position;

const VERDICT: &str = r#"{"action":"retry","reason":"timeout","category":"transient","rule":"builtin.timeout",
    "why":"It timed out; another try may help.","recommended_action":"retry_with_backoff","next_attempt_at":null,
    "held_by":null,"dead_because":null,"changes":[],"target":{"agent":null,"model":null,"queue":null}}"#;

fn show(fixture: &Fixture, tenant: &str, run_id: &str) -> Result<RunDetail> {
    let at = RunRef { tenant: tenant.parse().unwrap(), run_id: run_id.parse().unwrap() };
    ready(run_detail(&fixture.conn, &at, &DetailCall::default()))
}

fn attempt(fixture: &Fixture, run: i64, number: u32, outcome: Outcome, verdict: Option<&str>, body: &str) {
    let insert = "INSERT INTO attempts (run, attempt, outcome, state, fp_version, fp_hash, pattern_new, recorded_at, origin, \
         verdict, body) VALUES (?, ?, ?, ?, 1, 255, 0, ?, ?, ?, ?)";
    let state = position(StateName::ALL, &StateName::Scheduled);
    let at = NOW_MS + i64::from(number) * 10;
    let origin = r#"{"began_at":"2027-01-15T08:00:00Z","worker":"w1","revision":1}"#;
    let origin = if number == 1 { r#"{"revision":1}"# } else { origin };
    let verdict = verdict.map(|verdict| encode(verdict.as_bytes()));
    let outcome = position(Outcome::ALL, &outcome);
    let values = params![run, number, outcome, state, at, origin, verdict, encode(body.as_bytes())];
    fixture.conn.execute(insert, values).unwrap();
}

#[test]
fn a_run_nobody_has_or_another_tenants_is_not_found() {
    let fixture = Fixture::with([Seed::default(), Seed { tenant: "globex", ..Seed::default() }]);
    assert!(show(&fixture, "acme", "run-1").is_ok());
    for (tenant, run_id) in [("acme", "run-2"), ("globex", "run-1"), ("nobody", "run-1"), ("acme", "run-9")] {
        assert!(matches!(show(&fixture, tenant, run_id).map_err(Error::from), Err(Error::NotFound("run"))));
    }
}

#[test]
fn a_payload_comes_back_byte_for_byte() {
    let fixture = Fixture::with([Seed::default()]);
    let token = r#"{"n":12345678901234567890.10, "t":"\u0000 \ud800","n":1}"#;
    fixture.payload(1, 1, PayloadKind::Json, token.as_bytes());
    let shown = show(&fixture, "acme", "run-1").unwrap();
    assert_eq!(shown.body.payload.as_ref().map(|raw| raw.get()), Some(token));
    assert!(serde_json::to_string(&shown).unwrap().contains(token));
    fixture.payload(1, 1, PayloadKind::Bytes, &[0, 255, 10]);
    let shown = show(&fixture, "acme", "run-1").unwrap().body;
    assert_eq!((shown.payload.is_none(), shown.payload_base64.as_deref()), (true, Some("AP8K")));
}

#[test]
fn a_run_that_came_without_a_payload_shows_none() {
    let fixture = Fixture::with([Seed::default()]);
    fixture.conn.execute("DELETE FROM payloads", []).unwrap();
    let shown = show(&fixture, "acme", "run-1").unwrap().body;
    assert!(shown.payload.is_none() && shown.payload_base64.is_none() && shown.payload_omitted.is_none());
}

#[test]
fn attempts_show_late_failures_and_the_last_verdict() {
    let fixture = Fixture::with([Seed { state: StateName::Recovered, attempt: 2, ..Seed::default() }]);
    attempt(&fixture, 1, 1, Outcome::Failed, Some(VERDICT), r#"{"error":{"message":"out"},"tool":"stripe"}"#);
    attempt(&fixture, 1, 2, Outcome::Succeeded, None, r#"{"output":{"ok": 1}}"#);
    let late = encode(br#"{"error":{"message":"too late"}}"#);
    let insert = "INSERT INTO late_failures (run, attempt, epoch, body) VALUES (1, 2, 1, ?)";
    fixture.conn.execute(insert, [late]).unwrap();
    let body = show(&fixture, "acme", "run-1").unwrap().body;
    let shown: Vec<_> = body.attempts.iter().map(|a| (a.attempt, a.outcome.as_str(), a.worker.is_some())).collect();
    assert_eq!(shown, [(1, "failed", false), (2, "succeeded", true)]);
    assert_eq!(body.attempts[0].fingerprint.as_deref(), Some("1-00000000000000ff"));
    assert_eq!(
        body.attempts[1].late.as_ref().map(|error| error.message.decode().into_owned()),
        Some("too late".into())
    );
    assert_eq!(body.output.map(|raw| raw.get().to_owned()).as_deref(), Some(r#"{"ok": 1}"#));
    assert_eq!(body.verdict.unwrap().rule, "builtin.timeout");
}

#[test]
fn the_attempt_under_way_is_shown_as_running() {
    let life = r#"{"w":"w7","rp":true,"l":{"expires_at":9,"lease_ms":1,"progress_at":1,"deadline_at":9,"began_at":1800000000000}}"#;
    let fixture = Fixture::with([Seed { state: StateName::Running, life, attempt: 3, ..Seed::default() }]);
    let body = show(&fixture, "acme", "run-1").unwrap().body;
    let [running] = body.attempts.as_slice() else { panic!("one attempt") };
    assert_eq!((running.attempt, running.outcome.as_str(), running.replay), (3, "running", true));
    assert_eq!(running.worker.as_ref().map(|worker| worker.as_str()), Some("w7"));
    assert_eq!(running.began_at.map(|at| at.as_millis()), Some(NOW_MS));
}

#[test]
fn history_merges_moves_and_attempts_by_time() {
    let fixture = Fixture::with([Seed::default()]);
    attempt(&fixture, 1, 1, Outcome::Failed, Some(VERDICT), "{}");
    attempt(&fixture, 1, 2, Outcome::Cancelled, None, "{}");
    let insert =
        "INSERT INTO history (run, at, actor, event, from_state, to_state, note) VALUES (1, ?, 'key:k1', ?, 2, 0, ?)";
    fixture.conn.execute(insert, params![NOW_MS + 15, "replay", encode(br#""fixed \u0000""#)]).unwrap();
    let body = show(&fixture, "acme", "run-1").unwrap().body;
    let shown: Vec<_> = body.history.iter().map(|entry| (entry.event.as_str(), entry.actor.as_str())).collect();
    assert_eq!(
        shown,
        [("received", "reporter"), ("failed", "reporter"), ("replay", "key:k1"), ("cancelled", "worker:w1")]
    );
    let notes: Vec<_> = body.history.iter().filter_map(|entry| entry.note.as_ref()).map(|note| note.token()).collect();
    assert_eq!(notes, [r#""It timed out; another try may help.""#, r#""fixed \u0000""#]);
    assert_eq!(body.history[3].from, Some(StateName::Running));
}

#[test]
fn steps_come_in_the_order_in_which_they_began() {
    let fixture = Fixture::with([Seed::default()]);
    let insert = "INSERT INTO steps (tenant, run, run_id, holds, used_at, used_epoch, attempt, epoch, key, named, name, \
         effect, status, at, output, omitted_bytes, omitted_sha256) \
         VALUES (1, 1, 'run-1', 1, 0, 0, 1, 0, ?1, 1, ?1, 1, 1, 0, ?2, ?3, ?4)";
    fixture.conn.execute(insert, params!["z", encode(br#"{"a": 1}"#), None::<i64>, None::<String>]).unwrap();
    fixture.conn.execute(insert, params!["b", None::<Vec<u8>>, 70_000, "ab"]).unwrap();
    let steps = show(&fixture, "acme", "run-1").unwrap().body.steps;
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0].output.as_ref().map(|raw| raw.get()), Some(r#"{"a": 1}"#));
    assert_eq!(
        (steps[1].key.as_str(), steps[1].output_omitted.as_ref().map(|omitted| omitted.bytes)),
        ("b", Some(70_000))
    );
}

#[test]
fn instructions_are_those_of_the_queue() {
    let fixture = Fixture::with([Seed::default()]);
    fixture.conn.execute(r#"UPDATE queues SET settings = '{"instructions":"call Ann"}'"#, []).unwrap();
    assert_eq!(show(&fixture, "acme", "run-1").unwrap().body.instructions.as_deref(), Some("call Ann"));
}

#[test]
fn damaged_rows_are_errors_and_never_panics() {
    let fixture = Fixture::with([Seed::default()]);
    for damage in [
        "UPDATE runs SET life = '{'",
        "UPDATE payloads SET body = x'09'",
        "UPDATE payloads SET kind = 77",
        "UPDATE runs SET run_id = 'a b'",
    ] {
        let broken = Fixture::with([Seed::default()]);
        broken.conn.execute(damage, []).unwrap();
        assert!(show(&broken, "acme", "run-1").is_err(), "{damage}");
    }
    assert!(show(&fixture, "acme", "run-1").is_ok());
}
