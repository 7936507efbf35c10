use super::*;
use crate::out::tests::buffer;

fn dead_letter() -> RunDetail {
    let text = r#"{
        "run_id":"task-42","tenant":"acme","queue":"mail","agent":"writer\u001b[31m","task_type":null,"state":"dead",
        "attempt":2,"revision":1,"reason":"auth_failed","category":"permanent","dead_because":"permanent",
        "severity":"high","environment":"production","customer":null,"model":"gpt-5","provider":null,"tool":null,
        "step":null,"idempotency_key":null,"pattern":"p1","template":"Invalid key ‹n›",
        "received_at":"2026-01-01T11:00:00Z","updated_at":"2026-01-01T11:59:30Z","next_attempt_at":null,"held_by":null,
        "deferred_until":null,"merged_into":null,"replays":0,
        "payload":{"n": 1.10},"content_type":null,"headers":{},"order_key":null,"versions":{},"destination":null,
        "resumable":false,
        "attempts":[{"attempt":2,"outcome":"failed","recorded_at":"2026-01-01T11:59:30Z","began_at":null,
            "started_at":"2026-01-01T11:59:20Z","ended_at":"2026-01-01T11:59:25Z","worker":"w1","revision":1,
            "replay":true,"error":{"type":"AuthError","message":"Invalid key 7","detail":"1\n2\n3\n4\n5\n6\n7\n8",
            "http_status":401,"headers":{}},"response":null,"partial_output":null,"finish_reason":null,"usage":null,
            "model":null,"provider":null,"tool":null,"step":null,"versions":{},"fingerprint":"1-0","verdict":null,
            "late":null}],
        "steps":[{"name":"load","key":"k","effect":true,"status":"committed","output":null,"attempt":1,
            "at":"2026-01-01T11:00:00Z"}],
        "history":[{"at":"2026-01-01T11:58:00Z","actor":"key-1","event":"replay","from":"dead","to":"scheduled",
            "note":"rotated\nit"}],
        "verdict":{"action":"dead_letter","reason":"auth_failed","category":"permanent","rule":"r",
            "why":"The key was refused.","recommended_action":"fix_and_replay","next_attempt_at":null,"held_by":null,
            "dead_because":"permanent","changes":[],"target":{"agent":null,"model":null,"queue":null}},
        "links":{"trace":"https://t/1"},"replayable":true,"instructions":"Ask finance first."}"#;
    serde_json::from_str(text).unwrap()
}

fn printed(full: bool) -> String {
    let run = dead_letter();
    let (shared, mut out) = buffer();
    let page = Page { run: &run, now: "2026-01-01T12:00:00Z".parse().unwrap(), full, tenant: None };
    page.print(&mut out).unwrap();
    shared.text()
}

#[test]
fn a_dead_letter_says_what_happened_what_is_advised_and_what_comes_next() {
    insta::assert_snapshot!(printed(false), @r#"
    task-42  dead (permanent)  tenant acme, queue mail

    The key was refused.
    Advised: mend the cause, then replay

    The queue's owner says:
      Ask finance first.

    FACTS
      reason          auth_failed, permanent
      received        60 min ago (2026-01-01T11:00:00.000Z)
      updated         30 s ago (2026-01-01T11:59:30.000Z)
      agent           writer\u{1b}[31m
      severity        high
      environment     production
      model           gpt-5
      pattern         p1  Invalid key ‹n›
      trace           https://t/1

    ATTEMPTS
      #2   30 s ago     failed on w1, took 5 s, a replay: Invalid key 7

    LAST ERROR
      AuthError, HTTP 401
      Invalid key 7
      1
      2
      3
      4
      5
      6
      … 2 more lines (--full shows all)

    STEPS
      committed   load (key k, attempt 1, an effect)

    PAYLOAD, revision 1
      {"n": 1.10}

    HISTORY
      2 min ago    replay by key-1, dead → scheduled: rotated\nit

    NEXT
      redrive runs plan task-42
      redrive runs replay task-42 --reason '…'
      redrive runs resolve task-42 --reason '…'
      redrive runs discard task-42 --reason '…'
      redrive runs note task-42 '…'
    "#);
}

#[test]
fn in_full_nothing_is_folded() {
    let page = printed(true);
    assert!(page.contains("\n  8\n") && !page.contains("more lines"), "{page}");
}

#[test]
fn a_run_that_recovered_does_not_open_with_its_old_failure() {
    let mut run = dead_letter();
    run.summary.state = StateName::Recovered;
    assert_eq!(happened(&run), ["It recovered on attempt 2.", "Before that: The key was refused."]);
}
