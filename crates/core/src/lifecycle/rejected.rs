//! A run that no attempt could do: refused before its first, or where no worker could be given its payload.

use crate::lifecycle::event::{Effect, Moved, Outcome};
use crate::lifecycle::refused::Refused;
use crate::policy::{Policy, RetryBy};
use crate::run::{Run, State, StateName};
use crate::strategy::Failure;
use crate::verdict::{Action, DeadBecause, RecommendedAction, Target, Verdict};

/// Only of a run that has never begun: later its own failures speak.
pub(super) fn will_not_fit(run: &Run, failure: &Failure, why: &str) -> Result<Moved, Refused> {
    match &run.state {
        State::Scheduled(_) if run.attempt == 0 => {}
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => return Err(Refused::WrongState(run.state.name())),
    }
    let because = DeadBecause::Rejected;
    let verdict = Verdict {
        action: Action::DeadLetter,
        reason: failure.reason.clone(),
        category: failure.category,
        rule: failure.rule.clone(),
        why: why.to_owned(),
        recommended_action: RecommendedAction::TruncateAndResubmit,
        next_attempt_at: None,
        held_by: None,
        dead_because: Some(because),
        changes: Vec::new(),
        target: Target::default(),
    };
    let next = Run { state: State::Dead { because }, attempt: 1, has_failed: true, ..run.clone() };
    let effects = vec![Effect::AttemptEnded { attempt: 1, outcome: Outcome::Failed }];
    Ok(Moved { run: next, effects, verdict: Some(verdict) })
}

/// Whether a run waits for a worker that can't be given its payload: it would wait for ever.
fn is_unleasable(run: &Run, policy: &Policy) -> bool {
    let waits = run.state.name() == StateName::Scheduled;
    waits && !run.replayable && policy.retry_by == RetryBy::Worker
}

/// Makes such a run a dead letter at once. Every move does; whoever puts a run under other rules asks for it.
pub fn reject_unleasable(run: &mut Run, policy: &Policy) -> bool {
    let unleasable = is_unleasable(run, policy);
    if unleasable {
        run.state = State::Dead { because: DeadBecause::Rejected };
    }
    unleasable
}
