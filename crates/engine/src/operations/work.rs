//! One round over the open operations: reads beside the writer, then one bounded commit each. The commit checks the cursor
//! again, so that two replicas repeat nothing.

use std::sync::Arc;

use redrive_core::wire::{CanaryState, OperationState};

use crate::error::{Error, Result};
use crate::model::Swept;
use crate::model::operations::NewOperation;
use crate::operations::row::{OperationRow, public_id};
use crate::operations::{freeze as freezing, moves, settle as settling, steer};
use crate::ports::backend::{Backend, Route};

/// The number of runs that are frozen before the caller gets an answer.
const AT_ONCE_MAX: u64 = 10_000;

/// Freezes the first runs of the set.
pub async fn freeze_at_once(backend: &impl Backend, id: i64) -> Result<()> {
    match try_freeze_at_once(backend, id).await {
        Err(error) if !error.is_passing() => stop(backend, id, &error).await,
        done => done,
    }
}

async fn try_freeze_at_once(backend: &impl Backend, id: i64) -> Result<()> {
    let spec = Arc::new(backend.operation_spec(id).await?);
    loop {
        let row = backend.operation_row(id).await?;
        if !row.preparing || row.matched >= AT_ONCE_MAX {
            return Ok(());
        }
        freeze(backend, row, spec.clone()).await?;
    }
}

pub async fn round(backend: &impl Backend, replica: &str) -> Result<Swept> {
    let (mut swept, mut failed) = (Swept::default(), None);
    for row in backend.open_operations().await? {
        let id = row.id;
        match piece(backend, replica, row).await {
            Ok(piece) => {
                swept.looked_at += piece.looked_at;
                swept.moved += piece.moved;
                swept.more |= piece.more;
            }
            // The store is busy or unreachable; the operation continues later.
            Err(error) if error.is_passing() => failed = failed.or(Some(error)),
            Err(error) => stop(backend, id, &error).await?,
        }
    }
    failed.map_or(Ok(swept), Err)
}

/// Stops an operation that cannot continue, with the reason.
async fn stop(backend: &impl Backend, id: i64, error: &Error) -> Result<()> {
    tracing::error!(operation = public_id(id), %error, "operation stopped after an error");
    let because = format!("It could not be worked: {error}.");
    backend.submit(Route::system(), move |tx| steer::stop(tx, id, &because)).await
}

async fn piece(backend: &impl Backend, replica: &str, row: OperationRow) -> Result<Swept> {
    let spec = Arc::new(backend.operation_spec(row.id).await?);
    if row.preparing {
        return freeze(backend, row, spec).await;
    }
    // Outcomes of earlier items are read while the writer moves the next ones.
    let settles = settle(backend, replica, row.id, spec.clone());
    let (moved, settled) = match row.state {
        OperationState::Running if !row.all_moved && !awaits_canary(&row) => {
            tokio::try_join!(move_items(backend, replica, row, spec), settles)?
        }
        OperationState::Preview
        | OperationState::Running
        | OperationState::Paused
        | OperationState::Stopped
        | OperationState::Cancelled
        | OperationState::Completed => (Swept::default(), settles.await?),
    };
    Ok(Swept {
        looked_at: moved.looked_at + settled.looked_at,
        moved: moved.moved + settled.moved,
        more: moved.more || settled.more,
    })
}

async fn freeze(backend: &impl Backend, row: OperationRow, spec: Arc<NewOperation>) -> Result<Swept> {
    let id = row.id;
    let found = backend.find_piece(row, spec.clone()).await?;
    let kept = backend.submit(Route::system(), move |tx| freezing::store_slice(tx, id, &spec, &found)).await?;
    Ok(Swept { looked_at: 1, moved: usize::from(kept), more: true })
}

async fn move_items(
    backend: &impl Backend,
    replica: &str,
    row: OperationRow,
    spec: Arc<NewOperation>,
) -> Result<Swept> {
    let id = row.id;
    let slice = backend.find_turn(row, spec.clone()).await?;
    if slice.is_empty() {
        return Ok(Swept::default());
    }
    let paced = spec.rate_per_s.is_some();
    let replica = replica.to_owned();
    let taken = backend.submit(Route::system(), move |tx| moves::move_slice(tx, id, &replica, &spec, &slice)).await?;
    let moved = taken.unwrap_or(0);
    Ok(Swept { looked_at: moved, moved, more: moved > 0 && !paced })
}

async fn settle(backend: &impl Backend, replica: &str, id: i64, spec: Arc<NewOperation>) -> Result<Swept> {
    let Some(outcomes) = backend.find_outcomes(id, spec.clone()).await? else { return Ok(Swept::default()) };
    let more = outcomes.more || outcomes.judges();
    let replica = replica.to_owned();
    let kept =
        backend.submit(Route::system(), move |tx| settling::store_outcomes(tx, id, &replica, &spec, &outcomes)).await?;
    let moved = kept.unwrap_or(0);
    Ok(Swept { looked_at: moved, moved, more: more && kept.is_some() })
}

fn awaits_canary(row: &OperationRow) -> bool {
    row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some()
}
