//! Tests whether a run would accept the action of an operation, with the checks of the single action and without a write.

use redrive_core::lifecycle::Event;

use crate::error::{Error, Result};
use crate::model::triage::Triage;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::triage::merges;
use crate::triage::plans;
use crate::triage::verbs::reassigned;
use crate::tx::Tx;

/// Its state or attempt has changed since the set was frozen.
pub const CHANGED: &str = "changed";
/// A person has decided about it since the set was frozen.
pub const DECIDED_SINCE: &str = "decided_since";
/// The filter no longer matches it.
pub const NO_LONGER_MATCHES: &str = "no_longer_matches";
pub const GONE: &str = "gone";
pub const NOT_FOUND: &str = "not_found";
/// Its row cannot be read.
pub const UNREADABLE: &str = "unreadable";

/// The code of what prevents the action; none if it would be accepted.
pub fn obstacle(tx: &mut Tx<'_>, row: &RunRow, triage: &Triage) -> Result<Option<&'static str>> {
    match test(tx, row, triage) {
        Ok(()) => Ok(None),
        Err(error) => refusal(error).map(Some),
    }
}

fn test(tx: &mut Tx<'_>, row: &RunRow, triage: &Triage) -> Result<()> {
    let event = match triage {
        Triage::Replay(replay) => {
            let permitted = plans::permit_of(tx, row, &replay.proposed())?;
            return permitted.permit.refused.map_or(Ok(()), |refused| Err(refused.into()));
        }
        Triage::Cancel => Event::Cancel,
        Triage::Resolve => Event::Resolve,
        Triage::Discard => Event::Discard,
        Triage::Reject => Event::Reject,
        Triage::Defer { until } => Event::Defer { until: *until },
        Triage::Reassign { queue, .. } => return reassigned(tx, row, queue.as_ref()).map(drop),
        Triage::Assign { .. } => Event::Assign,
        Triage::Unmerge => Event::Unmerge,
        Triage::Merge { into } => merges::merge(tx, row, into)?,
        Triage::Note | Triage::Review | Triage::Approve { .. } => return Ok(()),
    };
    let (_, policy) = run_row::rules_of(tx, row)?;
    row.ask(&event, &policy, tx.now)?;
    Ok(())
}

/// The code of a refusal; other errors pass through.
pub fn refusal(error: Error) -> Result<&'static str> {
    match error {
        Error::Refused(refused) => Ok(refused.code()),
        Error::NotFound(_) => Ok(NOT_FOUND),
        Error::MergeRefused(_) => Ok("merge_refused"),
        Error::RevisionChanged | Error::PlanChanged { .. } => Ok(CHANGED),
        Error::EffectUnknown => Ok("effect_unknown"),
        Error::EffectInProgress { .. } => Ok("effect_in_progress"),
        failed @ (Error::DeadLettered(_)
        | Error::LeaseLost { .. }
        | Error::Cancelled { .. }
        | Error::AttemptConflict { .. }
        | Error::RunConflict
        | Error::PatternMerged { .. }
        | Error::NoSuchStep
        | Error::OwnRequest
        | Error::OperationIs(_)
        | Error::EffectSettled { .. }
        | Error::LeaseNeeded
        | Error::BadCursor
        | Error::TooManyQueues { .. }
        | Error::TooManySteps { .. }
        | Error::ManagedByConfig
        | Error::Busy
        | Error::Unavailable(_)
        | Error::Closing
        | Error::Damaged(_)
        | Error::Unexpected(_)
        | Error::Corrupt { .. }
        | Error::Storage(_)) => Err(failed),
    }
}
