//! Starts, pauses, resumes, cancels and stops operations, from the next batch of items on.

use redrive_core::operation::{Pace, Steer, steer as decide};
use redrive_core::wire::OperationState;

use crate::error::{Error, Result};
use crate::operations::row;
use crate::operations::settle::conclude;
use crate::tx::Tx;

pub fn steer(tx: &mut Tx<'_>, id: i64, by: Steer) -> Result<()> {
    let mut row = row::operation(tx, id)?;
    let to = decide(row.state, by).ok_or(Error::OperationIs(row.state))?;
    if to == row.state {
        return Ok(());
    }
    row.state = to;
    match to {
        OperationState::Running => {
            // A pause does not restart the rate: a slow operation would never move its next run.
            if row.started_at.is_none() {
                row.pace = Pace::starting(tx.now);
                row.started_at = Some(tx.now);
                row.changes_seen = tx.rows.last_change()?;
            }
        }
        OperationState::Cancelled => {
            row.preparing = false;
            row.ended_at = Some(tx.now);
        }
        OperationState::Preview | OperationState::Paused | OperationState::Stopped | OperationState::Completed => {}
    }
    conclude(&mut row, tx.now);
    Ok(tx.rows.update_operation(&row)?)
}

/// Stops an operation after an error, for good.
pub fn stop(tx: &mut Tx<'_>, id: i64, because: &str) -> Result<()> {
    let mut row = row::operation(tx, id)?;
    match row.state {
        OperationState::Preview | OperationState::Running | OperationState::Paused => {
            row.state = OperationState::Stopped;
            row.stopped_because = Some(because.to_owned());
            row.ended_at = Some(tx.now);
        }
        OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => {}
    }
    row.preparing = false;
    row.open = false;
    Ok(tx.rows.update_operation(&row)?)
}
