//! What PostgreSQL does for operations: looks beside the writers, and commits.

use std::sync::Arc;

use async_trait::async_trait;

use super::committer::To;
use super::expected::Expects;
use super::operation_find::{find_outcomes, find_piece, find_turn};
use super::operation_list::{find, open, spec};
use super::store::{PgStore, read};
use crate::commands::batch::Batch;
use crate::commands::operation_freeze::{self, Found};
use crate::commands::operation_move::{self, Turn};
use crate::commands::operation_row::OperationRow;
use crate::commands::operation_settle::{self, Outcomes};
use crate::commands::operation_steer;
use crate::commands::operation_work::Bench;
use crate::error::Result;
use crate::operation_model::NewOperation;
use crate::store::Store as _;

#[async_trait]
impl Bench for PgStore {
    async fn open_operations(&self) -> Result<Vec<OperationRow>> {
        read!(self, look => open(&look))
    }

    async fn operation_row(&self, id: i64) -> Result<OperationRow> {
        read!(self, look => find(&look, id))
    }

    async fn operation_spec(&self, id: i64) -> Result<NewOperation> {
        read!(self, look => spec(&look, id))
    }

    async fn find_piece(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Found> {
        read!(self, look => find_piece(&look, &row, &spec))
    }

    async fn keep_piece(&self, id: i64, spec: Arc<NewOperation>, found: Found) -> Result<bool> {
        let keep = move |batch: &mut Batch<'_>| operation_freeze::keep(batch, id, &spec, &found);
        self.committer.commit(To::Desk, Expects::default(), keep).await
    }

    async fn find_turn(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Turn> {
        read!(self, look => find_turn(&look, &row, &spec, self.now()))
    }

    async fn take_turn(&self, id: i64, replica: String, spec: Arc<NewOperation>, turn: Turn) -> Result<Option<usize>> {
        let take = move |batch: &mut Batch<'_>| operation_move::take(batch, id, &replica, &spec, &turn);
        self.committer.commit(To::Desk, Expects::default(), take).await
    }

    async fn find_outcomes(&self, id: i64, spec: Arc<NewOperation>) -> Result<Option<Outcomes>> {
        // What commits appended has to be in the log before it is read.
        self.log_changes().await?;
        let (row, outcomes) = read!(self, look => async {
            let row = find(&look, id).await?;
            let outcomes = find_outcomes(&look, &row, &spec, self.followed.from(id, row.changes_seen)).await?;
            Ok((row, outcomes))
        })?;
        self.followed.keep(id, &outcomes);
        Ok((row.open && outcomes.tell(&row, &spec, self.now())).then_some(outcomes))
    }

    async fn keep_outcomes(
        &self,
        id: i64,
        replica: String,
        spec: Arc<NewOperation>,
        outcomes: Outcomes,
    ) -> Result<Option<usize>> {
        let keep = move |batch: &mut Batch<'_>| operation_settle::keep(batch, id, &replica, &spec, &outcomes);
        self.committer.commit(To::Desk, Expects::default(), keep).await
    }

    async fn stop_operation(&self, id: i64, because: String) -> Result<()> {
        self.write(move |batch| operation_steer::stop(batch, id, &because)).await
    }
}
