//! What the next attempt does differently. A change or a target that was tried is not tried again; what an earlier failure
//! made necessary is carried along, since each attempt begins with the payload as it was captured.

use crate::policy::Policy;
use crate::reason::Reason;
use crate::run::Run;
use crate::strategy::Failure;
use crate::strategy::fit::Fit;
use crate::strategy::route::{Route, fallback_queue, route};
use crate::strategy::sentence::Because;
use crate::strategy::table::Strategy;
use crate::strategy::tried;
use crate::verdict::{Change, Target};

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Plan {
    /// All that the next attempt does differently from the payload.
    pub(super) changes: Vec<Change>,
    /// Of them, what the last attempt did not do.
    pub(super) fresh: Vec<Change>,
    pub(super) target: Target,
    pub(super) missing: Vec<&'static str>,
    /// To be remembered as tried.
    pub(super) tried: Vec<u64>,
}

/// What the strategy comes to for this run, or why no retry could succeed.
pub(super) fn plan(failure: &Failure, run: &Run, policy: &Policy, strategy: &Strategy) -> Result<Plan, Because> {
    let fit = Fit::new(failure, run, policy);
    let Route { target, missing } = route(&strategy.target, run, policy, &fit);
    let wanted = strategy.changes.iter().map(|change| concrete(change, failure, &fit, &target));
    let wanted: Vec<Change> = wanted.collect::<Result<_, _>>()?;
    let known = |change: &Change| run.memory.tried.contains(&tried::of_change(change, failure));
    let (again, fresh): (Vec<Change>, Vec<Change>) = wanted.into_iter().partition(known);
    let wants_something = !strategy.changes.is_empty() || !strategy.target.is_empty();
    if wants_something && fresh.is_empty() && target == Target::default() {
        return Err(Because::NothingNew { again, missing });
    }
    let tried = fresh.iter().map(|change| tried::of_change(change, failure)).chain(tried::of_target(&target)).collect();
    Ok(Plan { changes: carried(run, &fresh), fresh, target, missing, tried })
}

/// After the changed retry has not helped: one more, in the simpler queue.
pub(super) fn fall_back(run: &Run, policy: &Policy) -> Option<Plan> {
    let target = Target { queue: Some(fallback_queue(run, policy).ok()?), ..Target::default() };
    let tried = tried::of_target(&target).collect();
    Some(Plan { changes: run.changes.clone(), target, tried, ..Plan::default() })
}

/// With its figures, where the table leaves them open.
fn concrete(change: &Change, failure: &Failure, fit: &Fit<'_>, target: &Target) -> Result<Change, Because> {
    match change {
        Change::CompressContext { to_tokens: None } if failure.reason == Reason::ContextOverflow => {
            let to_tokens = fit.compress_to(target.model.as_ref()).map_err(Because::TooLong)?;
            Ok(Change::CompressContext { to_tokens })
        }
        Change::CompressContext { .. }
        | Change::AddInstruction { .. }
        | Change::AddConstraint { .. }
        | Change::AddLastError { .. }
        | Change::ScaleOutputBudget { .. }
        | Change::SetModel { .. } => Ok(change.clone()),
    }
}

/// What the last attempt did, and over it what is new; of a kind that can only be done once, the new one.
fn carried(run: &Run, fresh: &[Change]) -> Vec<Change> {
    let replaced = |old: &Change| {
        fresh.iter().any(|new| match (old, new) {
            (Change::CompressContext { .. }, Change::CompressContext { .. })
            | (Change::ScaleOutputBudget { .. }, Change::ScaleOutputBudget { .. })
            | (Change::AddLastError { .. }, Change::AddLastError { .. })
            | (Change::SetModel { .. }, Change::SetModel { .. }) => true,
            (old, new) => old == new,
        })
    };
    run.changes.iter().filter(|old| !replaced(old)).chain(fresh).cloned().collect()
}
