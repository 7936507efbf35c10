//! How a failure is judged: budgets, waits, streaks and holds.

use super::{because, begun, failing, move_on, next_attempt, noon, refused, waiting};
use crate::classify::{Classified, Evidence, Facts, classify};
use crate::lifecycle::{Begin, Event, Refused, apply};
use crate::policy::{Policy, PolicyLayer, Preset, RetryBy};
use crate::reason::{Category, Reason};
use crate::run::{ATTEMPT_MAX, Due, Run, StateName};
use crate::strategy::Failure;
use crate::text::Label;
use crate::verdict::DeadBecause;

#[test]
fn five_equal_failures_are_poison_across_replays() {
    let failure = Failure::found(Reason::ContentFiltered, "sample");
    let mut run = begun(&Run::new(noon()), noon());
    for n in 1..=5 {
        run = failing(&run, &failure, noon());
        let expected = if n == 5 { DeadBecause::Poison } else { DeadBecause::Permanent };
        assert_eq!(because(&run), Some(expected), "attempt {n}");
        run = begun(&move_on(&run, &Event::Replay { by_person: true, force: false }, noon()), noon());
    }
}

#[test]
fn transient_failures_break_the_poison_streak() {
    let (filtered, timeout) = (Failure::found(Reason::ContentFiltered, "a"), Failure::found(Reason::Timeout, "b"));
    let mut run = begun(&Run::new(noon()), noon());
    for failure in [&filtered, &filtered, &filtered, &timeout, &filtered, &filtered] {
        run = failing(&run, failure, noon());
        run = begun(&move_on(&run, &Event::Replay { by_person: true, force: false }, noon()), noon());
    }
    assert_eq!(run.memory.streak.map(|(_, n)| n), Some(2));
}

#[test]
fn a_changed_retry_is_made_once() {
    let overflow = Failure::found(Reason::ContextOverflow, "sample");
    let run = failing(&begun(&Run::new(noon()), noon()), &overflow, noon());
    assert_eq!(run.due_at().unwrap().since(noon()), 10_000);
    assert_eq!(run.changes.len(), 2);
    let (run, now) = next_attempt(&run);
    assert_eq!(because(&failing(&run, &overflow, now)), Some(DeadBecause::Exhausted));
}

#[test]
fn a_terminal_failure_is_final() {
    let terminal = Failure { terminal: true, ..Failure::found(Reason::Timeout, "sample") };
    assert_eq!(because(&failing(&begun(&Run::new(noon()), noon()), &terminal, noon())), Some(DeadBecause::Permanent));
}

#[test]
fn waits_beyond_a_day_count_as_quota() {
    let facts = Facts { wait_ms: Some(90_000_000), ..Default::default() };
    let reason = Reason::RateLimited;
    let classified = Classified { category: reason.category(), reason, rule: "sample".into(), facts };
    let failure = Failure::new(classified, false, 1);
    assert_eq!(failure.reason, Reason::QuotaExhausted);
    let run = failing(&begun(&Run::new(noon()), noon()), &failure, noon());
    assert_eq!(run.due_at().unwrap().since(noon()), 90_000_000);
}

#[test]
fn huge_retry_after_waits_as_quota() {
    for (value, days) in [("172800", 2), ("99999999999", 31), ("Fri, 31 Dec 9999 23:59:59 GMT", 31)] {
        let headers = [("retry-after", value)];
        let now_ms = Some(noon().as_millis());
        let evidence = Evidence { headers: &headers, now_ms, ..Evidence::of("rate limited") };
        let failure = Failure::new(classify(&evidence), false, 1);
        assert_eq!((&failure.reason, failure.category), (&Reason::QuotaExhausted, Category::Conditional), "{value}");
        let run = failing(&begun(&Run::new(noon()), noon()), &failure, noon());
        let wait = run.due_at().unwrap().since(noon());
        let day = 86_400_000_u64;
        assert!((days * day * 9 / 10..=31 * day).contains(&wait), "{value}: {wait}");
    }
}

