//! Transitions of an attempt: it begins, heartbeats, succeeds, fails, is released or times out.

use super::event::{Begin, Effect, Event, Moved, Outcome, Refused};
use crate::absence::{Absence, attended_since};
use crate::guard::hazard;
use crate::policy::{Policy, RetryBy};
use crate::reason::{Category, Reason};
use crate::run::{
    ATTEMPT_MAX, BeforeMerge, Closed, Due, Ended, FailureMemory, Hold, Lease, LeftQueues, Merged, Run, Scheduled,
    State, StateName,
};
use crate::strategy::{Decision, Failure, decide};
use crate::text::Label;
use crate::time::{MINUTE_MS, SECOND_MS, Timestamp};
use crate::verdict::{Action, DeadBecause, RecommendedAction, Target, Verdict};

const RELEASES_BEFORE_FAILURE: u32 = 20;
const RELEASE_WAIT_MAX_MS: u64 = 5 * MINUTE_MS;

/// The number of the next attempt.
pub fn next_attempt(run: &Run) -> Result<u32, Refused> {
    if run.attempt < ATTEMPT_MAX { Ok(run.attempt + 1) } else { Err(Refused::TooManyAttempts(run.attempt)) }
}

pub(super) fn begin(run: &Run, begin: &Begin, policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
    let replay = match &run.state {
        State::Scheduled(Scheduled { due: Due::Held(by), .. }) if !begin.by_caller => {
            return Err(Refused::Held(by.to_string()));
        }
        State::Scheduled(Scheduled { due: Due::At(at), .. }) if *at > now && !begin.by_caller => {
            return Err(Refused::NotDue);
        }
        State::Scheduled(scheduled) => scheduled.replay,
        State::Running(_) => return Err(Refused::InFlight),
        State::Dead { .. } | State::Review(_) => return Err(Refused::DeadLettered),
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {
            return Err(Refused::Closed(run.state.name()));
        }
        State::Merged(merged) => return Err(Refused::MergedInto(merged.into.clone())),
    };
    let attempt = next_attempt(run)?;
    let deadline_ms = begin.deadline_ms.or(run.deadline_ms).unwrap_or(policy.deadline_ms);
    let lease = Lease {
        expires_at: now.plus_ms(begin.lease_ms),
        lease_ms: begin.lease_ms,
        idle_ms: begin.idle_ms.or(run.idle_ms).or(policy.idle_ms),
        progress_at: now,
        deadline_at: now.plus_ms(deadline_ms),
        began_at: now,
        extended: false,
        absent_ms: 0,
        replay,
    };
    Ok(Moved::plain(Run {
        state: State::Running(lease),
        attempt,
        epoch: run.epoch + 1,
        epoch_attempt: attempt,
        ended: None,
        deferred_until: None,
        left_queues: LeftQueues::default(),
        ..run.clone()
    }))
}

/// The lease of the running attempt; every other state refuses.
fn under_way(run: &Run) -> Result<&Lease, Refused> {
    run.lease().ok_or(Refused::NotRunning)
}

pub(super) fn heartbeat(run: &Run, now: Timestamp) -> Result<Moved, Refused> {
    let lease = under_way(run)?;
    // A lease never shrinks: a clock set back must not end running work.
    let expires_at = lease.expires_at.max(now.plus_ms(lease.lease_ms));
    // After a renewal the next server downtime may extend it again.
    let renewed = Lease { expires_at, extended: false, ..lease.clone() };
    Ok(Moved::plain(Run { state: State::Running(renewed), ..run.clone() }))
}

/// The timeout of a lease that has passed, if any: the deadline first, then expiry, then idleness. `absences` is newest
/// first, and the deadline includes them already.
pub fn what_passed(lease: &Lease, now: Timestamp, absences: &[Absence], jitter: f64) -> Option<Event<'static>> {
    let unattended = |then: Timestamp| absences.iter().any(|absence| absence.excuses(then));
    if lease.deadline_at <= now {
        return Some(Event::DeadlinePassed { jitter });
    }
    if lease.expires_at <= now {
        return Some(Event::LeaseRanOut { unattended: unattended(lease.expires_at), jitter });
    }
    let idle_at = lease.wake_at();
    (idle_at <= now).then(|| Event::IdleTooLong { unattended: unattended(idle_at), jitter })
}

