//! The decision on one failed attempt: guard first, then what no retry can help, then the budget, then the table.

use crate::classify::{Classified, Facts};
use crate::guard::{Hazard, hazard};
use crate::policy::{Policy, RetryBy};
use crate::reason::{Category, Reason};
use crate::run::Run;
use crate::strategy::delay::{RETRY_AFTER_MAX_MS, due_at};
use crate::strategy::sentence::{Because, sentence};
use crate::strategy::table::{Strategy, Tries, strategy};
use crate::time::Timestamp;
use crate::verdict::{Action, DeadBecause, RecommendedAction, Target, Verdict};

/// A failed attempt, classified and fingerprinted.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub reason: Reason,
    pub category: Category,
    pub rule: String,
    pub facts: Facts,
    /// The caller says that nothing more may be tried.
    pub terminal: bool,
    pub fingerprint: u64,
}

impl Failure {
    pub fn new(classified: Classified, terminal: bool, fingerprint: u64) -> Self {
        let Classified { reason, category, rule, facts } = classified;
        let failure = Self { reason, category, rule: rule.into_owned(), facts, terminal, fingerprint };
        failure.with_long_waits_as_quota()
    }

    /// A failure that the engine itself found.
    pub fn found(reason: Reason, rule: &str) -> Self {
        let fingerprint = fnv(reason.as_str(), rule);
        let category = reason.category();
        Self { reason, category, rule: rule.into(), facts: Facts::default(), terminal: false, fingerprint }
    }

    /// Nobody waits more than a day for a rate limit: that is a quota with a reset time.
    fn with_long_waits_as_quota(mut self) -> Self {
        let long = self.facts.wait_ms.is_some_and(|ms| ms > RETRY_AFTER_MAX_MS);
        if long && self.category == Category::Transient {
            self.reason = Reason::QuotaExhausted;
            self.category = Category::Conditional;
        }
        self
    }
}

fn fnv(reason: &str, rule: &str) -> u64 {
    let bytes = reason.bytes().chain([0]).chain(rule.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

const POISON_STREAK: u32 = 5;
const POISON_SILENCES: u32 = 3;

/// Judges the failure of `run`'s last attempt. The run already counts it: its attempt number, its memory and its
/// effects are as they stand after the failure.
pub fn decide(failure: &Failure, run: &Run, policy: &Policy, now: Timestamp, jitter: f64) -> Verdict {
    let strategy = strategy(&failure.reason, failure.category);
    match stop(failure, run, policy, &strategy) {
        Some(because) => dead(failure, &strategy, &because),
        None => retry(failure, run, policy, strategy, now, jitter),
    }
}

/// What ends it here, most serious first.
fn stop(failure: &Failure, run: &Run, policy: &Policy, strategy: &Strategy) -> Option<Because> {
    match hazard(run) {
        Some(Hazard::EffectUnknown) => return Some(Because::EffectUnknown),
        Some(Hazard::EffectDone) => return Some(Because::EffectDone),
        None => {}
    }
    if failure.terminal {
        return Some(Because::Terminal);
    }
    if run.memory.streak.is_some_and(|(_, n)| n >= POISON_STREAK) {
        return Some(Because::SameFailure(POISON_STREAK));
    }
    if run.memory.silent_in_row >= POISON_SILENCES {
        return Some(Because::KillsWorkers(POISON_SILENCES));
    }
    if failure.category == Category::Permanent {
        return Some(Because::Permanent);
    }
    if run.attempts_on_budget() >= policy.max_attempts {
        return Some(Because::BudgetUsed(policy.max_attempts));
    }
    if policy.retry_by == RetryBy::Worker && !run.replayable {
        return Some(Because::NoPayload);
    }
    match strategy.tries {
        Tries::AtMost(0) => Some(Because::NeedsAPerson),
        Tries::AtMost(most) if run.memory.retries_for(&failure.reason) >= most => Some(Because::TriesUsed(most)),
        Tries::AtMost(_) | Tries::ToTheBudget => None,
    }
}

fn retry(failure: &Failure, run: &Run, policy: &Policy, strategy: Strategy, now: Timestamp, jitter: f64) -> Verdict {
    let retries = run.attempts_on_budget().saturating_sub(1);
    let Some(due) = due_at(strategy.delay, &policy.schedule, &failure.facts, retries, now, jitter) else {
        return dead(failure, &strategy, &Because::NothingToWaitFor);
    };
    let why = sentence(
        failure,
        &Because::Retry { wait_ms: due.since(now), left: policy.max_attempts - run.attempts_on_budget() },
    );
    Verdict {
        action: Action::Retry,
        next_attempt_at: Some(due),
        dead_because: None,
        changes: strategy.changes,
        ..verdict(failure, why, strategy.recommended)
    }
}

fn dead(failure: &Failure, strategy: &Strategy, because: &Because) -> Verdict {
    let dead_because = because.dead_because();
    let recommended = match dead_because {
        DeadBecause::Unsafe | DeadBecause::Poison => RecommendedAction::ManualReviewRequired,
        DeadBecause::Exhausted
        | DeadBecause::Permanent
        | DeadBecause::Expired
        | DeadBecause::Rejected
        | DeadBecause::Manual => strategy.recommended,
    };
    Verdict { dead_because: Some(dead_because), ..verdict(failure, sentence(failure, because), recommended) }
}

fn verdict(failure: &Failure, why: String, recommended_action: RecommendedAction) -> Verdict {
    Verdict {
        action: Action::DeadLetter,
        reason: failure.reason.clone(),
        category: failure.category,
        rule: failure.rule.clone(),
        why,
        recommended_action,
        next_attempt_at: None,
        held_by: None,
        dead_because: None,
        changes: Vec::new(),
        target: Target::default(),
    }
}
