//! The transition table of a run: `(run, event, policy, now) → (run, effects) | refused`. Every state change of a run is
//! made here; stores, API and engine only ask.

mod attempts;
mod event;
mod table;
#[cfg(test)]
mod tests;
mod triage;

use crate::guard::remember_hazard;
use crate::policy::Policy;
use crate::run::{Ended, Run, State};
use crate::time::Timestamp;

pub use attempts::{next_attempt, reject_unleasable, what_passed};
pub use event::{Begin, Effect, Event, EventName, Moved, Outcome, Refused};
pub use table::transition_table;
pub use {LeaseCheck as Standing, check_lease as standing};

/// Applies an event to a run, or refuses it.
pub fn apply(run: &Run, event: &Event<'_>, policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
    let mut moved = moved(run, event, policy, now)?;
    remember_hazard(run, &mut moved.run);
    if event.is_decision() {
        moved.run.decisions = run.decisions.saturating_add(1);
    }
    if reject_unleasable(&mut moved.run, policy) {
        moved.effects.retain(|effect| *effect != Effect::Wake);
    }
    Ok(moved)
}

fn moved(run: &Run, event: &Event<'_>, policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
    match event {
        Event::Begin(begin) => attempts::begin(run, begin, policy, now),
        Event::Heartbeat => attempts::heartbeat(run, now),
        Event::Progress => attempts::progress(run, now),
        Event::Succeed { attempt } => attempts::succeed(run, *attempt),
        Event::Fail { failure, attempt, jitter } => attempts::fail(run, failure, *attempt, policy, now, *jitter),
        Event::Release { jitter } => attempts::release(run, policy, now, *jitter),
        Event::LeaseRanOut { unattended, jitter } => attempts::lease_ran_out(run, *unattended, policy, now, *jitter),
        Event::IdleTooLong { unattended, jitter } => attempts::idle_too_long(run, *unattended, policy, now, *jitter),
        Event::DeadlinePassed { jitter } => attempts::timed_out(run, "builtin.deadline", policy, now, *jitter),
        Event::Unclaimed { absences } => attempts::unclaimed(run, absences, policy, now),
        Event::WillNotFit { failure, why } => attempts::will_not_fit(run, failure, why),
        Event::Replay { by_person, force } => triage::replay(run, *by_person, *force, policy, now),
        Event::Cancel => triage::cancel(run),
        Event::Park => triage::park(run),
        Event::Review(review) => triage::review(run, review),
        Event::Approve { plan_hash } => triage::approve(run, plan_hash, policy, now),
        Event::Reject => triage::reject(run),
        Event::ReviewExpired => triage::review_expired(run, now),
        Event::Defer { until } => triage::defer(run, *until),
        Event::Reassign { severity } => triage::reassign(run, *severity, policy),
        Event::Assign => triage::assign(run),
        Event::Hold { by } => triage::hold(run, by),
        Event::Unhold { due } => triage::unhold(run, *due, now),
        Event::Merge { into } => triage::merge(run, into),
        Event::Unmerge => triage::unmerge(run, now),
        Event::Resolve => triage::close(run, crate::run::State::Resolved),
        Event::Discard => triage::close(run, crate::run::State::Discarded),
    }
}

/// A worker's call under its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Heartbeat,
    Step,
    Succeed,
    Fail,
    Release,
}

/// What a call under an epoch counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseCheck {
    /// The lease is live.
    Live,
    /// The same call ended this epoch before: return the stored answer.
    Again,
    /// The work was done after all, and no newer attempt has begun.
    LateSuccess,
    /// Kept as evidence; the run does not move.
    LateFailure,
    /// Changes nothing: 409 `cancelled`.
    Cancelled,
    /// Changes nothing: 409 `lease_lost`.
    Lost,
}

/// Fencing. A lease ends when a transition ends it, not when its time is up: until then the worker owns the run, so a
/// server restart refuses nobody.
pub fn check_lease(run: &Run, epoch: u64, verb: Verb) -> LeaseCheck {
    let last = epoch == run.epoch;
    if last && matches!(run.state, State::Running(_)) {
        return LeaseCheck::Live;
    }
    if last && ended_by(verb).is_some_and(|ended| run.ended == Some(ended)) {
        return LeaseCheck::Again;
    }
    // A released attempt gives its number back, so the run's number may be lower.
    let no_newer_attempt = last && run.attempt <= run.epoch_attempt;
    match verb {
        Verb::Succeed if no_newer_attempt => LeaseCheck::LateSuccess,
        Verb::Fail if epoch <= run.epoch => LeaseCheck::LateFailure,
        Verb::Heartbeat | Verb::Step | Verb::Succeed | Verb::Fail | Verb::Release => {
            if last && run.ended == Some(Ended::Cancelled) { LeaseCheck::Cancelled } else { LeaseCheck::Lost }
        }
    }
}

fn ended_by(verb: Verb) -> Option<Ended> {
    match verb {
        Verb::Succeed => Some(Ended::Succeeded),
        Verb::Fail => Some(Ended::Failed),
        Verb::Release => Some(Ended::Released),
        Verb::Heartbeat | Verb::Step => None,
    }
}