pub(super) fn progress(run: &Run, now: Timestamp) -> Result<Moved, Refused> {
    let lease = under_way(run)?;
    Ok(Moved::plain(Run { state: State::Running(Lease { progress_at: now, ..lease.clone() }), ..run.clone() }))
}

pub(super) fn succeed(run: &Run, attempt: u32) -> Result<Moved, Refused> {
    let closing = if run.has_failed { Closed::Recovered } else { Closed::Succeeded };
    if attempt > ATTEMPT_MAX {
        return Err(Refused::TooManyAttempts(run.attempt));
    }
    let (state, ended) = match &run.state {
        State::Running(_) => (State::from(closing), Some(Ended::Succeeded)),
        State::Scheduled(_) | State::Dead { .. } | State::Review(_) => (State::from(closing), run.ended),
        // Already closed: the attempt is recorded, the state stays.
        State::Succeeded | State::Recovered | State::Resolved | State::Discarded => (run.state.clone(), run.ended),
        // It counts for another run. An unmerge must not hand out done work again.
        State::Merged(merged) => {
            let before = match merged.before {
                BeforeMerge::Closed(closed) => closed,
                BeforeMerge::Scheduled { .. } | BeforeMerge::Dead(_) => closing,
            };
            (State::Merged(Merged { into: merged.into.clone(), before: BeforeMerge::Closed(before) }), run.ended)
        }
    };
    let mut next = Run { state, ended, attempt: run.attempt.max(attempt), releases_in_row: 0, ..run.clone() };
    let mut effects = doubt_open_effects(&mut next);
    effects.push(Effect::AttemptEnded { attempt, outcome: Outcome::Succeeded });
    Ok(Moved::with(next, effects))
}

/// A failure is refused only if its attempt number is out of range. Of a running run only the failure of its own lease
/// gets here: the store asks [`super::check_lease`] first.
pub(super) fn fail(
    run: &Run,
    failure: &Failure,
    attempt: u32,
    policy: &Policy,
    now: Timestamp,
    jitter: f64,
) -> Result<Moved, Refused> {
    if attempt > ATTEMPT_MAX {
        return Err(Refused::TooManyAttempts(run.attempt));
    }
    match &run.state {
        State::Running(_) => Ok(judge(run, failure, attempt, Some(Ended::Failed), policy, now, jitter)),
        State::Scheduled(_)
        | State::Dead { .. }
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded => Ok(judge(run, failure, attempt, run.ended, policy, now, jitter)),
        // A person is deciding on it: automation does not schedule it.
        State::Review(review) => {
            let moved = judge(run, failure, attempt, run.ended, policy, now, jitter);
            let because = if hazard(&moved.run).is_some() { DeadBecause::Unsafe } else { review.before };
            Ok(keep_state(moved, State::Dead { because }))
        }
        State::Merged(merged) => {
            let moved = judge(run, failure, attempt, run.ended, policy, now, jitter);
            // An unmerge would hand it out again: not with an effect that must not be repeated, nor past a dead-letter
            // verdict.
            let before = match (hazard(&moved.run), &moved.run.state) {
                (Some(_), _) => BeforeMerge::Dead(DeadBecause::Unsafe),
                (None, State::Dead { because }) => BeforeMerge::Dead(*because),
                (None, _) => match merged.before {
                    // A new failure reopens a closed run, merged or not.
                    BeforeMerge::Scheduled { .. } | BeforeMerge::Closed(_) => {
                        BeforeMerge::Scheduled { due: moved.run.due_at().unwrap_or(now) }
                    }
                    BeforeMerge::Dead(because) => BeforeMerge::Dead(because),
                },
            };
            Ok(keep_state(moved, State::Merged(Merged { into: merged.into.clone(), before })))
        }
    }
}

fn keep_state(moved: Moved, state: State) -> Moved {
    let effects = moved.effects.into_iter().filter(|effect| *effect != Effect::Wake).collect();
    Moved { run: Run { state, ..moved.run }, effects, ..moved }
}

