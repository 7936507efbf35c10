//! Statements about operations in SQLite's dialect.

use redrive_core::wire::ItemOutcome;
use rusqlite::Connection;

use crate::shared::columns::{Columns as _, number};
use crate::shared::operation_work::FIRST_ATTEMPT;
use crate::shared::reader::{MovedItem, OperationQueries, SqlParam, SqlReader as _};
use redrive_engine::error::PortResult as Result;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::runs::document::position;

impl OperationQueries for Connection {
    async fn moved_items(&self, operation: &OperationRow, runs: &[i64], _: &[i64]) -> Result<Vec<MovedItem>> {
        let sql = format!(
            "SELECT item.run, runs.state, CASE WHEN item.run <= $4 THEN {FIRST_ATTEMPT} END
             FROM operation_items AS item JOIN runs ON runs.id = item.run
             WHERE item.run = ANY($1) AND item.operation = $2 AND item.outcome = $3"
        );
        let moved = position(ItemOutcome::ALL, &ItemOutcome::Moved);
        let values = [SqlParam::from(runs), operation.id.into(), moved.into(), operation.canary_last.into()];
        self.rows_any(&sql, &values).await?.read(|row| {
            Ok(MovedItem { run: number(row, 0)?, state: number(row, 1)?, first_attempt: row.number_or_none(2)? })
        })
    }
}
