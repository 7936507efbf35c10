//! Decisions of people: replays, reviews, deferrals and merges.

use super::{asked, because, begun, failing, move_on, noon, refused, waiting};
use crate::lifecycle::{Effect, Event, Refused, apply};
use crate::policy::{Policy, PolicyLayer, RetryBy};
use crate::reason::Reason;
use crate::run::{Due, Run, Scheduled, State, StateName};
use crate::strategy::Failure;
use crate::verdict::DeadBecause;

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
fn replays_with_unknown_effects_need_force() {
    let mut dead = Run { state: State::Dead { because: DeadBecause::Unsafe }, ..Run::new(noon()) };
    dead.effects.unknown = 1;
    let replay = |force| apply(&dead, &Event::Replay { by_person: true, force }, &Policy::default(), noon());
    assert_eq!(replay(false).unwrap_err(), Refused::EffectUnknown);
    assert_eq!(replay(true).unwrap().run.state.name(), StateName::Scheduled);
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
fn runs_without_payload_replay_only_by_their_caller() {
    let dead = Run { state: State::Dead { because: DeadBecause::Rejected }, replayable: false, ..Run::new(noon()) };
    let event = Event::Replay { by_person: true, force: true };
    assert_eq!(apply(&dead, &event, &Policy::default(), noon()).unwrap_err(), Refused::NotReplayable);
    let by_caller = Policy::resolve(RetryBy::Caller, &[]);
    assert!(apply(&dead, &event, &by_caller, noon()).is_ok());
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
