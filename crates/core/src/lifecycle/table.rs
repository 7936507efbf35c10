//! The transition table as people read it: every state against every event, made by asking [`super::apply`].

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::ids::RunId;
use crate::lifecycle::event::{Begin, Event, EventName};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::run::{BeforeMerge, Due, Lease, Merged, Review, Run, Scheduled, State, StateName};
use crate::strategy::Failure;
use crate::text::Label;
use crate::time::{HOUR_MS, Timestamp};
use crate::verdict::DeadBecause;
use crate::wire::Severity;

/// Late enough that every clock of the samples has run out.
const NOW_MS: i64 = 1_000_000_000_000;

/// The page `docs/lifecycle.md`.
pub fn transition_table() -> String {
    let mut page = String::from(
        "# The life of a run\n\n<!-- Generated from core/lifecycle by `cargo xtask generate`. Do not edit. -->\n\n\
         Every state against every event. A cell names the state a run goes to, or in *italics* the code with which the\n\
         move is refused; several entries mean that it depends on the run (its failure, its effects, `force`, the clock).\n\n",
    );
    let _ = write!(page, "| event |");
    for state in StateName::ALL {
        let _ = write!(page, " {state} |");
    }
    let _ = write!(page, "\n|---|{}\n", "---|".repeat(StateName::ALL.len()));
    for event in EventName::ALL {
        let _ = write!(page, "| **{event}** |");
        for state in StateName::ALL {
            let _ = write!(page, " {} |", cell(*state, *event));
        }
        page.push('\n');
    }
    page
}

fn cell(state: StateName, event: EventName) -> String {
    let failures = [Failure::found(Reason::Timeout, "sample"), Failure::found(Reason::Bug, "sample")];
    let into: Option<RunId> = "target".parse().ok();
    let mut outcomes = BTreeSet::new();
    for run in samples(state, into.as_ref()) {
        for event in variants(event, &failures, into.as_ref()) {
            outcomes.insert(outcome(&run, &event));
        }
    }
    outcomes.into_iter().collect::<Vec<_>>().join(", ")
}

fn outcome(run: &Run, event: &Event<'_>) -> String {
    match super::apply(run, event, &Policy::default(), Timestamp::from_millis(NOW_MS)) {
        Ok(moved) => match moved.run.state {
            State::Dead { because } => format!("dead/{because}"),
            State::Scheduled(Scheduled { due: Due::Held(_), .. }) => "scheduled (held)".into(),
            state => state.name().to_string(),
        },
        Err(refused) => format!("*{}*", refused.code()),
    }
}

/// Runs in `state` that differ in what decides a move.
fn samples(state: StateName, into: Option<&RunId>) -> Vec<Run> {
    let now = Timestamp::from_millis(NOW_MS);
    let past = now.minus_ms(100 * HOUR_MS);
    let scheduled = |due| State::Scheduled(Scheduled { due, replay: false });
    let lease = Lease {
        expires_at: past,
        lease_ms: 60_000,
        idle_ms: None,
        progress_at: past,
        deadline_at: now,
        began_at: past,
        extended: false,
        absent_ms: 0,
        replay: false,
    };
    let states = match state {
        StateName::Scheduled => {
            let dues = [Due::At(past), Due::At(now.plus_ms(HOUR_MS)), Due::Held(Label::from("breaker"))];
            dues.map(scheduled).to_vec()
        }
        StateName::Running => vec![State::Running(lease)],
        StateName::Dead => vec![State::Dead { because: DeadBecause::Exhausted }],
        StateName::Review => vec![State::Review(Review {
            proposed: "replay".into(),
            plan_hash: "h".into(),
            asked_at: now,
            expires_at: now.plus_ms(HOUR_MS),
            absent_ms: 0,
            before: DeadBecause::Exhausted,
            reopens: None,
            force: false,
        })],
        StateName::Succeeded => vec![State::Succeeded],
        StateName::Recovered => vec![State::Recovered],
        StateName::Resolved => vec![State::Resolved],
        StateName::Discarded => vec![State::Discarded],
        StateName::Merged => {
            let before = BeforeMerge::Dead(DeadBecause::Exhausted);
            into.map(|into| State::Merged(Merged { into: into.clone(), before })).into_iter().collect()
        }
    };
    let begun = states.into_iter().map(|state| {
        let has_failed = state.name() != StateName::Succeeded && state.name() != StateName::Running;
        Run { state, attempt: 1, epoch: 1, epoch_attempt: 1, has_failed, ..Run::new(past) }
    });
    // Enqueued and not begun yet.
    let fresh = (state == StateName::Scheduled).then(|| Run::new(past));
    begun.chain(fresh).collect()
}

fn variants<'a>(name: EventName, failures: &'a [Failure], into: Option<&RunId>) -> Vec<Event<'a>> {
    let now = Timestamp::from_millis(NOW_MS);
    let jitter = 0.5;
    match name {
        EventName::Begin => vec![Event::Begin(Begin { lease_ms: 60_000, ..Begin::default() })],
        EventName::Heartbeat => vec![Event::Heartbeat],
        EventName::Progress => vec![Event::Progress],
        EventName::Succeed => vec![Event::Succeed { attempt: 1 }],
        EventName::Fail => failures.iter().map(|failure| Event::Fail { failure, attempt: 2, jitter }).collect(),
        EventName::Release => vec![Event::Release { jitter }],
        EventName::LeaseRanOut => [false, true].map(|unattended| Event::LeaseRanOut { unattended, jitter }).to_vec(),
        EventName::IdleTooLong => [false, true].map(|unattended| Event::IdleTooLong { unattended, jitter }).to_vec(),
        EventName::DeadlinePassed => vec![Event::DeadlinePassed { jitter }],
        EventName::Unclaimed => vec![Event::Unclaimed { absences: &[] }],
        EventName::WillNotFit => {
            failures.iter().take(1).map(|failure| Event::WillNotFit { failure, why: "sample" }).collect()
        }
        EventName::Replay => [false, true].map(|force| Event::Replay { by_person: true, force }).to_vec(),
        EventName::Cancel => vec![Event::Cancel],
        EventName::Park => vec![Event::Park],
        EventName::Review => vec![Event::Review(Review {
            proposed: "replay".into(),
            plan_hash: "h".into(),
            asked_at: now,
            expires_at: now.plus_ms(HOUR_MS),
            absent_ms: 0,
            before: DeadBecause::Manual,
            reopens: None,
            force: false,
        })],
        EventName::Approve => vec![Event::Approve { plan_hash: "h" }, Event::Approve { plan_hash: "other" }],
        EventName::Reject => vec![Event::Reject],
        EventName::ReviewExpired => vec![Event::ReviewExpired],
        EventName::Defer => vec![Event::Defer { until: now.plus_ms(HOUR_MS) }],
        EventName::Reassign => vec![Event::Reassign { severity: Severity::Normal }],
        EventName::Assign => vec![Event::Assign],
        EventName::Hold => vec![Event::Hold { by: Label::from("breaker") }],
        EventName::Unhold => vec![Event::Unhold { due: now }],
        EventName::Merge => into.map(|into| Event::Merge { into: into.clone() }).into_iter().collect(),
        EventName::Unmerge => vec![Event::Unmerge],
        EventName::Resolve => vec![Event::Resolve],
        EventName::Discard => vec![Event::Discard],
    }
}