/// Counts the failure, decides, and moves the run to the state of the verdict.
fn judge(
    run: &Run,
    failure: &Failure,
    attempt: u32,
    ended: Option<Ended>,
    policy: &Policy,
    now: Timestamp,
    jitter: f64,
) -> Moved {
    let mut next =
        Run { attempt: run.attempt.max(attempt), ended, has_failed: true, releases_in_row: 0, ..run.clone() };
    let mut effects = doubt_open_effects(&mut next);
    remember(&mut next.memory, failure);
    if next.was_retry() {
        next.memory.spent = next.memory.spent.plus(failure.spent);
    }
    let Decision { verdict, tried } = decide(failure, &next, policy, now, jitter);
    let verdict = held(parked(verdict, &next, policy), &next);
    settle(&mut next, &verdict, now);
    if verdict.action != Action::DeadLetter {
        next.memory.count_retry(&failure.reason);
        next.memory.tried.extend(tried);
    }
    if verdict.action == Action::Retry {
        effects.push(Effect::Wake);
    }
    effects.push(Effect::AttemptEnded { attempt, outcome: Outcome::Failed });
    Moved { run: next, effects, verdict: Some(verdict) }
}

/// After its last replay only `force` replays a run, and the verdict says so. An unknown effect comes first: not even force
/// should pass it unseen.
fn parked(verdict: Verdict, run: &Run, policy: &Policy) -> Verdict {
    let last = run.replays > 0 && run.replays >= policy.max_replays;
    if !last || verdict.dead_because.is_none_or(|because| because == DeadBecause::Unsafe) {
        return verdict;
    }
    let why =
        format!("{} It has been replayed {} times and is parked: only force replays it.", verdict.why, run.replays);
    Verdict { dead_because: Some(DeadBecause::Exhausted), why, ..verdict }
}

/// A held retry is granted, and waits for its holder instead of a due time.
fn held(verdict: Verdict, run: &Run) -> Verdict {
    let applies = |hold: &&Hold| !hold.of_model || verdict.target.model.is_none();
    match (verdict.action, run.around.holds.iter().find(applies)) {
        (Action::Retry, Some(hold)) => Verdict {
            action: Action::Hold,
            next_attempt_at: None,
            why: format!("{}; held until {} closes.", verdict.why.trim_end_matches('.'), hold.by),
            held_by: Some(hold.by.clone()),
            ..verdict
        },
        (Action::Retry | Action::Hold | Action::DeadLetter, _) => verdict,
    }
}

fn settle(run: &mut Run, verdict: &Verdict, now: Timestamp) {
    run.changes.clone_from(&verdict.changes);
    run.target.over(&verdict.target);
    let scheduled = |due| State::Scheduled(Scheduled { due, replay: false });
    run.state = match verdict.action {
        Action::Retry => scheduled(Due::At(verdict.next_attempt_at.unwrap_or(now))),
        Action::Hold => scheduled(Due::Held(verdict.held_by.clone().unwrap_or_else(|| Label::from("hold")))),
        Action::DeadLetter => State::Dead { because: verdict.dead_because.unwrap_or(DeadBecause::Permanent) },
    };
}

fn doubt_open_effects(run: &mut Run) -> Vec<Effect> {
    if run.effects.open == 0 {
        return Vec::new();
    }
    run.effects.unknown += run.effects.open;
    run.effects.open = 0;
    vec![Effect::DoubtOpenEffects]
}

fn remember(memory: &mut FailureMemory, failure: &Failure) {
    if let Some(output) = failure.refused {
        let before = memory.refused.filter(|(same, _)| *same == output).map_or(0, |(_, n)| n);
        memory.refused = Some((output, before + 1));
    }
    memory.silent_in_row = if failure.reason == Reason::Silent { memory.silent_in_row + 1 } else { 0 };
    memory.streak = match (failure.category, memory.streak) {
        (Category::Transient, _) => None,
        (Category::Conditional | Category::Permanent, Some((same, n))) if same == failure.fingerprint => {
            Some((same, n + 1))
        }
        (Category::Conditional | Category::Permanent, Some(_) | None) => Some((failure.fingerprint, 1)),
    };
}

