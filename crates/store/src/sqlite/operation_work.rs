//! What SQLite does for operations: looks beside the writer, and commits.

use std::sync::Arc;

use async_trait::async_trait;

use crate::commands::operation_freeze::{self, Found};
use crate::commands::operation_move::{self, Turn};
use crate::commands::operation_row::{COLUMNS, OperationRow};
use crate::commands::operation_settle::{self, Outcomes};
use crate::commands::operation_steer;
use crate::commands::operation_work::Bench;
use crate::error::Result;
use crate::operation_model::NewOperation;
use crate::sqlite::operation_find::{find_outcomes, find_piece, find_turn};
use crate::sqlite::operation_rows::{find, spec};
use crate::sqlite::store::SqliteStore;
use crate::store::Store as _;

#[async_trait]
impl Bench for SqliteStore {
    async fn open_operations(&self) -> Result<Vec<OperationRow>> {
        self.read(|conn| {
            let sql = format!("SELECT {COLUMNS} FROM operations WHERE open = 1 ORDER BY id");
            let mut read = conn.prepare_cached(&sql)?;
            read.query_and_then([], |row| OperationRow::read(row))?.collect()
        })
        .await
    }

    async fn operation_row(&self, id: i64) -> Result<OperationRow> {
        self.read(move |conn| find(conn, id)).await
    }

    async fn operation_spec(&self, id: i64) -> Result<NewOperation> {
        self.read(move |conn| spec(conn, id)).await
    }

    async fn find_piece(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Found> {
        self.read(move |conn| find_piece(conn, &row, &spec)).await
    }

    async fn keep_piece(&self, id: i64, spec: Arc<NewOperation>, found: Found) -> Result<bool> {
        self.write(move |batch| operation_freeze::keep(batch, id, &spec, &found)).await
    }

    async fn find_turn(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<Turn> {
        let now = self.now();
        self.read(move |conn| find_turn(conn, &row, &spec, now)).await
    }

    async fn take_turn(&self, id: i64, replica: String, spec: Arc<NewOperation>, turn: Turn) -> Result<Option<usize>> {
        self.write(move |batch| operation_move::take(batch, id, &replica, &spec, &turn)).await
    }

    async fn find_outcomes(&self, id: i64, spec: Arc<NewOperation>) -> Result<Option<Outcomes>> {
        let (now, followed) = (self.now(), self.followed.clone());
        self.read(move |conn| {
            let row = find(conn, id)?;
            let outcomes = find_outcomes(conn, &row, &spec, followed.from(id, row.changes_seen))?;
            followed.keep(id, &outcomes);
            Ok((row.open && outcomes.tell(&row, &spec, now)).then_some(outcomes))
        })
        .await
    }

    async fn keep_outcomes(
        &self,
        id: i64,
        replica: String,
        spec: Arc<NewOperation>,
        outcomes: Outcomes,
    ) -> Result<Option<usize>> {
        self.write(move |batch| operation_settle::keep(batch, id, &replica, &spec, &outcomes)).await
    }

    async fn stop_operation(&self, id: i64, because: String) -> Result<()> {
        self.write(move |batch| operation_steer::stop(batch, id, &because)).await
    }
}
