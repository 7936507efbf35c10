//! Transitions that a person makes, or that undo one.

use crate::guard::{Hazard, hazard, is_unsafe};
use crate::ids::RunId;
use crate::lifecycle::attempts::next_attempt;
use crate::lifecycle::event::Refused;
use crate::lifecycle::event::{Effect, Moved, Outcome};
use crate::policy::{Policy, RetryBy};
use crate::run::{BeforeMerge, Closed, Due, Ended, FailureMemory, Merged, REVISION_MAX, Review, Run, Scheduled, State};
use crate::text::Label;
use crate::time::Timestamp;
use crate::verdict::DeadBecause;
use crate::wire::Severity;

pub(super) fn replay(
    run: &Run,
    by_person: bool,
    force: bool,
    policy: &Policy,
    now: Timestamp,
) -> Result<Moved, Refused> {
    match &run.state {
        State::Review(Review { reopens: Some(closed), .. }) if !force => return Err(Refused::Closed(closed.name())),
        State::Dead { .. } | State::Review(_) | State::Scheduled(_) => {}
        // The worker may still be working, and its effects cannot be undone.
        State::Running(_) => return Err(Refused::InFlight),
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded if force => {}
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {
            return Err(Refused::Closed(run.state.name()));
        }
        State::Merged(merged) => return Err(Refused::MergedInto(merged.into.clone())),
    }
    next_attempt(run)?;
    // The fix has already added one; not even force passes the maximum.
    if run.revision > REVISION_MAX {
        return Err(Refused::TooManyRevisions(REVISION_MAX));
    }
    if policy.retry_by == RetryBy::Worker && !run.replayable {
        return Err(Refused::NotReplayable);
    }
    if !force {
        may_repeat(run, policy)?;
    }
    let mut next = schedule(run, now, true);
    next.replays += 1;
    if by_person {
        // A person's replay is a fresh budget; what kills every attempt the same way is still remembered.
        next.budget_from = run.attempt;
        next.memory =
            FailureMemory { streak: run.memory.streak, refused: run.memory.refused, ..FailureMemory::default() };
        next.releases_in_row = 0;
    }
    Ok(Moved::with(next, vec![Effect::Wake]))
}

fn may_repeat(run: &Run, policy: &Policy) -> Result<(), Refused> {
    match hazard(run) {
        Some(Hazard::EffectUnknown) => return Err(Refused::EffectUnknown),
        Some(Hazard::EffectDone) => return Err(Refused::Unsafe),
        None => {}
    }
    // What waits has its last replay still before it.
    let waiting = matches!(run.state, State::Scheduled(_));
    let most = policy.max_replays.saturating_add(u32::from(waiting));
    if run.replays >= most { Err(Refused::ReplaysUsed(run.replays)) } else { Ok(()) }
}

fn schedule(run: &Run, due: Timestamp, replay: bool) -> Run {
    let scheduled = Scheduled { due: Due::At(due), replay };
    Run { state: State::Scheduled(scheduled), deferred_until: None, ..run.clone() }
}

pub(super) fn cancel(run: &Run) -> Result<Moved, Refused> {
    let dead = State::Dead { because: DeadBecause::Manual };
    match &run.state {
        State::Running(_) => {
            let mut next = Run { state: dead, ended: Some(Ended::Cancelled), has_failed: true, ..run.clone() };
            next.effects.unknown += next.effects.open;
            next.effects.open = 0;
            let ended = Effect::AttemptEnded { attempt: run.attempt, outcome: Outcome::Cancelled };
            let doubted = (run.effects.open > 0).then_some(Effect::DoubtOpenEffects);
            Ok(Moved::with(next, doubted.into_iter().chain([ended]).collect()))
        }
        State::Scheduled(_) => Ok(Moved::plain(Run { state: dead, ..run.clone() })),
        State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded => Err(Refused::WrongState(run.state.name())),
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone())),
    }
}

