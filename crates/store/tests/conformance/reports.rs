//! Failures reported in one call: attempt numbers, stored rows, answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::lifecycle::Refused;
use redrive_core::reason::Reason;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::verdict::{Action, DeadBecause};
use redrive_engine::{
    Error, FixedPayload, NewFailure, PatternsCall, PayloadKind, Replay, Success, TenantScope, Triage, UnderLease,
};

use crate::world::{World, at, failed, new_run, numbered, payload, report, start, success};

pub const TIMEOUT: &str = "Request timed out";
/// What no retry can help.
pub const BUG: &str = "KeyError: 'invoice'";

pub async fn first_report_is_judged_stored_and_answered(world: World) {
    let reported = world.store.report(report("r1", TIMEOUT)).await.unwrap();
    assert!(reported.fresh);
    let answer = reported.answer;
    assert_eq!((answer.state, answer.attempt), (StateName::Scheduled, 1));
    assert_eq!((answer.verdict.action, &answer.verdict.reason), (Action::Retry, &Reason::Timeout));
    assert!(answer.verdict.next_attempt_at.unwrap() > world.store.now());
    let shown = world.show("r1").await;
    assert_eq!(shown.body.verdict, Some(answer.verdict.into_verdict()));
    assert_eq!(shown.summary.pattern, Some(answer.pattern.id));
    assert_eq!(shown.body.attempts.len(), 1);
}

pub async fn repeated_report_gets_the_stored_answer(world: World) {
    let first = world.store.report(numbered("r1", TIMEOUT, 1)).await.unwrap();
    world.wait(86_400_000);
    let again = world.store.report(numbered("r1", TIMEOUT, 1)).await.unwrap();
    assert_eq!((again.fresh, again.answer), (false, first.answer));
    assert_eq!(world.show("r1").await.body.attempts.len(), 1);
}

pub async fn different_report_of_the_same_attempt_is_a_conflict(world: World) {
    world.store.report(numbered("r1", TIMEOUT, 3)).await.unwrap();
    for (message, attempt) in [("other words", 3), (TIMEOUT, 2), ("other words", 1)] {
        let refused = world.store.report(numbered("r1", message, attempt)).await;
        assert!(matches!(refused, Err(Error::AttemptConflict { attempt: n }) if n == attempt), "{message} {attempt}");
    }
}

pub async fn unnumbered_repeat_is_a_resend_until_the_retry_is_due(world: World) {
    let first = world.fail("r1", TIMEOUT).await;
    world.wait(59_000);
    let again = world.store.report(report("r1", TIMEOUT)).await.unwrap();
    assert_eq!((again.fresh, &again.answer), (false, &first));
    let other = world.fail("r1", "Request timed out!").await;
    assert_eq!(other.attempt, 2);
    world.wait(600_000);
    let later = world.store.report(report("r1", "Request timed out!")).await.unwrap();
    assert_eq!((later.fresh, later.answer.attempt), (true, 3));
}

pub async fn gaps_in_attempts_count_towards_the_budget(world: World) {
    let answer = world.store.report(numbered("r1", TIMEOUT, 4)).await.unwrap().answer;
    assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Exhausted)));
}

/// The highest number that an attempt can have.
const LAST: u32 = 1_000_000;

fn is_too_many<T: std::fmt::Debug>(answered: &Result<T, Error>) -> bool {
    matches!(answered, Err(Error::Refused(refused)) if refused.code() == "too_many_attempts")
}

pub async fn failure_beyond_the_maximum_attempt_changes_nothing(world: World) {
    world.store.report(numbered("r1", TIMEOUT, LAST)).await.unwrap();
    world.fail("r2", BUG).await;
    let shown = |detail| serde_json::to_value(&detail).unwrap();
    let before = (shown(world.show("r1").await), shown(world.show("r2").await));
    let many = (1..=5).map(|n| report("r1", &format!("Request timed out {n}"))).collect();
    for answered in world.store.report_all(many).await {
        assert!(is_too_many(&answered), "{answered:?}");
    }
    assert_eq!((shown(world.show("r1").await), shown(world.show("r2").await)), before);
    let again = world.store.report(report("r1", TIMEOUT)).await.unwrap();
    assert_eq!((again.fresh, again.answer.attempt), (false, LAST));
}

