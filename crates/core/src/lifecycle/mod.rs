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

/// Moves a run, or says why it may not move.
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

/// What a worker may do under its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Heartbeat,
    Step,
    Succeed,
    Fail,
    Release,
}

/// How a call under an epoch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The lease is live.
    Live,
    /// The same call ended this epoch before: the stored answer again.
    Again,
    /// The work was done after all, and nobody began anew.
    LateSuccess,
    /// Kept as evidence; the run does not move.
    LateFailure,
    /// Changes nothing: 409 `cancelled`.
    Cancelled,
    /// Changes nothing: 409 `lease_lost`.
    Lost,
}

/// A lease ends when a move ends it, not when its time is up: until somebody has looked, the worker still owns the
/// run, so a restart of ours refuses nobody.
pub fn standing(run: &Run, epoch: u64, verb: Verb) -> Standing {
    let last = epoch == run.epoch;
    if last && matches!(run.state, State::Running(_)) {
        return Standing::Live;
    }
    if last && ended_by(verb).is_some_and(|ended| run.ended == Some(ended)) {
        return Standing::Again;
    }
    // A released attempt gives its number back, so the run may stand below it.
    let nobody_began_anew = last && run.attempt <= run.epoch_attempt;
    match verb {
        Verb::Succeed if nobody_began_anew => Standing::LateSuccess,
        Verb::Fail if epoch <= run.epoch => Standing::LateFailure,
        Verb::Heartbeat | Verb::Step | Verb::Succeed | Verb::Fail | Verb::Release => {
            if last && run.ended == Some(Ended::Cancelled) { Standing::Cancelled } else { Standing::Lost }
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