/// What a dead or waiting run was dead for; a run under way, closed or merged is not a person's to move this way.
fn open_because(run: &Run) -> Result<DeadBecause, Refused> {
    match &run.state {
        State::Dead { because } => Ok(*because),
        State::Review(review) => Ok(review.before),
        State::Scheduled(_) => Ok(DeadBecause::Manual),
        State::Running(_) => Err(Refused::InFlight),
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {
            Err(Refused::Closed(run.state.name()))
        }
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone())),
    }
}

pub(super) fn review(run: &Run, review: &Review) -> Result<Moved, Refused> {
    let (before, reopens) = match (closed(run), &run.state) {
        (Some(closed), _) if review.force => (DeadBecause::Manual, Some(closed)),
        (None, State::Review(Review { reopens: Some(closed), .. })) if !review.force => {
            return Err(Refused::Closed(closed.name()));
        }
        (None, State::Review(asked)) => (asked.before, asked.reopens),
        (Some(_) | None, _) => (open_because(run)?, None),
    };
    let review = Review { before, reopens, ..review.clone() };
    Ok(Moved::plain(Run { state: State::Review(review), deferred_until: None, ..run.clone() }))
}

fn closed(run: &Run) -> Option<Closed> {
    match &run.state {
        State::Succeeded => Some(Closed::Succeeded),
        State::Recovered => Some(Closed::Recovered),
        State::Resolved => Some(Closed::Resolved),
        State::Discarded => Some(Closed::Discarded),
        State::Scheduled(_) | State::Running(_) | State::Dead { .. } | State::Review(_) | State::Merged(_) => None,
    }
}

/// The review that is waiting for a decision; every other state refuses.
fn awaiting_decision(run: &Run) -> Result<&Review, Refused> {
    match &run.state {
        State::Review(review) => Ok(review),
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => Err(Refused::WrongState(run.state.name())),
    }
}

/// A yes is a person's replay: the guards and the caps hold as they would for that.
pub(super) fn approve(run: &Run, plan_hash: &str, policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
    let review = awaiting_decision(run)?;
    if review.expires_at <= now {
        return Err(Refused::ReviewExpired);
    }
    if review.plan_hash != plan_hash {
        return Err(Refused::PlanChanged);
    }
    replay(run, true, review.force, policy, now)
}

pub(super) fn reject(run: &Run) -> Result<Moved, Refused> {
    let review = awaiting_decision(run)?;
    Ok(Moved::plain(Run { state: decided_against(review, review.before), ..run.clone() }))
}

pub(super) fn review_expired(run: &Run, now: Timestamp) -> Result<Moved, Refused> {
    let review = awaiting_decision(run)?;
    if review.expires_at > now {
        return Err(Refused::NotDue);
    }
    Ok(Moved::plain(Run { state: decided_against(review, DeadBecause::Expired), ..run.clone() }))
}

/// Without approval, a request to reopen a closed run leaves it closed.
fn decided_against(review: &Review, because: DeadBecause) -> State {
    review.reopens.map_or(State::Dead { because }, State::from)
}

pub(super) fn park(run: &Run) -> Result<Moved, Refused> {
    match &run.state {
        State::Dead { .. } | State::Review(_) => {
            Ok(Moved::plain(Run { state: State::Dead { because: DeadBecause::Exhausted }, ..run.clone() }))
        }
        State::Scheduled(_)
        | State::Running(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => Err(Refused::WrongState(run.state.name())),
    }
}

/// A replay that waits was let through for where it goes; anywhere else it obeys the rules that a replay there would.
pub(super) fn reassign(run: &Run, severity: Severity, policy: &Policy) -> Result<Moved, Refused> {
    open_because(run)?;
    // Otherwise an approver could change what they approve.
    if matches!(run.state, State::Review(_)) {
        return Err(Refused::WrongState(run.state.name()));
    }
    if run.waits_after_replay() {
        if run.replays > policy.max_replays {
            return Err(Refused::ReplaysUsed(run.replays));
        }
        if policy.approval.is_needed(severity, is_unsafe(run)) {
            return Err(Refused::ApprovalNeeded);
        }
    }
    Ok(Moved::plain(run.clone()))
}

pub(super) fn assign(run: &Run) -> Result<Moved, Refused> {
    match &run.state {
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone())),
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded => Ok(Moved::plain(run.clone())),
    }
}

