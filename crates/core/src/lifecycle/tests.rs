//! The table, move by move: what the cells of `docs/lifecycle.md` do not show.

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{Begin, Effect, Event, LeaseCheck, Refused, Verb, apply, check_lease};
use crate::policy::{Policy, PolicyLayer, Preset, RetryBy};
use crate::reason::{Category, Reason};
use crate::run::{ATTEMPT_MAX, BeforeMerge, Due, Ended, Merged, Review, Run, Scheduled, State, StateName};
use crate::strategy::Failure;
use crate::text::Label;
use crate::time::Timestamp;
use crate::verdict::DeadBecause;

const NOON: i64 = 1_800_000_000_000;

fn noon() -> Timestamp {
    Timestamp::from_millis(NOON)
}

fn move_on(run: &Run, event: &Event<'_>, now: Timestamp) -> Run {
    apply(run, event, &Policy::default(), now).unwrap().run
}

fn begun(run: &Run, now: Timestamp) -> Run {
    move_on(run, &Event::Begin(Begin { lease_ms: 60_000, ..Begin::default() }), now)
}

fn failing(run: &Run, failure: &Failure, now: Timestamp) -> Run {
    move_on(run, &Event::Fail { failure, attempt: run.attempt, jitter: 0.5 }, now)
}

fn because(run: &Run) -> Option<DeadBecause> {
    match run.state {
        State::Dead { because } => Some(because),
        _ => None,
    }
}

/// Waits for the due time and begins.
fn next_attempt(run: &Run) -> (Run, Timestamp) {
    let due = run.due_at().unwrap();
    (begun(run, due), due)
}

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
    let facts = crate::classify::Facts { wait_ms: Some(90_000_000), ..Default::default() };
    let reason = Reason::RateLimited;
    let classified = crate::classify::Classified { category: reason.category(), reason, rule: "sample".into(), facts };
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
        let evidence =
            crate::classify::Evidence { headers: &headers, now_ms, ..crate::classify::Evidence::of("rate limited") };
        let failure = Failure::new(crate::classify::classify(&evidence), false, 1);
        assert_eq!((&failure.reason, failure.category), (&Reason::QuotaExhausted, Category::Conditional), "{value}");
        let run = failing(&begun(&Run::new(noon()), noon()), &failure, noon());
        let wait = run.due_at().unwrap().since(noon());
        let day = 86_400_000_u64;
        assert!((days * day * 9 / 10..=31 * day).contains(&wait), "{value}: {wait}");
    }
}

#[test]
fn effects_open_at_the_end_become_unknown() {
    let mut running = begun(&Run::new(noon()), noon());
    running.effects.open = 1;
    running.resumable = true;
    let timeout = Failure::found(Reason::Timeout, "sample");
    let ends = [
        Event::Fail { failure: &timeout, attempt: 1, jitter: 0.0 },
        Event::Release { jitter: 0.0 },
        Event::DeadlinePassed { jitter: 0.0 },
        Event::Cancel,
        Event::Succeed { attempt: 1 },
    ];
    for event in ends {
        let moved = apply(&running, &event, &Policy::default(), noon()).unwrap();
        assert_eq!((moved.run.effects.open, moved.run.effects.unknown), (0, 1), "{event:?}");
        assert!(moved.effects.contains(&Effect::DoubtOpenEffects), "{event:?}");
        assert!(moved.run.due_at().is_none(), "{event:?} must not schedule it");
    }
}

#[test]
fn automation_never_repeats_a_done_effect_without_resume() {
    let mut running = begun(&Run::new(noon()), noon());
    running.effects.done = 1;
    let timeout = Failure::found(Reason::Timeout, "sample");
    let paths = [
        Event::Fail { failure: &timeout, attempt: 1, jitter: 0.0 },
        Event::Release { jitter: 0.0 },
        Event::LeaseRanOut { unattended: false, jitter: 0.0 },
        Event::IdleTooLong { unattended: false, jitter: 0.0 },
        Event::DeadlinePassed { jitter: 0.0 },
    ];
    for event in paths {
        let later = noon().plus_ms(3_600_000);
        assert_eq!(because(&move_on(&running, &event, later)), Some(DeadBecause::Unsafe), "{event:?}");
        let resumable = Run { resumable: true, ..running.clone() };
        assert!(move_on(&resumable, &event, later).due_at().is_some(), "{event:?}");
    }
}