pub(super) fn release(run: &Run, policy: &Policy, now: Timestamp, jitter: f64) -> Result<Moved, Refused> {
    let lease = under_way(run)?;
    let releases_in_row = run.releases_in_row + 1;
    if releases_in_row >= RELEASES_BEFORE_FAILURE {
        let failure = Failure::found(Reason::Unknown, "builtin.released_too_often");
        return Ok(judge(run, &failure, run.attempt, Some(Ended::Released), policy, now, jitter));
    }
    let wait_ms = (SECOND_MS << (releases_in_row - 1)).min(RELEASE_WAIT_MAX_MS);
    let scheduled = Scheduled { due: Due::At(now.plus_ms(wait_ms)), replay: lease.replay };
    let mut next = Run {
        state: State::Scheduled(scheduled),
        // The attempt was released unused: the next lease takes the same number.
        attempt: run.attempt - 1,
        ended: Some(Ended::Released),
        releases_in_row,
        ..run.clone()
    };
    let mut effects = doubt_open_effects(&mut next);
    if hazard(&next).is_some() {
        next.state = State::Dead { because: DeadBecause::Unsafe };
    } else {
        effects.push(Effect::Wake);
    }
    Ok(Moved::with(next, effects))
}

pub(super) fn lease_ran_out(
    run: &Run,
    unattended: bool,
    policy: &Policy,
    now: Timestamp,
    jitter: f64,
) -> Result<Moved, Refused> {
    let lease = under_way(run)?;
    if lease.expires_at > now {
        return Err(Refused::NotDue);
    }
    if unattended && !lease.extended {
        let extended = Lease { expires_at: now.plus_ms(lease.lease_ms), extended: true, ..lease.clone() };
        return Ok(Moved::plain(Run { state: State::Running(extended), ..run.clone() }));
    }
    let silent = Failure::found(Reason::Silent, "builtin.silent");
    Ok(judge(run, &silent, run.attempt, Some(Ended::Expired), policy, now, jitter))
}

/// Steps could not be reported during server downtime. The deadline still ends the attempt.
pub(super) fn idle_too_long(
    run: &Run,
    unattended: bool,
    policy: &Policy,
    now: Timestamp,
    jitter: f64,
) -> Result<Moved, Refused> {
    if !unattended {
        return timed_out(run, "builtin.idle", policy, now, jitter);
    }
    let lease = Lease { progress_at: now, ..under_way(run)?.clone() };
    Ok(Moved::plain(Run { state: State::Running(lease), ..run.clone() }))
}

pub(super) fn timed_out(run: &Run, rule: &str, policy: &Policy, now: Timestamp, jitter: f64) -> Result<Moved, Refused> {
    under_way(run)?;
    let timeout = Failure::found(Reason::Timeout, rule);
    Ok(judge(run, &timeout, run.attempt, Some(Ended::Expired), policy, now, jitter))
}

pub(super) fn unclaimed(run: &Run, absences: &[Absence], policy: &Policy, now: Timestamp) -> Result<Moved, Refused> {
    let by = attended_since(now, policy.unclaimed_after_ms, absences);
    match &run.state {
        State::Scheduled(Scheduled { due: Due::At(due), .. }) if *due <= by => {
            Ok(Moved::plain(Run { state: State::Dead { because: DeadBecause::Rejected }, ..run.clone() }))
        }
        State::Scheduled(_) => Err(Refused::NotDue),
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

/// Only for a run that has never begun: afterwards its own failures count.
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

/// Whether a run waits for a worker although its payload is not stored: it would wait for ever.
fn is_unleasable(run: &Run, policy: &Policy) -> bool {
    let waits = run.state.name() == StateName::Scheduled;
    waits && !run.replayable && policy.retry_by == RetryBy::Worker
}

/// Dead-letters a run that waits for a worker without a stored payload. Every transition calls it, and so does a change of
/// queue settings.
pub fn reject_unleasable(run: &mut Run, policy: &Policy) -> bool {
    let unleasable = is_unleasable(run, policy);
    if unleasable {
        run.state = State::Dead { because: DeadBecause::Rejected };
    }
    unleasable
}