pub async fn maximum_attempt_is_never_followed_by_another(world: World) {
    world.store.report(numbered("r1", TIMEOUT, LAST - 1)).await.unwrap();
    world.triage("r1", Triage::replay(false)).await.unwrap();
    let (leased, under) = world.lease_one().await;
    assert_eq!(leased.attempt, LAST);
    let answer = world.store.fail(under, failed(TIMEOUT)).await.unwrap();
    assert_eq!((answer.state, answer.verdict.dead_because), (StateName::Dead, Some(DeadBecause::Exhausted)));
    for force in [false, true] {
        let refused = world.triage("r1", Triage::replay(force)).await;
        assert!(is_too_many(&refused), "force {force}: {refused:?}");
    }
    world.wait(86_400_000);
    assert!(world.lease(10).await.is_empty());
    assert_eq!(world.state("r1").await, StateName::Dead);
}

pub async fn a_caller_cannot_succeed_past_the_last_attempt(world: World) {
    world.retried_by_caller("default").await;
    let (_, under) = world.start("r1").await;
    world.store.fail(under.clone(), failed(TIMEOUT)).await.unwrap();
    world.store.report(numbered("r1", BUG, LAST)).await.unwrap();
    let succeeded = world.store.succeed(Success { lease: None, ..success(&under, "1") }).await;
    assert!(is_too_many(&succeeded), "{succeeded:?}");
    assert_eq!(world.show("r1").await.summary.attempt, LAST);
}

