//! Operations and their items, as callers read them.

use redrive_core::wire::{
    CanaryView, ItemOutcome, OperationItem, OperationItemsPage, OperationSample, OperationView, OperationsPage,
};

use super::columns::{Columns, json, number, owned_or_none, packed_json, packed_json_or_none, parsed_or_none};
use super::cursor::{seal_numbers, unseal_numbers};
use super::reader::SqlReader;
use super::records::{FromRow as _, OPERATION_COLUMN_COUNT, OPERATION_COLUMNS};
use super::runs::PAGE_MAX;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::operations::{ItemsCall, NewOperation};
use redrive_engine::operations::row::{OperationRow, number_of, public_id};
use redrive_engine::runs::document::word;

/// The question that cursors into the list are sealed for.
const OPERATIONS: &str = "operations";
/// Items that one page examines at most.
const ITEMS_EXAMINED_MAX: usize = 20_000;

/// The row of an operation.
pub(crate) async fn operation_row(reader: &impl SqlReader, id: i64) -> Result<OperationRow> {
    let sql = format!("SELECT {OPERATION_COLUMNS} FROM operations WHERE id = $1");
    let found = reader.row(&sql, &[id.into()]).await?.read(OperationRow::read)?;
    found.ok_or(Error::NotFound("operation").into())
}

/// What was asked for.
pub(crate) async fn operation_spec(reader: &impl SqlReader, id: i64) -> Result<NewOperation> {
    let sql = "SELECT spec FROM operations WHERE id = $1";
    let found = reader.row(sql, &[id.into()]).await?.read(|row| packed_json(row, 0, "operation"))?;
    found.ok_or(Error::NotFound("operation").into())
}

/// What a preview shows of it.
pub(crate) async fn operation_samples(reader: &impl SqlReader, id: i64) -> Result<Vec<OperationSample>> {
    let sql = "SELECT samples FROM operations WHERE id = $1";
    let found = reader.row(sql, &[id.into()]).await?.read(|row| packed_json_or_none(row, 0, "samples"))?;
    Ok(found.flatten().unwrap_or_default())
}

/// Operations that are not concluded.
pub(crate) async fn open_operations(reader: &impl SqlReader) -> Result<Vec<OperationRow>> {
    let sql = format!("SELECT {OPERATION_COLUMNS} FROM operations WHERE open = 1 ORDER BY id");
    reader.rows(&sql, &[]).await?.read(OperationRow::read)
}

pub(crate) async fn operation_view(reader: &impl SqlReader, id: i64) -> Result<OperationView> {
    let sql = format!("SELECT {OPERATION_COLUMNS}, spec, samples FROM operations WHERE id = $1");
    reader.row(&sql, &[id.into()]).await?.read(view)?.ok_or(Error::NotFound("operation").into())
}

/// Newest first.
pub(crate) async fn list_operations(
    reader: &impl SqlReader,
    limit: u32,
    cursor: Option<&str>,
) -> Result<OperationsPage> {
    let before = match cursor {
        Some(cursor) => unseal_numbers::<1>(OPERATIONS, cursor)?[0],
        None => i64::MAX,
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let sql =
        format!("SELECT {OPERATION_COLUMNS}, spec, samples FROM operations WHERE id < $1 ORDER BY id DESC LIMIT $2");
    let mut operations = reader.rows(&sql, &[before.into(), (limit + 1).into()]).await?.read(view)?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = operations.len() > shown;
    operations.truncate(shown);
    let last = operations.last().filter(|_| more).map(|last| number_of(&last.id)).transpose()?;
    Ok(OperationsPage { operations, next_cursor: last.map(|last| seal_numbers(OPERATIONS, &[last])) })
}

/// A page of an operation's items, by run.
pub(crate) async fn operation_items(
    reader: &impl SqlReader,
    operation: i64,
    call: &ItemsCall,
) -> Result<OperationItemsPage> {
    operation_row(reader, operation).await?;
    let question = format!("items {operation} {:?}", call.outcomes);
    let mut last = match &call.cursor {
        Some(cursor) => unseal_numbers::<1>(&question, cursor)?[0],
        None => 0,
    };
    let limit = usize::try_from(call.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    let chunk = limit + 1;
    let sql = format!(
        "SELECT item.run, item.outcome, item.why, runs.run_id, tenants.name
         FROM operation_items AS item LEFT JOIN runs ON runs.id = item.run
         LEFT JOIN tenants ON tenants.id = runs.tenant
         WHERE item.operation = $1 AND item.run > $2 ORDER BY item.run LIMIT {chunk}"
    );
    let (mut items, mut examined, mut more) = (Vec::new(), 0, true);
    'page: while examined < ITEMS_EXAMINED_MAX {
        let rows = reader.rows(&sql, &[operation.into(), last.into()]).await?.read(item)?;
        examined += rows.len();
        let is_last = rows.len() < chunk;
        for (run, item) in rows {
            if call.outcomes.is_empty() || call.outcomes.contains(&item.outcome) {
                if items.len() == limit {
                    break 'page;
                }
                items.push(item);
            }
            last = run;
        }
        if is_last {
            more = false;
            break;
        }
    }
    Ok(OperationItemsPage { items, next_cursor: more.then(|| seal_numbers(&question, &[last])) })
}

fn item(row: &impl Columns) -> Result<(i64, OperationItem)> {
    let item = OperationItem {
        run_id: parsed_or_none(row, 3, "run_id")?,
        tenant: parsed_or_none(row, 4, "tenant")?,
        outcome: word(ItemOutcome::ALL, number(row, 1)?, "outcome")?,
        why: owned_or_none(row, 2)?,
    };
    Ok((number(row, 0)?, item))
}

fn view(row: &impl Columns) -> Result<OperationView> {
    let spec = packed_json(row, OPERATION_COLUMN_COUNT, "operation")?;
    let samples: Option<Vec<OperationSample>> = packed_json_or_none(row, OPERATION_COLUMN_COUNT + 1, "samples")?;
    view_of(OperationRow::read(row)?, spec, samples.unwrap_or_default())
}

fn view_of(row: OperationRow, spec: NewOperation, samples: Vec<OperationSample>) -> Result<OperationView> {
    let canary = spec.canary.zip(row.canary).map(|(canary, state)| CanaryView {
        size: canary.size,
        max_failure_share: canary.max_failure_share,
        wait_ms: canary.wait_ms,
        state,
    });
    Ok(OperationView {
        id: public_id(row.id),
        action: row.action,
        state: row.state,
        preparing: row.preparing,
        reason: spec.reason,
        filter: spec.filter,
        rate_per_s: spec.rate_per_s,
        canary,
        matched: row.matched,
        eligible: row.eligible,
        ineligible: row.tallies.ineligible,
        reasons: row.tallies.reasons,
        moved: row.moved,
        succeeded: row.succeeded,
        failed: row.failed,
        skipped: row.skipped,
        skipped_because: row.tallies.skipped,
        stopped_because: row.stopped_because,
        joined: row.joined.map(|joined| json(&joined, "joined")).transpose()?,
        samples,
        actor: row.actor,
        created_at: row.created_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
    })
}