pub(super) fn defer(run: &Run, until: Timestamp) -> Result<Moved, Refused> {
    let mut next = Run { deferred_until: Some(until), ..run.clone() };
    match &mut next.state {
        State::Scheduled(scheduled) => {
            if let Due::At(due) = &mut scheduled.due {
                *due = until;
            }
            Ok(Moved::plain(next))
        }
        State::Dead { .. } | State::Review(_) => Ok(Moved::plain(next)),
        State::Running(_) => Err(Refused::InFlight),
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {
            Err(Refused::Closed(run.state.name()))
        }
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone())),
    }
}

/// The waiting that a hold starts or ends; every other state refuses.
fn waiting(run: &Run) -> Result<&Scheduled, Refused> {
    match &run.state {
        State::Scheduled(scheduled) => Ok(scheduled),
        State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => Err(Refused::WrongState(run.state.name())),
    }
}

pub(super) fn hold(run: &Run, by: &Label) -> Result<Moved, Refused> {
    let held = Scheduled { due: Due::Held(by.clone()), replay: waiting(run)?.replay };
    Ok(Moved::plain(Run { state: State::Scheduled(held), ..run.clone() }))
}

pub(super) fn unhold(run: &Run, due: Timestamp, now: Timestamp) -> Result<Moved, Refused> {
    let scheduled = waiting(run)?;
    let due = due.max(now);
    match &scheduled.due {
        Due::Held(_) => {
            // A person deferred it.
            let due = run.deferred_until.map_or(due, |until| until.max(due));
            let scheduled = Scheduled { due: Due::At(due), replay: scheduled.replay };
            let next = Run { state: State::Scheduled(scheduled), ..run.clone() };
            Ok(Moved::with(next, vec![Effect::Wake]))
        }
        Due::At(_) => Ok(Moved::plain(run.clone())),
    }
}

pub(super) fn merge(run: &Run, into: &RunId) -> Result<Moved, Refused> {
    let because = open_because(run)?;
    let before = match &run.state {
        // What a breaker held may try again as soon as it is taken apart.
        State::Scheduled(_) => BeforeMerge::Scheduled { due: run.due_at().unwrap_or_default() },
        // The request to reopen it is not approved.
        State::Review(Review { reopens: Some(closed), .. }) => BeforeMerge::Closed(*closed),
        State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => BeforeMerge::Dead(because),
    };
    Ok(Moved::plain(Run { state: State::Merged(Merged { into: into.clone(), before }), ..run.clone() }))
}

pub(super) fn unmerge(run: &Run, now: Timestamp) -> Result<Moved, Refused> {
    match &run.state {
        State::Merged(Merged { before: BeforeMerge::Scheduled { due }, .. }) => {
            let next = Run { deferred_until: run.deferred_until, ..schedule(run, now.max(*due), false) };
            Ok(Moved::with(next, vec![Effect::Wake]))
        }
        State::Merged(Merged { before: BeforeMerge::Dead(because), .. }) => {
            Ok(Moved::plain(Run { state: State::Dead { because: *because }, ..run.clone() }))
        }
        State::Merged(Merged { before: BeforeMerge::Closed(closed), .. }) => {
            Ok(Moved::plain(Run { state: State::from(*closed), ..run.clone() }))
        }
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded => Err(Refused::WrongState(run.state.name())),
    }
}

/// Resolve and discard: a person says that nothing more will come of it.
pub(super) fn close(run: &Run, closed: State) -> Result<Moved, Refused> {
    open_because(run)?;
    Ok(Moved::plain(Run { state: closed, deferred_until: None, ..run.clone() }))
}
