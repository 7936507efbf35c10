//! The transition table: helpers, the generated page, and invariants over any order of events. The modules below test
//! what the cells of `docs/lifecycle.md` do not show.

mod attempts;
mod failures;
mod triage;

use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::lifecycle::{Begin, Event, Refused, apply, transition_table};
use crate::policy::Policy;
use crate::run::{Due, Ended, Review, Run, Scheduled, State};
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

fn waiting(due: Due) -> Run {
    Run { state: State::Scheduled(Scheduled { due, replay: false }), ..Run::new(noon()) }
}

fn refused(run: &Run, event: &Event<'_>, now: Timestamp) -> Refused {
    apply(run, event, &Policy::default(), now).unwrap_err()
}

/// Every cell of it is made by asking the moves.
#[test]
fn the_documented_transition_table_is_current() {
    assert_eq!(transition_table(), include_str!("../../../../../docs/lifecycle.md"));
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
        1 => Just(Event::Hold { by: Label::from("breaker") }),
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