#[test]
fn fixed_schedules_spend_exactly_their_budget() {
    for preset in [Preset::Standard, Preset::Internal, Preset::External, Preset::Customer] {
        let layer = PolicyLayer { preset: Some(preset), ..PolicyLayer::default() };
        let policy = Policy::resolve(RetryBy::Worker, &[&layer]);
        let timeout = Failure::found(Reason::Timeout, "sample");
        let (mut run, mut now, mut attempts) = (begun(&Run::new(noon()), noon()), noon(), 1);
        loop {
            let event = Event::Fail { failure: &timeout, attempt: run.attempt, jitter: 0.5 };
            run = apply(&run, &event, &policy, now).unwrap().run;
            let Some(due) = run.due_at() else { break };
            now = due;
            run = begun(&run, now);
            attempts += 1;
        }
        assert_eq!((attempts, because(&run)), (preset.max_attempts(), Some(DeadBecause::Exhausted)), "{preset:?}");
    }
}

#[test]
fn attempts_stop_at_the_maximum() {
    let timeout = Failure::found(Reason::Timeout, "sample");
    let scheduled = Run { attempt: ATTEMPT_MAX - 1, budget_from: ATTEMPT_MAX - 1, ..Run::new(noon()) };
    let last = begun(&scheduled, noon());
    assert_eq!(last.attempt, ATTEMPT_MAX);
    let dead = failing(&last, &timeout, noon());
    assert_eq!(because(&dead), Some(DeadBecause::Exhausted));
    let refused = Refused::TooManyAttempts(ATTEMPT_MAX);
    let beyond = [
        Event::Fail { failure: &timeout, attempt: ATTEMPT_MAX + 1, jitter: 0.5 },
        Event::Succeed { attempt: ATTEMPT_MAX + 1 },
        Event::Replay { by_person: true, force: true },
    ];
    for event in beyond {
        assert_eq!(apply(&dead, &event, &Policy::default(), noon()).unwrap_err(), refused, "{event:?}");
    }
    let waiting = Run { attempt: ATTEMPT_MAX, ..Run::new(noon()) };
    let begin = Event::Begin(Begin { lease_ms: 60_000, ..Begin::default() });
    assert_eq!(apply(&waiting, &begin, &Policy::default(), noon()).unwrap_err(), refused);
}

#[test]
fn failure_memory_survives_a_replay() {
    let refusal = |output| Failure { refused: Some(output), ..Failure::found(Reason::EmptyOutput, "sample") };
    let mut run = begun(&Run::new(noon()), noon());
    for (output, times) in [(7, 1), (7, 2), (8, 1), (8, 2)] {
        run = failing(&run, &refusal(output), noon());
        assert_eq!(run.memory.refused, Some((output, times)));
        run = begun(&move_on(&run, &Event::Replay { by_person: true, force: true }, noon()), noon());
        assert_eq!(run.memory.refused, Some((output, times)), "a replay takes nothing of it back");
    }
    let silent = Failure::found(Reason::Silent, "sample");
    let mut run = Run::new(noon());
    for n in 1..=2 {
        run = failing(&begun(&run, run.due_at().unwrap()), &silent, noon());
        assert_eq!(run.memory.silent_in_row, n);
    }
    let other = Failure { fingerprint: 9, ..Failure::found(Reason::Bug, "sample") };
    let run = failing(&failing(&run, &Failure::found(Reason::Bug, "sample"), noon()), &other, noon());
    assert_eq!(run.memory.streak, Some((9, 1)), "another failure is another streak");
}

#[test]
fn held_retries_wait_for_their_holder() {
    let hold = |by: &str, of_model| crate::run::Hold { by: crate::text::Label::from(by), of_model };
    let mut run = Run::new(noon());
    run.around.holds = vec![hold("breaker:x", true)];
    let timeout = Failure::found(Reason::Timeout, "sample");
    let fail = Event::Fail { failure: &timeout, attempt: 1, jitter: 0.5 };
    let moved = apply(&run, &fail, &Policy::default(), noon()).unwrap();
    let verdict = moved.verdict.unwrap();
    assert_eq!((verdict.action, verdict.next_attempt_at), (crate::verdict::Action::Hold, None));
    assert_eq!(verdict.held_by.unwrap().as_str(), "breaker:x");
    assert_eq!(moved.run.memory.retries_for(&Reason::Timeout), 1);
    let due = noon().plus_ms(5);
    let released = apply(&moved.run, &Event::Unhold { due }, &Policy::default(), noon()).unwrap().run;
    assert_eq!(released.due_at(), Some(due));
    let bug = Failure::found(Reason::Bug, "sample");
    let dead =
        apply(&run, &Event::Fail { failure: &bug, attempt: 1, jitter: 0.5 }, &Policy::default(), noon()).unwrap();
    assert_eq!(dead.run.state.name(), StateName::Dead);
}

