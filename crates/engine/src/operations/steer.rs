//! A person's hand on an operation. It holds from the next batch of items on, since both are the committer's.

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
            // A pause is no reason to begin counting anew: a slow operation would never get to its next run.
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

/// It can't be worked: it stops where it is, and nobody looks at it again.
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
