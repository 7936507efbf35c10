//! Creates an operation. Its set is frozen afterwards.

use redrive_core::operation::Pace;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, OperationState};

use crate::codec::encode;
use crate::error::{Error, Result};
use crate::model::operations::{Bulk, NewOperation};
use crate::operations::row::{OperationRow, Tallies};
use crate::ports::rows::NewOperationRow;
use crate::runs::attempts::json;
use crate::tx::Tx;

pub fn make(tx: &mut Tx<'_>, new: &NewOperation, actor: &str) -> Result<i64> {
    target_queue_exists(tx, &new.bulk)?;
    let state = if new.dry_run { OperationState::Preview } else { OperationState::Running };
    let row = OperationRow {
        id: 0,
        action: new.bulk.action(),
        state,
        preparing: true,
        all_moved: false,
        open: true,
        actor: actor.to_owned(),
        created_at: tx.now,
        started_at: (!new.dry_run).then_some(tx.now),
        ended_at: None,
        last_run: tx.rows.last_run()?,
        prepared_to: 0,
        moved_to: 0,
        matched: 0,
        eligible: 0,
        moved: 0,
        succeeded: 0,
        failed: 0,
        skipped: 0,
        tallies: Tallies::default(),
        canary: new.canary.as_ref().map(|_| CanaryState::Waiting),
        canary_until: None,
        canary_last: 0,
        stopped_because: None,
        joined: None,
        pace: Pace { from: tx.now, moved: 0 },
        changes_seen: tx.rows.last_change()?,
        settle_until: None,
        holder: None,
        held_until: Timestamp::default(),
    };
    Ok(tx.rows.insert_operation(&NewOperationRow { row: &row, spec: encode(json(new)?.as_bytes()) })?)
}

/// Refuses an unknown target queue: a typo must not send thousands of runs to a queue without workers.
fn target_queue_exists(tx: &mut Tx<'_>, bulk: &Bulk) -> Result<()> {
    let queue = match bulk {
        Bulk::Replay(replay) => replay.queue.as_ref(),
        Bulk::Reassign { queue, .. } => queue.as_ref(),
        Bulk::Resolve | Bulk::Discard | Bulk::Assign { .. } | Bulk::Defer { .. } | Bulk::Merge { .. } => None,
    };
    match queue {
        Some(queue) => tx.find_queue(queue)?.map(drop).ok_or(Error::NotFound("queue")),
        None => Ok(()),
    }
}
