//! The one transition table: `(run, event, policy, now) → (run, effects) | refused`. Every move of a run is made
//! here; stores, API and engine only ask.

mod attempts;
mod event;
mod refused;
mod rejected;
mod standing;
mod table;
mod triage;

pub use attempts::{next_attempt, what_passed};
pub use event::{Begin, Effect, Event, EventName, Moved, Outcome};
pub use refused::Refused;
pub use rejected::reject_unleasable;
pub use standing::{Standing, Verb, standing};
pub use table::transition_table;

use crate::guard::remember_hazard;
use crate::policy::Policy;
use crate::run::Run;
use crate::time::Timestamp;

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
        Event::WillNotFit { failure, why } => rejected::will_not_fit(run, failure, why),
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

#[cfg(test)]
mod tests;
