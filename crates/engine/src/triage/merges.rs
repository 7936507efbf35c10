//! Runs that are part of another: what is merged, and what happens to failures that still come in for it.

use redrive_core::ids::RunId;
use redrive_core::lifecycle::{Event, Refused, next_attempt};
use redrive_core::run::State;

use crate::error::{Error, Result};
use crate::ingest::report::record;
use crate::model::FailedAttempt;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// A chain is at most this long: each link was a person's act.
const CHAIN_MAX: usize = 100;

/// The move of `row` into another run of its tenant, if that is one it can become part of.
pub fn merge<'a>(tx: &mut Tx<'_>, row: &RunRow, into: &RunId) -> Result<Event<'a>> {
    if row.run_id == *into {
        return Err(Error::MergeRefused("a run can't be merged into itself"));
    }
    let target = tx.find_run_of(row.tenant, into)?.ok_or(Error::NotFound("run to merge into"))?;
    match &target.run.state {
        State::Merged(merged) => Err(Refused::MergedInto(merged.into.clone()).into()),
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Review(_)
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded => Ok(Event::Merge { into: into.clone() }),
    }
}

/// A new failure of a merged run is also its target's next one, unless somebody is at work on that.
pub fn pass_on(tx: &mut Tx<'_>, tenant: i64, into: &RunId, failed: &FailedAttempt) -> Result<()> {
    let mut into = into.clone();
    for _ in 0..CHAIN_MAX {
        let Some(target) = tx.find_run_of(tenant, &into)? else { return Ok(()) };
        match &target.run.state {
            State::Merged(merged) => into = merged.into.clone(),
            State::Running(_) => return Ok(()),
            State::Scheduled(_)
            | State::Dead { .. }
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded => {
                if let Ok(attempt) = next_attempt(&target.run) {
                    record(tx, &target.clone(), target, failed, attempt, None, None)?;
                }
                return Ok(());
            }
        }
    }
    Ok(())
}