#[test]
fn unmerging_an_unsafe_run_leaves_it_dead() {
    let merge = Event::Merge { into: "other".parse().unwrap() };
    let mut merged = move_on(&Run::new(noon()), &merge, noon());
    assert!(move_on(&merged, &Event::Unmerge, noon()).due_at().is_some());
    // A merge taken back brings nothing forward.
    let until = noon().plus_ms(3_600_000);
    let deferred = move_on(&Run::new(noon()), &Event::Defer { until }, noon());
    let again = move_on(&move_on(&deferred, &merge, noon()), &Event::Unmerge, noon());
    assert_eq!((again.due_at(), again.deferred_until), (Some(until), Some(until)));
    merged.effects.open = 1;
    let failed = failing(&merged, &Failure::found(Reason::Timeout, "sample"), noon());
    assert_eq!(failed.state.name(), StateName::Merged);
    assert_eq!(because(&move_on(&failed, &Event::Unmerge, noon())), Some(DeadBecause::Unsafe));
}

/// Found by the simulation: failures that came in while it was merged used its budget up, and it was tried once more.
#[test]
fn unmerging_an_exhausted_run_leaves_it_dead() {
    let timeout = Failure::found(Reason::Timeout, "sample");
    let run = failing(&begun(&Run::new(noon()), noon()), &timeout, noon());
    let mut merged = move_on(&run, &Event::Merge { into: "other".parse().unwrap() }, noon());
    for attempt in 2..=4 {
        merged = move_on(&merged, &Event::Fail { failure: &timeout, attempt, jitter: 0.5 }, noon());
    }
    assert_eq!(because(&move_on(&merged, &Event::Unmerge, noon())), Some(DeadBecause::Exhausted));
}

#[test]
fn unmerging_a_closed_run_leaves_it_closed() {
    let merge = Event::Merge { into: "other".parse().unwrap() };
    let resolved = Run { state: State::Resolved, ..Run::new(noon()) };
    let asked_for = move_on(&resolved, &Event::Review(asked(true)), noon());
    let merged = move_on(&asked_for, &merge, noon());
    assert_eq!(move_on(&merged, &Event::Unmerge, noon()).state, State::Resolved);
    // So does one that succeeded meanwhile; a new failure opens it as it opens any other.
    let silent = Event::LeaseRanOut { unattended: false, jitter: 0.5 };
    let waits = move_on(&begun(&Run::new(noon()), noon()), &silent, noon().plus_ms(60_000));
    let late = move_on(&move_on(&waits, &merge, noon()), &Event::Succeed { attempt: 1 }, noon());
    assert_eq!(late.state.name(), StateName::Merged);
    assert_eq!(move_on(&late, &Event::Unmerge, noon()).state, State::Recovered);
    let timeout = Failure::found(Reason::Timeout, "sample");
    let failed = move_on(&late, &Event::Fail { failure: &timeout, attempt: 2, jitter: 0.5 }, noon());
    assert!(move_on(&failed, &Event::Unmerge, noon()).due_at().is_some());
}

#[test]
fn left_queues_are_remembered_until_the_next_attempt() {
    let queue = |n: usize| format!("q{n}").parse().unwrap();
    let mut run = Run::new(noon());
    run.leave_queue(&queue(0));
    assert_eq!(run.left_queues.names.len(), 1, "it has only waited");
    let mut run = failing(&begun(&run, noon()), &Failure::found(Reason::Bug, "sample"), noon());
    for n in 0..8 {
        run.leave_queue(&queue(n));
        run.leave_queue(&queue(0));
    }
    assert_eq!((run.left_queues.names.len(), run.left_queues.more), (8, false));
    run.leave_queue(&queue(8));
    assert_eq!((run.left_queues.names.len(), run.left_queues.more), (8, true));
    let waits = move_on(&run, &Event::Replay { by_person: true, force: false }, noon());
    assert!(!waits.left_queues.is_empty());
    assert!(begun(&waits, noon()).left_queues.is_empty());
}

