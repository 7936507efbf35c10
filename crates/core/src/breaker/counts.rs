//! Which ends of an attempt a breaker counts, and as what.

use super::key::Scope;
use crate::reason::Reason;

/// What the end of an attempt says about the thing a breaker watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    Failure,
    /// It worked, whatever else went wrong.
    Success,
    /// Neither: nobody has learnt anything.
    Nothing,
}

/// How the end of an attempt counts; without a reason it was a success.
pub fn counts(scope: &Scope, failed: Option<&Reason>) -> Counts {
    let Some(reason) = failed else { return Counts::Success };
    match scope {
        Scope::Tenant { .. } => for_the_tenant(reason),
        Scope::Model { .. } | Scope::Everywhere { .. } => for_the_model(reason),
    }
}

fn for_the_tenant(reason: &Reason) -> Counts {
    let a_persons = matches!(reason, Reason::Cancelled | Reason::ApprovalExpired);
    if a_persons { Counts::Nothing } else { Counts::Failure }
}

/// An answer that is no good is still an answer: the provider was there to give it. Of a worker that went quiet nobody
/// knows whether it ever asked.
fn for_the_model(reason: &Reason) -> Counts {
    match reason {
        Reason::Timeout
        | Reason::RateLimited
        | Reason::ProviderOverloaded
        | Reason::ProviderError
        | Reason::Network
        | Reason::DependencyUnavailable => Counts::Failure,
        Reason::Silent
        | Reason::Unclaimed
        | Reason::Unknown
        | Reason::Bug
        | Reason::Cancelled
        | Reason::ApprovalExpired
        | Reason::Custom(_) => Counts::Nothing,
        Reason::QuotaExhausted
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
        | Reason::AuthFailed
        | Reason::PermissionDenied
        | Reason::InvalidRequest
        | Reason::NotFound
        | Reason::ConflictDuplicate
        | Reason::ResourceExhausted
        | Reason::DataIntegrity
        | Reason::EmptyOutput
        | Reason::NoEffect => Counts::Success,
    }
}
