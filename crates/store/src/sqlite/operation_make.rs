//! A new operation: what is asked for, and where its set ends. Freezing comes next, a piece at a time.

use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, OperationAction, OperationState};
use rusqlite::params;

use crate::codec::encode;
use crate::error::{Error, Result};
use crate::operation_model::{Bulk, NewOperation};
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::changes;
use crate::sqlite::life::position;
use crate::sqlite::operation_row::Tallies;
use crate::sqlite::received::last_id;

pub(super) fn make(batch: &mut Batch<'_>, new: &NewOperation, actor: &str) -> Result<i64> {
    target_queue_exists(batch, &new.bulk)?;
    let state = if new.dry_run { OperationState::Preview } else { OperationState::Running };
    let started = (!new.dry_run).then_some(batch.now);
    let mut insert = batch.conn.prepare_cached(
        "INSERT INTO operations (action, state, preparing, all_moved, open, spec, actor, created_at, started_at, last_run,
             prepared_to, moved_to, matched, eligible, moved, succeeded, failed, skipped, tallies, canary, pace_from,
             pace_moved, changes_seen, held_until)
         VALUES (?1, ?2, 1, 0, 1, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, 0, 0, 0, 0, 0, ?8, ?9, ?5, 0, ?10, 0)",
    )?;
    insert.execute(params![
        position(OperationAction::ALL, &new.bulk.action()),
        position(OperationState::ALL, &state),
        encode(json(new)?.as_bytes()),
        actor,
        batch.now.as_millis(),
        started.map(Timestamp::as_millis),
        last_id(batch.conn)?,
        json(&Tallies::default())?,
        new.canary.as_ref().map(|_| position(CanaryState::ALL, &CanaryState::Waiting)),
        changes::current(batch.conn)?,
    ])?;
    Ok(batch.conn.last_insert_rowid())
}

/// A slip of the pen must not leave ten thousand runs where nobody looks.
fn target_queue_exists(batch: &mut Batch<'_>, bulk: &Bulk) -> Result<()> {
    let queue = match bulk {
        Bulk::Replay(replay) => replay.queue.as_ref(),
        Bulk::Reassign { queue, .. } => queue.as_ref(),
        Bulk::Resolve | Bulk::Discard | Bulk::Assign { .. } | Bulk::Defer { .. } | Bulk::Merge { .. } => None,
    };
    match queue {
        Some(queue) => batch.find_queue(queue)?.map(drop).ok_or(Error::NotFound("queue")),
        None => Ok(()),
    }
}