#[test]
fn only_decisions_of_people_are_counted() {
    let dead = Run { state: State::Dead { because: DeadBecause::Manual }, ..Run::new(noon()) };
    let replay = |by_person| Event::Replay { by_person, force: false };
    let severity = crate::wire::Severity::Normal;
    let decisions = [replay(true), Event::Defer { until: noon() }, Event::Reassign { severity }, Event::Assign];
    for event in decisions {
        assert_eq!(move_on(&dead, &event, noon()).decisions, 1, "{event:?}");
    }
    for event in [replay(false), Event::Park] {
        assert_eq!(move_on(&dead, &event, noon()).decisions, 0, "{event:?}");
    }
}

#[test]
fn replays_with_unknown_effects_need_force() {
    let mut dead = Run { state: State::Dead { because: DeadBecause::Unsafe }, ..Run::new(noon()) };
    dead.effects.unknown = 1;
    let replay = |force| apply(&dead, &Event::Replay { by_person: true, force }, &Policy::default(), noon());
    assert_eq!(replay(false).unwrap_err(), Refused::EffectUnknown);
    assert_eq!(replay(true).unwrap().run.state.name(), StateName::Scheduled);
}

fn asked(force: bool) -> Review {
    let expires_at = noon().plus_ms(1_000);
    Review {
        proposed: "replay".into(),
        plan_hash: "h".into(),
        asked_at: noon(),
        expires_at,
        absent_ms: 0,
        before: DeadBecause::Manual,
        reopens: None,
        force,
    }
}

#[test]
fn an_approval_replays_exactly_the_approved_plan() {
    let mut dead = Run { state: State::Dead { because: DeadBecause::Permanent }, attempt: 4, ..Run::new(noon()) };
    dead.memory.silent_in_row = 2;
    let review = move_on(&dead, &Event::Review(asked(false)), noon());
    let approve = |run: &Run, plan_hash, now| apply(run, &Event::Approve { plan_hash }, &Policy::default(), now);
    assert_eq!(approve(&review, "other", noon()).unwrap_err(), Refused::PlanChanged);
    assert_eq!(approve(&review, "h", noon().plus_ms(1_000)).unwrap_err(), Refused::ReviewExpired);
    let approved = approve(&review, "h", noon()).unwrap().run;
    assert_eq!((approved.replays, approved.attempts_on_budget(), approved.memory.silent_in_row), (1, 0, 0));
    let mut doubtful = review;
    doubtful.effects.unknown = 1;
    assert_eq!(approve(&doubtful, "h", noon()).unwrap_err(), Refused::EffectUnknown);
}

#[test]
fn rejected_or_expired_reviews_restore_the_previous_state() {
    let dead = Run { state: State::Dead { because: DeadBecause::Poison }, ..Run::new(noon()) };
    let review = move_on(&dead, &Event::Review(asked(false)), noon());
    assert_eq!(because(&move_on(&review, &Event::Reject, noon())), Some(DeadBecause::Poison));
    let later = noon().plus_ms(1_000);
    assert_eq!(because(&move_on(&review, &Event::ReviewExpired, later)), Some(DeadBecause::Expired));
    let done = Run { state: State::Recovered, ..Run::new(noon()) };
    assert!(apply(&done, &Event::Review(asked(false)), &Policy::default(), noon()).is_err());
    let reopening = move_on(&done, &Event::Review(asked(true)), noon());
    for event in [Event::Reject, Event::ReviewExpired] {
        assert_eq!(move_on(&reopening, &event, later).state, State::Recovered, "{event:?}");
    }
}

