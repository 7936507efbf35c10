//! The decision on a failed attempt: effect hazards first, then what no retry can help, then budgets, then the table.

use super::Failure;
use super::delay::due_at;
use super::plan::{RetryPlan, fall_back, plan};
use super::sentence::{Because, sentence};
use super::table::{Strategy, Tries, strategy_under};
use crate::guard::{Hazard, hazard};
use crate::money::{Spend, Usd};
use crate::policy::{Policy, RetryBy};
use crate::reason::Category;
use crate::run::{ATTEMPT_MAX, Run};
use crate::time::Timestamp;
use crate::verdict::{Action, DeadBecause, RecommendedAction, Target, Verdict};

/// A verdict, and what to remember of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub verdict: Verdict,
    /// Hashes of the changes and targets that it tries.
    pub tried: Vec<u64>,
}

const POISON_STREAK: u32 = 5;
const POISON_SILENCES: u32 = 3;

/// Decides on the failure of `run`'s last attempt. The run already includes it: attempt number, memory and effects are
/// those after the failure.
pub fn decide(failure: &Failure, run: &Run, policy: &Policy, now: Timestamp, jitter: f64) -> Decision {
    let strategy = strategy_under(policy, &failure.reason, failure.category);
    let planned = match stop(failure, run, policy, &strategy) {
        None => plan(failure, run, policy, &strategy),
        Some(because) => Err(because),
    };
    let planned = match planned {
        Err(at_its_end) if at_its_end.may_fall_back() => fall_back(run, policy).ok_or(at_its_end),
        planned => planned,
    };
    match planned {
        Ok(plan) => retry(failure, run, policy, &strategy, plan, now, jitter),
        Err(because) => dead(failure, &strategy, &because),
    }
}

/// Why there is no retry, most serious first.
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
    // A retry that the configuration allows is made, whatever the category.
    if failure.category == Category::Permanent && strategy.tries == Tries::AtMost(0) {
        return Some(Because::Permanent);
    }
    if run.attempt >= ATTEMPT_MAX {
        return Some(Because::NoMoreAttempts(ATTEMPT_MAX));
    }
    if run.attempts_on_budget() >= policy.max_attempts {
        return Some(Because::BudgetUsed(policy.max_attempts));
    }
    if policy.retry_by == RetryBy::Worker && !run.replayable {
        return Some(Because::NoPayload);
    }
    match strategy.tries {
        Tries::AtMost(0) => return Some(Because::NeedsAPerson),
        Tries::AtMost(most) if run.memory.retries_for(&failure.reason) >= most => {
            return Some(spent(failure, run, policy).unwrap_or(Because::TriesUsed(most)));
        }
        Tries::AtMost(_) | Tries::ToTheBudget => {}
    }
    spent(failure, run, policy)
}

fn retry(
    failure: &Failure,
    run: &Run,
    policy: &Policy,
    strategy: &Strategy,
    plan: RetryPlan,
    now: Timestamp,
    jitter: f64,
) -> Decision {
    let retries = run.attempts_on_budget().saturating_sub(1);
    let Some(due) = due_at(strategy.delay, &policy.schedule, &failure.facts, retries, now, jitter) else {
        return dead(failure, strategy, &Because::NothingToWaitFor);
    };
    let (wait_ms, left) = (due.since(now), policy.max_attempts - run.attempts_on_budget());
    let RetryPlan { changes, fresh, target, missing, tried } = plan;
    let because = Because::Retry { wait_ms, left, fresh, target: target.clone(), missing };
    let verdict = Verdict {
        action: Action::Retry,
        next_attempt_at: Some(due),
        changes,
        target,
        ..verdict(failure, sentence(failure, &because), strategy.recommended)
    };
    Decision { verdict, tried }
}

fn dead(failure: &Failure, strategy: &Strategy, because: &Because) -> Decision {
    let dead_because = because.dead_because();
    let recommended = match dead_because {
        DeadBecause::Unsafe | DeadBecause::Poison => RecommendedAction::ManualReviewRequired,
        DeadBecause::Exhausted
        | DeadBecause::Permanent
        | DeadBecause::Expired
        | DeadBecause::Rejected
        | DeadBecause::Manual => strategy.recommended,
    };
    let verdict =
        Verdict { dead_because: Some(dead_because), ..verdict(failure, sentence(failure, because), recommended) };
    Decision { verdict, tried: Vec::new() }
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

/// The retry budget that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CapReached {
    pub(super) whose: &'static str,
    pub(super) used: String,
    pub(super) allowed: String,
}

/// The run's sum includes this attempt; the tenant's does not yet.
pub(super) fn spent(failure: &Failure, run: &Run, policy: &Policy) -> Option<Because> {
    let budget = &policy.budget;
    let own = run.memory.spent;
    let now = if run.was_retry() { failure.spent } else { Spend::default() };
    let tenant = run.around.tenant_spent.plus(now);
    let (of_run, of_tenant) = ("this run's retries", "the tenant's retries today");
    tokens(of_run, own.tokens, budget.retry_tokens_per_run)
        .or_else(|| money(of_run, own.cost, budget.retry_cost_usd_per_run))
        .or_else(|| tokens(of_tenant, tenant.tokens, budget.retry_tokens_per_tenant_day))
        .or_else(|| money(of_tenant, tenant.cost, budget.retry_cost_usd_per_tenant_day))
        .map(Because::CapReached)
}

fn tokens(whose: &'static str, used: u64, allowed: Option<u64>) -> Option<CapReached> {
    let allowed = allowed.filter(|allowed| used >= *allowed)?;
    Some(CapReached { whose, used: format!("{used} tokens"), allowed: allowed.to_string() })
}

fn money(whose: &'static str, used: Usd, allowed: Option<Usd>) -> Option<CapReached> {
    let allowed = allowed.filter(|allowed| used >= *allowed)?;
    Some(CapReached { whose, used: used.to_string(), allowed: allowed.to_string() })
}