#[test]
fn holds_name_their_holder() {
    let mut run = Run::new(noon());
    run.around.holds = vec![crate::run::Hold { by: Label::from("breaker:x"), of_model: false }];
    let timeout = Failure::found(Reason::Timeout, "sample");
    let moved = apply(&run, &Event::Fail { failure: &timeout, attempt: 1, jitter: 0.5 }, &Policy::default(), noon());
    let why = moved.unwrap().verdict.unwrap().why;
    assert!(why.ends_with("; held until breaker:x closes."), "{why}");
    let held = move_on(&waiting(Due::At(noon())), &Event::Hold { by: Label::from("b") }, noon());
    assert_eq!(held.state, waiting(Due::Held(Label::from("b"))).state);
}

/// A breaker of the model that a retry leaves does not hold it; the tenant's own does.
#[test]
fn retries_on_another_model_ignore_model_holds() {
    let policy = Policy { ladder: vec![Label::from("small"), Label::from("large")], ..Policy::default() };
    let looped = Failure::found(Reason::HallucinationLoop, "sample");
    for (of_model, held) in [(true, false), (false, true)] {
        let mut run = Run::new(noon());
        run.around.model = Some(Label::from("small"));
        run.around.holds = vec![crate::run::Hold { by: Label::from("breaker:x"), of_model }];
        let verdict = apply(&run, &Event::Fail { failure: &looped, attempt: 1, jitter: 0.5 }, &policy, noon())
            .unwrap()
            .verdict
            .unwrap();
        assert_eq!((verdict.target.model.is_some(), verdict.held_by.is_some()), (true, held), "{verdict:?}");
    }
}

#[test]
fn queues_without_replays_do_not_park_first_failures() {
    let policy = Policy { max_replays: 0, ..Policy::default() };
    let bug = Failure::found(Reason::Bug, "sample");
    let fail = |run: &Run| {
        let event = Event::Fail { failure: &bug, attempt: run.attempt, jitter: 0.5 };
        apply(run, &event, &policy, noon()).unwrap()
    };
    let running = begun(&Run::new(noon()), noon());
    assert_eq!(because(&fail(&running).run), Some(DeadBecause::Permanent));
    let replayed = fail(&Run { replays: 1, ..running }).verdict.unwrap();
    assert_eq!(replayed.dead_because, Some(DeadBecause::Exhausted));
    assert!(
        replayed.why.ends_with("It has been replayed 1 times and is parked: only force replays it."),
        "{replayed:?}"
    );
}

#[test]
fn only_runs_that_never_began_can_be_rejected() {
    let failure = Failure::found(Reason::ContextOverflow, "sample");
    let event = Event::WillNotFit { failure: &failure, why: "too long" };
    let dead = move_on(&Run::new(noon()), &event, noon());
    assert_eq!((because(&dead), dead.attempt, dead.has_failed), (Some(DeadBecause::Rejected), 1, true));
    let tried = Run { attempt: 1, ..Run::new(noon()) };
    assert_eq!(refused(&tried, &event, noon()), Refused::WrongState(StateName::Scheduled));
}

#[test]
fn unclaimed_runs_are_rejected_in_time() {
    let policy = Policy::default();
    let unclaimed = Event::Unclaimed { absences: &[] };
    let now = noon().plus_ms(policy.unclaimed_after_ms);
    assert_eq!(because(&move_on(&waiting(Due::At(noon())), &unclaimed, now)), Some(DeadBecause::Rejected));
    assert_eq!(refused(&waiting(Due::At(noon().plus_ms(1))), &unclaimed, now), Refused::NotDue);
}