#[test]
fn failing_after_the_last_replay_parks_the_run() {
    let layer = PolicyLayer { max_replays: Some(1), ..PolicyLayer::default() };
    let policy = Policy::resolve(RetryBy::Worker, &[&layer]);
    let bug = Failure::found(Reason::Bug, "sample");
    let fail = |run: &Run| {
        let event = Event::Fail { failure: &bug, attempt: run.attempt, jitter: 0.5 };
        apply(run, &event, &policy, noon()).unwrap().run
    };
    let first = fail(&begun(&Run::new(noon()), noon()));
    assert_eq!(because(&first), Some(DeadBecause::Permanent));
    let replay = |run: &Run| apply(run, &Event::Replay { by_person: true, force: false }, &policy, noon());
    let again = begun(&replay(&first).unwrap().run, noon());
    let parked = fail(&again);
    assert_eq!(because(&parked), Some(DeadBecause::Exhausted));
    assert_eq!(replay(&parked).unwrap_err(), Refused::ReplaysUsed(1));
    let mut doubtful = again;
    doubtful.effects.open = 1;
    assert_eq!(because(&fail(&doubtful)), Some(DeadBecause::Unsafe));
}

#[test]
fn runs_without_payload_replay_only_by_their_caller() {
    let dead = Run { state: State::Dead { because: DeadBecause::Rejected }, replayable: false, ..Run::new(noon()) };
    let event = Event::Replay { by_person: true, force: true };
    assert_eq!(apply(&dead, &event, &Policy::default(), noon()).unwrap_err(), Refused::NotReplayable);
    let by_caller = Policy::resolve(RetryBy::Caller, &[]);
    assert!(apply(&dead, &event, &by_caller, noon()).is_ok());
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
fn a_newer_attempt_fences_the_older_one() {
    let first = begun(&Run::new(noon()), noon());
    let silent = move_on(&first, &Event::LeaseRanOut { unattended: false, jitter: 0.5 }, noon().plus_ms(60_000));
    assert_eq!(check_lease(&silent, 1, Verb::Succeed), LeaseCheck::LateSuccess);
    assert_eq!(check_lease(&silent, 1, Verb::Heartbeat), LeaseCheck::Lost);
    let (second, _) = next_attempt(&silent);
    for verb in [Verb::Heartbeat, Verb::Step, Verb::Succeed, Verb::Release] {
        assert_eq!(check_lease(&second, 1, verb), LeaseCheck::Lost, "{verb:?}");
        assert_eq!(check_lease(&second, 2, verb), LeaseCheck::Live, "{verb:?}");
        assert_eq!(check_lease(&second, 3, verb), LeaseCheck::Lost, "an epoch never granted, {verb:?}");
    }
    assert_eq!(check_lease(&second, 1, Verb::Fail), LeaseCheck::LateFailure);
    assert_eq!(check_lease(&second, 3, Verb::Fail), LeaseCheck::Lost);
}

fn any_event() -> impl Strategy<Value = Event<'static>> {
    prop_oneof![
        3 => Just(Event::Begin(Begin { lease_ms: 60_000, ..Begin::default() })),
        1 => Just(Event::Heartbeat),
        1 => Just(Event::Progress),
        1 => Just(Event::Release { jitter: 0.5 }),
        2 => any::<bool>().prop_map(|unattended| Event::LeaseRanOut { unattended, jitter: 0.5 }),
        1 => any::<bool>().prop_map(|unattended| Event::IdleTooLong { unattended, jitter: 0.5 }),
        1 => Just(Event::DeadlinePassed { jitter: 0.5 }),
        1 => Just(Event::Unclaimed { absences: &[] }),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(by_person, force)| Event::Replay { by_person, force }),
        1 => Just(Event::Cancel),
        1 => Just(Event::Resolve),
        1 => Just(Event::Discard),
        1 => Just(Event::Hold { by: crate::text::Label::from("breaker") }),
        1 => Just(Event::Unhold { due: Timestamp::default() }),
        1 => any::<bool>().prop_map(|force| Event::Review(asked(force))),
        1 => Just(Event::Approve { plan_hash: "h" }),
        1 => Just(Event::ReviewExpired),
        1 => Just(Event::Park),
        1 => Just(Event::Defer { until: noon() }),
        1 => Just(Event::Reassign { severity: crate::wire::Severity::Normal }),
        1 => Just(Event::Merge { into: "other".parse().unwrap() }),
        1 => Just(Event::Reject),
        1 => Just(Event::Unmerge),
    ]
}

