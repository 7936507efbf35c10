//! The strategy table by reason: delay, tries, changes, target, recommended action.

use crate::policy::{Policy, Towards};
use crate::reason::{Category, Reason};
use crate::time::SECOND_MS;
use crate::verdict::{Change, RecommendedAction};

/// How long to wait before the retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delay {
    /// 30 s · 2^n up to 5 min with full jitter; a `Retry-After` wins.
    Backoff,
    FixedMs(u64),
    /// At the reset time that the error names; without one there is nothing to wait for.
    AtReset,
    /// No automatic retry.
    Never,
}

/// The most retries that a reason may use within the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tries {
    ToTheBudget,
    AtMost(u32),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    pub delay: Delay,
    pub tries: Tries,
    pub changes: Vec<Change>,
    pub target: Vec<Towards>,
    pub recommended: RecommendedAction,
}

/// The strategy with the policy's overrides for the reason.
pub(super) fn strategy_under(policy: &Policy, reason: &Reason, category: Category) -> Strategy {
    let mut strategy = strategy(reason, category);
    let Some(own) = policy.strategies.get(reason) else { return strategy };
    strategy.tries = own.tries.map_or(strategy.tries, Tries::AtMost);
    strategy.changes = own.changes.clone().unwrap_or(strategy.changes);
    strategy.target = own.target.clone().unwrap_or(strategy.target);
    let waits = own.delay_ms.map(Delay::FixedMs);
    // A retry that only the policy allows gets the default delay.
    let allowed = strategy.delay == Delay::Never && strategy.tries != Tries::AtMost(0);
    let otherwise = if allowed { Delay::FixedMs(DELAY_DEFAULT_MS) } else { strategy.delay };
    strategy.delay = waits.unwrap_or(otherwise);
    strategy
}

const DELAY_DEFAULT_MS: u64 = 30 * SECOND_MS;

/// The strategy for a reason whose evidence put it into `category`.
pub fn strategy(reason: &Reason, category: Category) -> Strategy {
    use RecommendedAction as Advice;
    match category {
        Category::Transient if *reason == Reason::Silent => {
            once_every(30, Tries::ToTheBudget, vec![], Advice::RetryWithBackoff)
        }
        Category::Transient => Strategy {
            delay: Delay::Backoff,
            tries: Tries::ToTheBudget,
            changes: vec![],
            target: vec![],
            recommended: Advice::RetryWithBackoff,
        },
        Category::Conditional => conditional(reason),
        Category::Permanent => never(permanent_advice(reason)),
    }
}

fn conditional(reason: &Reason) -> Strategy {
    use Change::{AddConstraint, AddInstruction, CompressContext, ScaleOutputBudget};
    use RecommendedAction as Advice;
    const ONE: Tries = Tries::AtMost(1);
    const LAST_ERROR: Change = Change::AddLastError { text: None };
    let instruction = |text: &str| AddInstruction { text: text.into() };
    let constraint = |text: &str| AddConstraint { text: text.into() };
    match reason {
        Reason::ContextOverflow => {
            let changes = vec![CompressContext { to_tokens: None }, instruction("Focus on the core task.")];
            let fitting = once_every(10, ONE, changes, Advice::TruncateAndResubmit);
            Strategy { target: vec![Towards::LargerModel], ..fitting }
        }
        Reason::OutputTruncated => {
            once_every(10, ONE, vec![ScaleOutputBudget { factor: 2.0 }], Advice::TruncateAndResubmit)
        }
        Reason::TokenBudgetExceeded => {
            let changes = vec![ScaleOutputBudget { factor: 0.6 }, instruction("Be concise.")];
            once_every(10, ONE, changes, Advice::TruncateAndResubmit)
        }
        Reason::MalformedOutput | Reason::SchemaMismatch => {
            let changes = vec![LAST_ERROR, constraint("The answer must pass the validation that failed.")];
            once_every(10, ONE, changes, Advice::FixAndReplay)
        }
        Reason::ToolError | Reason::MaxIterations => once_every(30, ONE, vec![LAST_ERROR], Advice::FixAndReplay),
        Reason::HallucinationLoop => {
            let changes = vec![LAST_ERROR, instruction("Do not repeat it."), constraint("Validate before answering.")];
            let target = vec![Towards::OtherAgent, Towards::OtherModel];
            Strategy { target, ..once_every(60, ONE, changes, Advice::Reassign) }
        }
        Reason::QuotaExhausted => Strategy { delay: Delay::AtReset, tries: ONE, ..never(Advice::EscalateToTenant) },
        Reason::Unknown => once_every(120, ONE, vec![], Advice::ManualReviewRequired),
        Reason::AuthFailed => never(Advice::EscalateToTenant),
        // Every other reason needs something that automation does not have: a person fixes and replays.
        Reason::Timeout
        | Reason::RateLimited
        | Reason::ProviderOverloaded
        | Reason::ProviderError
        | Reason::Network
        | Reason::ContentFiltered
        | Reason::ToolNotFound
        | Reason::PermissionDenied
        | Reason::InvalidRequest
        | Reason::NotFound
        | Reason::ConflictDuplicate
        | Reason::ResourceExhausted
        | Reason::DependencyUnavailable
        | Reason::ApprovalExpired
        | Reason::Cancelled
        | Reason::DataIntegrity
        | Reason::Bug
        | Reason::Silent
        | Reason::Unclaimed
        | Reason::EmptyOutput
        | Reason::NoEffect
        | Reason::Custom(_) => never(Advice::FixAndReplay),
    }
}

fn permanent_advice(reason: &Reason) -> RecommendedAction {
    match reason {
        Reason::AuthFailed | Reason::PermissionDenied | Reason::QuotaExhausted => RecommendedAction::EscalateToTenant,
        Reason::ConflictDuplicate | Reason::Cancelled => RecommendedAction::Discard,
        Reason::Unclaimed => RecommendedAction::Reassign,
        Reason::Timeout
        | Reason::RateLimited
        | Reason::ProviderOverloaded
        | Reason::ProviderError
        | Reason::Network
        | Reason::ContextOverflow
        | Reason::TokenBudgetExceeded
        | Reason::OutputTruncated
        | Reason::MalformedOutput
        | Reason::SchemaMismatch
        | Reason::ContentFiltered
        | Reason::HallucinationLoop
        | Reason::MaxIterations
        | Reason::ToolError
        | Reason::ToolNotFound
        | Reason::InvalidRequest
        | Reason::NotFound
        | Reason::ResourceExhausted
        | Reason::DependencyUnavailable
        | Reason::ApprovalExpired
        | Reason::DataIntegrity
        | Reason::Bug
        | Reason::Unknown
        | Reason::Silent
        | Reason::EmptyOutput
        | Reason::NoEffect
        | Reason::Custom(_) => RecommendedAction::FixAndReplay,
    }
}

fn once_every(seconds: u64, tries: Tries, changes: Vec<Change>, recommended: RecommendedAction) -> Strategy {
    Strategy { delay: Delay::FixedMs(seconds * SECOND_MS), tries, changes, target: vec![], recommended }
}

fn never(recommended: RecommendedAction) -> Strategy {
    Strategy { delay: Delay::Never, tries: Tries::AtMost(0), changes: vec![], target: vec![], recommended }
}
