//! A round over the operations that are open: look beside the writer, then hand it one bounded piece. Whatever was seen
//! is checked again in the commit, by the cursor, so two who look at once do nothing twice.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::wire::{CanaryState, OperationState};

use crate::commands::operation_freeze::Found;
use crate::commands::operation_move::Turn;
use crate::commands::operation_row::{OperationRow, public_id};
use crate::commands::operation_settle::Outcomes;
use crate::error::{Error, Result};
use crate::model::Swept;
use crate::operation_model::NewOperation;

/// A set of up to so many runs is frozen before the caller has its answer.
const AT_ONCE_MAX: u64 = 10_000;

/// What a store does for operations: the looks beside the writer, and the commits.
#[async_trait]
pub(crate) trait Bench: Sync {
    async fn open_operations(&self) -> Result<Vec<OperationRow>>;
    async fn operation_row(&self, id: i64) -> Result<OperationRow>;
    async fn operation_spec(&self, id: i64) -> Result<NewOperation>;
    async fn find_piece(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Found>;
    async fn keep_piece(&self, id: i64, spec: Arc<NewOperation>, found: Found) -> Result<bool>;
    async fn find_turn(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Turn>;
    async fn take_turn(&self, id: i64, replica: String, spec: Arc<NewOperation>, turn: Turn) -> Result<Option<usize>>;
    /// None where they tell nothing that is worth a commit.
    async fn find_outcomes(&self, id: i64, spec: Arc<NewOperation>) -> Result<Option<Outcomes>>;
    async fn keep_outcomes(
        &self,
        id: i64,
        replica: String,
        spec: Arc<NewOperation>,
        outcomes: Outcomes,
    ) -> Result<Option<usize>>;
    async fn stop_operation(&self, id: i64, because: String) -> Result<()>;
}

/// Freezes the set before the answer, as far as that goes.
pub(crate) async fn freeze_at_once(bench: &dyn Bench, id: i64) -> Result<()> {
    match try_freeze_at_once(bench, id).await {
        Err(error) if !error.is_passing() => stop(bench, id, &error).await,
        done => done,
    }
}

async fn try_freeze_at_once(bench: &dyn Bench, id: i64) -> Result<()> {
    let spec = Arc::new(bench.operation_spec(id).await?);
    loop {
        let row = bench.operation_row(id).await?;
        if !row.preparing || row.matched >= AT_ONCE_MAX {
            return Ok(());
        }
        freeze(bench, row, spec.clone()).await?;
    }
}

pub(crate) async fn round(bench: &dyn Bench, replica: &str) -> Result<Swept> {
    let (mut swept, mut failed) = (Swept::default(), None);
    for row in bench.open_operations().await? {
        let id = row.id;
        match piece(bench, replica, row).await {
            Ok(piece) => {
                swept.looked_at += piece.looked_at;
                swept.moved += piece.moved;
                swept.more |= piece.more;
            }
            // The store is busy or away: nothing is wrong with the operation.
            Err(error) if error.is_passing() => failed = failed.or(Some(error)),
            Err(error) => stop(bench, id, &error).await?,
        }
    }
    failed.map_or(Ok(swept), Err)
}

/// One that can't be worked says why, and costs the others nothing.
async fn stop(bench: &dyn Bench, id: i64, error: &Error) -> Result<()> {
    tracing::error!(operation = public_id(id), %error, "operation stopped: it can't be worked");
    bench.stop_operation(id, format!("It could not be worked: {error}.")).await
}

async fn piece(bench: &dyn Bench, replica: &str, row: OperationRow) -> Result<Swept> {
    let spec = Arc::new(bench.operation_spec(row.id).await?);
    if row.preparing {
        return freeze(bench, row, spec).await;
    }
    // What became of the items before is looked up while the writer moves the next ones.
    let settles = settle(bench, replica, row.id, spec.clone());
    let (moved, settled) = match row.state {
        OperationState::Running if !row.all_moved && !awaits_canary(&row) => {
            tokio::try_join!(take_turn(bench, replica, row, spec), settles)?
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

async fn freeze(bench: &dyn Bench, row: OperationRow, spec: Arc<NewOperation>) -> Result<Swept> {
    let id = row.id;
    let found = bench.find_piece(row, spec.clone()).await?;
    let kept = bench.keep_piece(id, spec, found).await?;
    Ok(Swept { looked_at: 1, moved: usize::from(kept), more: true })
}

async fn take_turn(bench: &dyn Bench, replica: &str, row: OperationRow, spec: Arc<NewOperation>) -> Result<Swept> {
    let id = row.id;
    let turn = bench.find_turn(row, spec.clone()).await?;
    if turn.is_empty() {
        return Ok(Swept::default());
    }
    let paced = spec.rate_per_s.is_some();
    let moved = bench.take_turn(id, replica.to_owned(), spec, turn).await?.unwrap_or(0);
    Ok(Swept { looked_at: moved, moved, more: moved > 0 && !paced })
}

async fn settle(bench: &dyn Bench, replica: &str, id: i64, spec: Arc<NewOperation>) -> Result<Swept> {
    let Some(outcomes) = bench.find_outcomes(id, spec.clone()).await? else { return Ok(Swept::default()) };
    let more = outcomes.more || outcomes.judges();
    let kept = bench.keep_outcomes(id, replica.to_owned(), spec, outcomes).await?;
    let moved = kept.unwrap_or(0);
    Ok(Swept { looked_at: moved, moved, more: more && kept.is_some() })
}

fn awaits_canary(row: &OperationRow) -> bool {
    row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some()
}