proptest! {
    /// Whatever happens in whatever order: epochs rise with each lease and only then, an attempt's number falls only
    /// when it was given back unused, a retry by the engine is in the future, and the budget holds.
    #[test]
    fn no_order_of_events_breaks_the_invariants(events in proptest::collection::vec((any_event(), 0u64..200_000), 1..60)) {
        let policy = Policy::default();
        let (mut run, mut now) = (Run::new(noon()), noon());
        for (event, wait_ms) in events {
            now = now.plus_ms(wait_ms);
            let Ok(moved) = apply(&run, &event, &policy, now) else { continue };
            let leased = matches!(event, Event::Begin(_));
            prop_assert_eq!(moved.run.epoch, run.epoch + u64::from(leased));
            let given_back = moved.run.ended == Some(Ended::Released) && matches!(event, Event::Release { .. });
            prop_assert!(moved.run.attempt >= run.attempt || given_back);
            if let Some(verdict) = &moved.verdict {
                prop_assert!(verdict.next_attempt_at.is_none_or(|due| due > now));
                prop_assert!(verdict.next_attempt_at.is_none() || moved.run.attempts_on_budget() < policy.max_attempts);
            }
            if let State::Scheduled(Scheduled { due: Due::At(_), .. }) = &moved.run.state {
                prop_assert!(moved.run.effects.unknown == 0);
            }
            run = moved.run;
        }
    }
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

/// Nobody could be given it, so it would wait for ever.
#[test]
fn runs_without_payload_never_wait_for_workers() {
    let without = |state| Run { state, replayable: false, ..Run::new(noon()) };
    let held = State::Scheduled(Scheduled { due: Due::Held(Label::from("b")), replay: false });
    let before = BeforeMerge::Scheduled { due: noon() };
    let merged = State::Merged(Merged { into: "other".parse().unwrap(), before });
    let under_way = Run { replayable: false, ..begun(&Run::new(noon()), noon()) };
    let moves = [
        (under_way, Event::Release { jitter: 0.5 }),
        (without(merged), Event::Unmerge),
        (without(held), Event::Unhold { due: noon() }),
        (without(Run::new(noon()).state), Event::Defer { until: noon() }),
        (without(Run::new(noon()).state), Event::Hold { by: Label::from("b") }),
    ];
    let callers = Policy { retry_by: RetryBy::Caller, ..Policy::default() };
    for (run, event) in moves {
        let moved = apply(&run, &event, &Policy::default(), noon()).unwrap();
        assert_eq!(because(&moved.run), Some(DeadBecause::Rejected), "{:?}", event.name());
        assert!(!moved.effects.contains(&Effect::Wake), "{:?}", event.name());
        let moved = apply(&run, &event, &callers, noon()).unwrap();
        assert_eq!(moved.run.state.name(), StateName::Scheduled, "its caller has it: {:?}", event.name());
    }
}

fn waiting(due: Due) -> Run {
    Run { state: State::Scheduled(Scheduled { due, replay: false }), ..Run::new(noon()) }
}

fn refused(run: &Run, event: &Event<'_>, now: Timestamp) -> Refused {
    apply(run, event, &Policy::default(), now).unwrap_err()
}

/// Every cell of it is made by asking the moves.
#[test]
fn the_documented_transition_table_is_current() {
    assert_eq!(super::transition_table(), include_str!("../../../../docs/lifecycle.md"));
}

#[test]
fn only_callers_begin_held_or_early_runs() {
    let begin = |by_caller| Event::Begin(Begin { lease_ms: 60_000, by_caller, ..Begin::default() });
    let (later, held) = (waiting(Due::At(noon().plus_ms(1))), waiting(Due::Held(Label::from("b"))));
    assert_eq!(refused(&later, &begin(false), noon()), Refused::NotDue);
    assert_eq!(refused(&held, &begin(false), noon()), Refused::Held("b".into()));
    assert_eq!(move_on(&later, &begin(false), noon().plus_ms(1)).state.name(), StateName::Running);
    for run in [later, held] {
        let run = Run { deferred_until: Some(noon().plus_ms(1)), ended: Some(Ended::Released), ..run };
        let begun = move_on(&run, &begin(true), noon());
        assert_eq!((begun.state.name(), begun.deferred_until, begun.ended), (StateName::Running, None, None));
    }
}

#[test]
fn heartbeats_renew_leases_and_steps_renew_progress() {
    let running = begun(&Run::new(noon()), noon());
    let later = noon().plus_ms(1_000);
    let beaten = move_on(&running, &Event::Heartbeat, later).lease().unwrap().clone();
    assert_eq!((beaten.expires_at, beaten.progress_at), (later.plus_ms(60_000), noon()));
    let earlier = move_on(&running, &Event::Heartbeat, noon().minus_ms(1_000));
    assert_eq!(earlier.lease().unwrap().expires_at, noon().plus_ms(60_000), "a lease never shrinks");
    let stepped = move_on(&running, &Event::Progress, later).lease().unwrap().clone();
    assert_eq!((stepped.expires_at, stepped.progress_at), (noon().plus_ms(60_000), later));
}

#[test]
fn server_absence_extends_a_lease_once() {
    let running = begun(&Run::new(noon()), noon());
    let ran_out = Event::LeaseRanOut { unattended: true, jitter: 0.5 };
    assert_eq!(refused(&running, &ran_out, noon().plus_ms(59_999)), Refused::NotDue);
    let (back, again) = (noon().plus_ms(60_000), noon().plus_ms(120_000));
    let extended = move_on(&running, &ran_out, back);
    let lease = extended.lease().unwrap();
    assert_eq!((lease.expires_at, lease.extended), (again, true));
    let silent = move_on(&extended, &ran_out, again);
    assert_eq!((silent.state.name(), silent.ended), (StateName::Scheduled, Some(Ended::Expired)));
    let beaten = move_on(&extended, &Event::Heartbeat, again);
    assert!(!beaten.lease().unwrap().extended, "a renewed lease is a lease anew");
    let idle = move_on(&running, &Event::IdleTooLong { unattended: true, jitter: 0.5 }, back);
    assert_eq!(idle.lease().unwrap().progress_at, back);
}

#[test]
fn consecutive_releases_double_the_wait() {
    let (mut run, mut now, mut waits) = (Run::new(noon()), noon(), Vec::new());
    let release =
        |run: &Run, now| apply(&begun(run, now), &Event::Release { jitter: 0.5 }, &Policy::default(), now).unwrap();
    for n in 1..20 {
        let moved = release(&run, now);
        assert_eq!((moved.run.attempt, moved.run.releases_in_row, moved.run.ended), (0, n, Some(Ended::Released)));
        assert_eq!((moved.verdict, moved.effects), (None, vec![Effect::Wake]));
        let due = moved.run.due_at().unwrap();
        waits.push(due.since(now) / 1_000);
        (run, now) = (moved.run, due);
    }
    assert_eq!((&waits[..5], waits[18]), ([1, 2, 4, 8, 16].as_slice(), 300));
    let failed = release(&run, now);
    assert!(failed.verdict.is_some(), "the twentieth is a failure");
    assert_eq!((failed.run.attempt, failed.run.releases_in_row), (1, 0));
}

#[test]
fn endings_are_recorded_with_their_attempt() {
    let mut running = begun(&Run::new(noon()), noon());
    running.releases_in_row = 3;
    let timeout = Failure::found(Reason::Timeout, "sample");
    let done = apply(&running, &Event::Succeed { attempt: 5 }, &Policy::default(), noon()).unwrap();
    assert_eq!((done.run.ended, done.run.attempt, done.run.releases_in_row), (Some(Ended::Succeeded), 5, 0));
    let fail = |failure| apply(&running, &Event::Fail { failure, attempt: 1, jitter: 0.5 }, &Policy::default(), noon());
    let failed = fail(&timeout).unwrap();
    assert_eq!((failed.run.ended, failed.run.releases_in_row), (Some(Ended::Failed), 0));
    assert!(failed.effects.contains(&Effect::Wake));
    assert!(!fail(&Failure::found(Reason::Bug, "sample")).unwrap().effects.contains(&Effect::Wake));
    let cancelled = apply(&running, &Event::Cancel, &Policy::default(), noon()).unwrap();
    assert_eq!((because(&cancelled.run), cancelled.run.has_failed), (Some(DeadBecause::Manual), true));
    assert_eq!((cancelled.run.ended, cancelled.effects.len()), (Some(Ended::Cancelled), 1), "no effect was open");
    for (run, verb) in [(&done.run, Verb::Succeed), (&failed.run, Verb::Fail)] {
        assert_eq!(check_lease(run, 1, verb), LeaseCheck::Again, "{verb:?}");
    }
    assert_eq!(check_lease(&cancelled.run, 1, Verb::Heartbeat), LeaseCheck::Cancelled);
    let released = move_on(&running, &Event::Release { jitter: 0.5 }, noon());
    assert_eq!(check_lease(&released, 1, Verb::Release), LeaseCheck::Again);
}

#[test]
fn failures_in_review_wake_no_worker() {
    let dead = Run { state: State::Dead { because: DeadBecause::Poison }, ..Run::new(noon()) };
    let review = move_on(&dead, &Event::Review(asked(false)), noon());
    let timeout = Failure::found(Reason::Timeout, "sample");
    let fail = Event::Fail { failure: &timeout, attempt: 1, jitter: 0.5 };
    let moved = apply(&review, &fail, &Policy::default(), noon()).unwrap();
    assert_eq!(because(&moved.run), Some(DeadBecause::Poison));
    assert!(!moved.effects.contains(&Effect::Wake));
    assert_eq!(refused(&review, &Event::ReviewExpired, noon()), Refused::NotDue);
}

#[test]
fn closed_runs_replay_only_by_force() {
    for state in [State::Succeeded, State::Recovered, State::Resolved, State::Discarded] {
        let closed = Run { state, deferred_until: Some(noon()), ..Run::new(noon()) };
        let replay = |force| Event::Replay { by_person: true, force };
        assert_eq!(refused(&closed, &replay(false), noon()), Refused::Closed(closed.state.name()));
        let forced = move_on(&closed, &replay(true), noon());
        assert_eq!((forced.due_at(), forced.deferred_until), (Some(noon()), None));
    }
}

#[test]
fn decisions_of_people_end_a_deferral() {
    let dead = Run { state: State::Dead { because: DeadBecause::Poison }, ..Run::new(noon()) };
    let deferred = move_on(&dead, &Event::Defer { until: noon() }, noon());
    assert_eq!((because(&deferred), deferred.deferred_until), (Some(DeadBecause::Poison), Some(noon())));
    let closes = [(Event::Resolve, State::Resolved), (Event::Discard, State::Discarded)];
    for (event, state) in closes {
        let closed = move_on(&deferred, &event, noon());
        assert_eq!((closed.state, closed.deferred_until), (state, None), "{event:?}");
    }
    assert_eq!(move_on(&deferred, &Event::Review(asked(false)), noon()).deferred_until, None);
    let (run, until) = (waiting(Due::At(noon())), noon().plus_ms(9));
    assert_eq!(move_on(&run, &Event::Defer { until }, noon()).due_at(), Some(until));
}

#[test]
fn waiting_replays_over_the_cap_cannot_be_reassigned() {
    let waits = |replays| Run {
        replays,
        state: State::Scheduled(Scheduled { due: Due::At(noon()), replay: true }),
        ..Run::new(noon())
    };
    let policy = Policy { max_replays: 2, ..Policy::default() };
    let reassign = Event::Reassign { severity: crate::wire::Severity::Normal };
    for replays in [1, 2] {
        assert!(apply(&waits(replays), &reassign, &policy, noon()).is_ok(), "{replays}");
    }
    assert_eq!(apply(&waits(3), &reassign, &policy, noon()).unwrap_err(), Refused::ReplaysUsed(3));
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
