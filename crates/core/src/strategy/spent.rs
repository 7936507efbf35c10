//! Whether retries have used up what they may: tokens and money, of the run and of its tenant today.

use crate::money::{Spend, Usd};
use crate::policy::Policy;
use crate::run::Run;
use crate::strategy::Failure;
use crate::strategy::sentence::Because;

/// Whose cap was reached, with what was used and what is allowed in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CapReached {
    pub(super) whose: &'static str,
    pub(super) used: String,
    pub(super) allowed: String,
}

/// The run already counts what this attempt used; the tenant's sum does not yet.
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
