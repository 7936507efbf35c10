//! Statements about operations in PostgreSQL's dialect.

use redrive_core::wire::ItemOutcome;

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::columns::{Columns as _, number};
use crate::shared::operation_work::FIRST_ATTEMPT;
use crate::shared::reader::{MovedItem, OperationQueries, SqlReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::runs::document::position;

impl OperationQueries for Snapshot<'_> {
    async fn moved_items(&self, operation: &OperationRow, runs: &[i64], settled: &[i64]) -> Result<Vec<MovedItem>> {
        let moved = position(ItemOutcome::ALL, &ItemOutcome::Moved);
        let sql = format!(
            "SELECT q_run, run.state, CASE WHEN q_run <= $5 THEN {FIRST_ATTEMPT} END
             FROM unnest($2::bigint[]) AS q(q_run) CROSS JOIN LATERAL (
                 SELECT state FROM runs WHERE id = q_run AND (state = ANY($4) OR id <= $5) OFFSET 0) AS run
             CROSS JOIN LATERAL (
                 SELECT run, attempt, outcome FROM operation_items
                 WHERE operation = $1 AND run >= q_run AND run <= q_run ORDER BY run LIMIT 1) AS item
             WHERE item.outcome = $3"
        );
        let values = [operation.id.into(), runs.into(), moved.into(), settled.into(), operation.canary_last.into()];
        SqlReader::rows(self, &sql, &values).await?.read(|row| {
            Ok(MovedItem { run: number(row, 0)?, state: number(row, 1)?, first_attempt: row.number_or_none(2)? })
        })
    }
}
