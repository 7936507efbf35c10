//! Operations and their items, to be read.

use crate::shared::records::{OPERATION_COLUMN_COUNT, OPERATION_COLUMNS, Record as _};
use redrive_core::wire::{OperationItemsPage, OperationSample, OperationView, OperationsPage};
use tokio_postgres::Row;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{packed_json, packed_json_or_none};
use crate::shared::cursor::{seal_numbers, unseal_numbers};
use crate::shared::filter::PAGE_MAX;
use crate::shared::operations::{self, ITEM_LOOKS_MAX, ITEMS, Items, OPERATIONS};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::operations::{ItemsCall, NewOperation};
use redrive_engine::operations::row::{OperationRow, number_of};

/// The row, then what was asked for and what it would do.
const WHOLE: &str = "spec, samples FROM operations";

pub(crate) async fn one(snapshot: &Snapshot<'_>, id: i64) -> Result<OperationView> {
    let found = snapshot.row(&format!("SELECT {OPERATION_COLUMNS}, {WHOLE} WHERE id = $1"), &[&id]).await?;
    view(&found.ok_or(Error::NotFound("operation"))?)
}

pub(crate) async fn find(snapshot: &Snapshot<'_>, id: i64) -> Result<OperationRow> {
    let found = snapshot.row(&format!("SELECT {OPERATION_COLUMNS} FROM operations WHERE id = $1"), &[&id]).await?;
    OperationRow::read(&found.ok_or(Error::NotFound("operation"))?)
}

/// What was asked for.
pub(crate) async fn spec(snapshot: &Snapshot<'_>, id: i64) -> Result<NewOperation> {
    let found = snapshot.row("SELECT spec FROM operations WHERE id = $1", &[&id]).await?;
    packed_json(&found.ok_or(Error::NotFound("operation"))?, 0, "operation")
}

/// Operations that somebody has to look at.
pub(crate) async fn open(snapshot: &Snapshot<'_>) -> Result<Vec<OperationRow>> {
    let rows =
        snapshot.rows(&format!("SELECT {OPERATION_COLUMNS} FROM operations WHERE open = 1 ORDER BY id"), &[]).await?;
    rows.iter().map(OperationRow::read).collect()
}

fn view(row: &Row) -> Result<OperationView> {
    let spec = packed_json(row, OPERATION_COLUMN_COUNT, "operation")?;
    let samples: Option<Vec<OperationSample>> = packed_json_or_none(row, OPERATION_COLUMN_COUNT + 1, "samples")?;
    operations::view(OperationRow::read(row)?, spec, samples.unwrap_or_default())
}

/// Newest first.
pub(crate) async fn list(snapshot: &Snapshot<'_>, limit: u32, cursor: Option<&str>) -> Result<OperationsPage> {
    let before = match cursor {
        Some(cursor) => unseal_numbers::<1>(OPERATIONS, cursor)?[0],
        None => i64::MAX,
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let sql = format!("SELECT {OPERATION_COLUMNS}, {WHOLE} WHERE id < $1 ORDER BY id DESC LIMIT {}", limit + 1);
    let rows = snapshot.rows(&sql, &[&before]).await?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > shown;
    let operations = rows.iter().take(shown).map(view).collect::<Result<Vec<_>>>()?;
    let last = operations.last().filter(|_| more).map(|last| number_of(&last.id)).transpose()?;
    Ok(OperationsPage { operations, next_cursor: last.map(|last| seal_numbers(OPERATIONS, &[last])) })
}

pub(crate) async fn items(snapshot: &Snapshot<'_>, id: i64, call: &ItemsCall) -> Result<OperationItemsPage> {
    find(snapshot, id).await?;
    let mut items = Items::begin(id, call)?;
    // A page's worth at a time: what is looked for may be rare.
    let piece = usize::try_from(call.limit.clamp(1, PAGE_MAX)).unwrap_or(1) + 1;
    let sql = format!("{ITEMS} WHERE item.operation = $1 AND item.run > $2 ORDER BY item.run LIMIT {piece}");
    let mut looks = 0;
    while looks < ITEM_LOOKS_MAX {
        let rows = snapshot.rows(&sql, &[&id, &items.last]).await?;
        looks += rows.len();
        for row in &rows {
            if !items.take(row)? {
                return Ok(items.page(true));
            }
        }
        if rows.len() < piece {
            return Ok(items.page(false));
        }
    }
    Ok(items.page(true))
}
