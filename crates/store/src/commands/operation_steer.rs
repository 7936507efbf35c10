//! A person's hand on an operation. It holds from the next batch of items on, since both are the committer's.

use redrive_core::operation::{Pace, Steer, steer as decide};
use redrive_core::wire::OperationState;

use crate::commands::batch::Batch;
use crate::commands::operation_settle::conclude;
use crate::error::{Error, Result};

pub(crate) fn steer(batch: &mut Batch<'_>, id: i64, by: Steer) -> Result<()> {
    let mut row = batch.operation(id)?;
    let to = decide(row.state, by).ok_or(Error::OperationIs(row.state))?;
    if to == row.state {
        return Ok(());
    }
    row.state = to;
    match to {
        OperationState::Running => {
            row.pace = Pace::starting(batch.now);
            if row.started_at.is_none() {
                row.started_at = Some(batch.now);
                row.changes_seen = batch.rows.last_change()?;
            }
        }
        OperationState::Cancelled => {
            row.preparing = false;
            row.ended_at = Some(batch.now);
        }
        OperationState::Preview | OperationState::Paused | OperationState::Stopped | OperationState::Completed => {}
    }
    conclude(&mut row, batch.now);
    batch.rows.update_operation(&row)
}