/// Not even by force; without a fix it is replayed as ever.
pub async fn fix_beyond_the_maximum_revision_is_refused(world: World) {
    world.fail("r1", BUG).await;
    world.alter("UPDATE runs SET revision = 1000000");
    let fixed = |force| {
        let fix = FixedPayload { from_revision: LAST, payload: payload(PayloadKind::Json, b"[2]"), patch: None };
        Triage::Replay(Box::new(Replay { fix: Some(fix), force, ..Replay::default() }))
    };
    for force in [false, true] {
        let refused = world.triage("r1", fixed(force)).await;
        assert!(
            matches!(&refused, Err(Error::Refused(refused)) if refused.code() == "too_many_revisions"),
            "force {force}: {refused:?}"
        );
    }
    assert_eq!(world.show("r1").await.summary.revision, LAST);
    assert_eq!(world.triage("r1", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
}

pub async fn a_failure_reopens_a_closed_run(world: World) {
    let (_, under) = world.start("r1").await;
    world.store.succeed(success(&under, "1")).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Succeeded);
    let answer = world.fail("r1", TIMEOUT).await;
    assert_eq!((answer.state, answer.attempt), (StateName::Scheduled, 2));
    world.fail("r2", BUG).await;
    world.triage("r2", Triage::Discard).await.unwrap();
    assert_eq!(world.fail("r2", "KeyError: 'other'").await.state, StateName::Dead);
}

pub async fn a_payload_comes_back_byte_for_byte(world: World) {
    let tokens: [&str; 4] = [
        r#"{"nul":"\u0000","half":"\ud800", "n":12345678901234567890.10}"#,
        r#""text""#,
        "null",
        &format!("\"{}\"", "x".repeat(1_000_000)),
    ];
    for (n, token) in tokens.iter().enumerate() {
        let run = format!("json-{n}");
        let mut report = report(&run, BUG);
        report.run.payload = payload(PayloadKind::Json, token.as_bytes());
        world.store.report(report).await.unwrap();
        assert_eq!(world.show(&run).await.body.payload.unwrap().get(), *token);
    }
    let mut report = report("bytes", BUG);
    report.run.payload = payload(PayloadKind::Bytes, &[0, 255, 128]);
    world.store.report(report).await.unwrap();
    assert_eq!(world.show("bytes").await.body.payload_base64.as_deref(), Some("AP+A"));
}

pub async fn omitted_payload_is_rejected_where_workers_retry(world: World) {
    let omitted = |run: &str| {
        let mut report = report(run, TIMEOUT);
        report.run.payload = payload(PayloadKind::Omitted, b"");
        report
    };
    let answer = world.store.report(omitted("r1")).await.unwrap().answer;
    assert_eq!(answer.verdict.dead_because, Some(DeadBecause::Rejected));
    assert!(!world.show("r1").await.body.replayable);
    world.retried_by_caller("callers").await;
    let mut by_caller = omitted("r2");
    by_caller.run.queue = "callers".parse().unwrap();
    assert_eq!(world.store.report(by_caller).await.unwrap().answer.state, StateName::Scheduled);
}

pub async fn sixty_four_concurrent_reports_are_recorded_once(world: World) {
    let world = Arc::new(world);
    let clients: Vec<_> = (0..64)
        .map(|_| {
            let store = world.store.clone();
            async move { store.report(report("r1", TIMEOUT)).await.unwrap() }
        })
        .collect();
    let mut answers = Vec::new();
    let mut set = tokio::task::JoinSet::new();
    for client in clients {
        set.spawn(client);
    }
    while let Some(answer) = set.join_next().await {
        answers.push(answer.unwrap());
    }
    assert_eq!(answers.iter().filter(|answer| answer.fresh).count(), 1);
    assert!(answers.iter().all(|answer| answer.answer == answers[0].answer));
    assert_eq!(world.show("r1").await.body.attempts.len(), 1);
}

pub async fn new_pattern_is_new_once_and_counted_per_tenant(world: World) {
    let first = world.fail("r1", BUG).await;
    let second = world.fail("r2", BUG).await;
    assert_eq!((first.pattern.new, second.pattern.new), (true, false));
    assert_eq!(first.pattern.id, second.pattern.id);
    let theirs = NewFailure {
        run: redrive_engine::NewRun { tenant: "globex".parse().unwrap(), ..new_run("r1") },
        failed: failed(BUG),
    };
    let theirs = world.store.report(theirs).await.unwrap().answer;
    assert!(theirs.pattern.new);
    assert_ne!(theirs.pattern.id, first.pattern.id);
    world.triage("r2", Triage::Resolve).await.unwrap();
    let page = world.store.patterns(&TenantScope::One("acme".parse().unwrap()), PatternsCall::first(10)).await.unwrap();
    assert_eq!(page.patterns.iter().map(|p| (p.count, p.open)).collect::<Vec<_>>(), [(2, 1)]);
    let all = world.store.patterns(&TenantScope::All, PatternsCall::first(10)).await.unwrap();
    let counts: BTreeSet<_> = all.patterns.iter().map(|p| (p.count, p.open, p.tenants.len())).collect();
    assert_eq!(counts, BTreeSet::from([(3, 2, 2)]));
}

/// The answer was lost on the way; meanwhile the retry was leased and went well.
pub async fn resend_after_a_successful_retry_reopens_nothing(world: World) {
    let first = world.fail("r1", TIMEOUT).await;
    world.wait(first.verdict.next_attempt_at.unwrap().since(world.store.now()));
    let (_, under) = world.lease_one().await;
    world.store.succeed(success(&under, "1")).await.unwrap();
    let again = world.store.report(report("r1", TIMEOUT)).await.unwrap();
    assert_eq!((again.fresh, again.answer), (false, first));
    assert_eq!(world.state("r1").await, StateName::Recovered);
}

/// PostgreSQL writes rarely used columns only if a row of the batch has a value.
pub async fn optional_columns_survive_mixed_batches(world: World) {
    let label = |text: &str| Some(Label::from(text));
    let mut told = report("told", TIMEOUT);
    told.run.customer = label("c-9");
    told.run.task_type = label("invoice");
    told.run.idempotency_key = Some("key-1".parse().unwrap());
    told.run.order_key = Some("cart-7".parse().unwrap());
    (told.failed.tool, told.failed.step) = (label("stripe.charge"), label("charge"));
    let together = vec![report("plain", TIMEOUT), told, report("other", TIMEOUT)];
    assert!(world.store.report_all(together).await.iter().all(Result::is_ok));
    assert!(world.store.report(report("alone", TIMEOUT)).await.is_ok());
    let shown = world.show("told").await;
    let said = [&shown.summary.customer, &shown.summary.task_type, &shown.summary.tool, &shown.summary.step];
    assert_eq!(said.map(|label| label.as_ref().unwrap().as_str()), ["c-9", "invoice", "stripe.charge", "charge"]);
    assert_eq!(shown.summary.idempotency_key.unwrap().as_str(), "key-1");
    for run in ["plain", "other", "alone"] {
        let shown = world.show(run).await.summary;
        assert_eq!((shown.customer, shown.task_type, shown.tool, shown.step), (None, None, None, None), "{run}");
        assert_eq!(shown.idempotency_key, None, "{run}");
    }
}

pub async fn resend_window_ends_when_the_retry_is_due(world: World) {
    let first = world.fail("r1", "a failure that nobody knows").await;
    let due = first.verdict.next_attempt_at.unwrap();
    let wait = due.since(world.store.now());
    assert!(wait > 60_000, "past the least time for which the same words are the same report");
    world.wait(wait - 1);
    let again = world.store.report(report("r1", "a failure that nobody knows")).await.unwrap();
    assert_eq!((again.fresh, again.answer.attempt), (false, 1));
    world.wait(1);
    let next = world.store.report(report("r1", "a failure that nobody knows")).await.unwrap();
    assert_eq!((next.fresh, next.answer.attempt), (true, 2));
}

/// A run that its caller retries, and whose payload was too large to send.
async fn by_caller_without_payload(world: &World, run: &str) {
    world.retried_by_caller("callers").await;
    let mut report = report(run, TIMEOUT);
    report.run.payload = payload(PayloadKind::Omitted, b"");
    report.run.queue = "callers".parse().unwrap();
    assert_eq!(world.store.report(report).await.unwrap().answer.state, StateName::Scheduled);
}

pub async fn a_run_without_payload_is_dead_wherever_workers_retry(world: World) {
    let rejected = async |run: &str| {
        let summary = world.show(run).await.summary;
        assert_eq!((summary.state, summary.dead_because), (StateName::Dead, Some(DeadBecause::Rejected)), "{run}");
    };
    world.enqueue("acme", "any").await;
    by_caller_without_payload(&world, "reassigned").await;
    let to_workers = Triage::Reassign { agent: None, queue: Some("default".parse().unwrap()) };
    assert_eq!(world.triage("reassigned", to_workers).await.unwrap(), StateName::Dead);
    rejected("reassigned").await;
    // The caller has the payload; after a release no worker can get it.
    let mut start = start("released");
    start.run.payload = payload(PayloadKind::Omitted, b"");
    let lease = world.store.start(start).await.unwrap().answer.lease.unwrap();
    let under = UnderLease { at: at("acme", "released"), lease: lease.parse().unwrap() };
    assert_eq!(world.store.release(under).await.unwrap().state, StateName::Dead);
    rejected("released").await;
    by_caller_without_payload(&world, "replayed").await;
    let elsewhere = Replay { queue: Some("default".parse().unwrap()), ..Replay::default() };
    let refused = world.act("replayed", Triage::Replay(Box::new(elsewhere))).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::NotReplayable))), "{refused:?}");
    let leased = world.lease(10).await;
    assert_eq!(leased.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["any"]);
}

pub async fn switching_a_queue_to_workers_rejects_runs_without_payload(world: World) {
    by_caller_without_payload(&world, "due").await;
    by_caller_without_payload(&world, "merged").await;
    world.fail("target", BUG).await;
    world.triage("merged", Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
    world.store.put_queue("callers".parse().unwrap(), Default::default()).await.unwrap();
    let because = async |run: &str| world.show(run).await.summary.dead_because;
    assert_eq!(because("due").await, Some(DeadBecause::Rejected), "at once");
    assert_eq!(world.triage("merged", Triage::Unmerge).await.unwrap(), StateName::Dead);
    assert_eq!(because("merged").await, Some(DeadBecause::Rejected));
    // A payload makes it work for them.
    let payload = payload(PayloadKind::Json, b"2");
    let fix = FixedPayload { from_revision: 1, payload, patch: None };
    let replay = Replay { fix: Some(fix), ..Replay::default() };
    world.act("due", Triage::Replay(Box::new(replay))).await.unwrap();
    assert_eq!(world.lease_one().await.0.payload.unwrap().get(), "2");
}
