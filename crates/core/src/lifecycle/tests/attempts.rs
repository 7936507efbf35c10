//! Beginning, renewing and ending an attempt under its lease.

use super::{because, begun, failing, move_on, next_attempt, noon, refused, waiting};
use crate::lifecycle::{Begin, Effect, Event, LeaseCheck, Refused, Verb, apply, check_lease};
use crate::policy::{Policy, RetryBy};
use crate::reason::Reason;
use crate::run::{BeforeMerge, Due, Ended, Merged, Run, Scheduled, State, StateName};
use crate::strategy::Failure;
use crate::text::Label;
use crate::verdict::DeadBecause;

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
    assert!(!beaten.lease().unwrap().extended, "a renewed lease can be extended again");
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
