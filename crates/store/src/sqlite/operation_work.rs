//! A round over the operations that are open: look beside the writer, then hand it one bounded piece. Whatever was seen
//! is checked again in the commit, by the cursor, so two who look at once do nothing twice.

use std::sync::Arc;

use redrive_core::wire::{CanaryState, OperationState};
use rusqlite::Connection;

use crate::clock::Clock;
use crate::error::Result;
use crate::model::Swept;
use crate::operation_model::NewOperation;
use crate::sqlite::batch::Batch;
use crate::sqlite::committer::Committer;
use crate::sqlite::operation_row::{COLUMNS, OperationRow, find, spec};
use crate::sqlite::readers::Readers;
use crate::sqlite::{operation_freeze, operation_move, operation_settle};

/// A set of up to so many runs is frozen before the caller has its answer.
const AT_ONCE_MAX: u64 = 10_000;

/// Whoever works on operations: a replica's round, or the call that made one.
pub(super) struct Worker<'a> {
    pub(super) committer: &'a Committer,
    pub(super) readers: &'a Readers,
    pub(super) clock: &'a dyn Clock,
}

impl Worker<'_> {
    /// Freezes the set before the answer, as far as that goes.
    pub(super) async fn freeze_at_once(&self, id: i64) -> Result<()> {
        let spec = Arc::new(self.readers.run(move |conn| spec(conn, id)).await?);
        loop {
            let row = self.readers.run(move |conn| find(conn, id)).await?;
            if !row.preparing || row.matched >= AT_ONCE_MAX {
                return Ok(());
            }
            self.freeze(row, spec.clone()).await?;
        }
    }

    pub(super) async fn round(&self, replica: &str) -> Result<Swept> {
        let mut swept = Swept::default();
        for (row, spec) in self.readers.run(open).await? {
            let piece = self.piece(replica, row, Arc::new(spec)).await?;
            swept.looked_at += piece.looked_at;
            swept.moved += piece.moved;
            swept.more |= piece.more;
        }
        Ok(swept)
    }

    async fn piece(&self, replica: &str, row: OperationRow, spec: Arc<NewOperation>) -> Result<Swept> {
        if row.preparing {
            return self.freeze(row, spec).await;
        }
        // What became of the items before is looked up while the writer moves the next ones.
        let settles = self.settle(replica, row.id, spec.clone());
        let (moved, settled) = match row.state {
            OperationState::Running if !row.all_moved && !awaits_canary(&row) => {
                tokio::try_join!(self.take_turn(replica, row, spec), settles)?
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

    async fn freeze(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Swept> {
        let (id, asked) = (row.id, spec.clone());
        let found = self.readers.run(move |conn| operation_freeze::find(conn, &row, &asked)).await?;
        let kept = self.committer.commit(move |batch| operation_freeze::keep(batch, id, &spec, &found)).await?;
        Ok(Swept { looked_at: 1, moved: usize::from(kept), more: true })
    }

    async fn take_turn(&self, replica: &str, row: OperationRow, spec: Arc<NewOperation>) -> Result<Swept> {
        let (id, asked, now) = (row.id, spec.clone(), self.clock.now());
        let turn = self.readers.run(move |conn| operation_move::find(conn, &row, &asked, now)).await?;
        if turn.is_empty() {
            return Ok(Swept::default());
        }
        let (replica, paced) = (replica.to_owned(), spec.rate_per_s.is_some());
        let moved = self.committer.commit(move |batch| operation_move::take(batch, id, &replica, &spec, &turn)).await?;
        let moved = moved.unwrap_or(0);
        Ok(Swept { looked_at: moved, moved, more: moved > 0 && !paced })
    }

    async fn settle(&self, replica: &str, id: i64, spec: Arc<NewOperation>) -> Result<Swept> {
        let (asked, now) = (spec.clone(), self.clock.now());
        let found = self.readers.run(move |conn| {
            let row = find(conn, id)?;
            let outcomes = operation_settle::find(conn, &row, &asked)?;
            Ok((row.open && outcomes.tell(&row, &asked, now)).then_some(outcomes))
        });
        let Some(outcomes) = found.await? else { return Ok(Swept::default()) };
        let (replica, more) = (replica.to_owned(), outcomes.more || outcomes.judges());
        let keep = move |batch: &mut Batch<'_>| operation_settle::keep(batch, id, &replica, &spec, &outcomes);
        let kept = self.committer.commit(keep).await?;
        let moved = kept.unwrap_or(0);
        Ok(Swept { looked_at: moved, moved, more: more && kept.is_some() })
    }
}

fn open(conn: &Connection) -> Result<Vec<(OperationRow, NewOperation)>> {
    let mut read = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM operations WHERE open = 1 ORDER BY id"))?;
    let rows = read.query_and_then([], OperationRow::read)?.collect::<Result<Vec<_>>>()?;
    rows.into_iter().map(|row| spec(conn, row.id).map(|spec| (row, spec))).collect()
}

fn awaits_canary(row: &OperationRow) -> bool {
    row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some()
}
