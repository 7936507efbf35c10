//! Operations and their items, to be read.

use crate::shared::records::{OPERATION_COLUMNS, Record as _};
use redrive_core::wire::{OperationItemsPage, OperationView, OperationsPage};
use rusqlite::{Connection, params};

use crate::shared::cursor::{seal_numbers, unseal_numbers};
use crate::shared::operations::{self, ITEM_LOOKS_MAX, ITEMS, Items, OPERATIONS};
use crate::sqlite::reads::list::PAGE_MAX;
use crate::sqlite::rows::operations::{find, samples_of, spec};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::operations::ItemsCall;
use redrive_engine::operations::row::{OperationRow, number_of};

pub(crate) fn one(conn: &Connection, id: i64) -> Result<OperationView> {
    view(conn, find(conn, id)?)
}

fn view(conn: &Connection, row: OperationRow) -> Result<OperationView> {
    let (spec, samples) = (spec(conn, row.id)?, samples_of(conn, row.id)?);
    operations::view(row, spec, samples)
}

/// Newest first.
pub(crate) fn list(conn: &Connection, limit: u32, cursor: Option<&str>) -> Result<OperationsPage> {
    let before = match cursor {
        Some(cursor) => unseal_numbers::<1>(OPERATIONS, cursor)?[0],
        None => i64::MAX,
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let mut read = conn.prepare_cached(&format!(
        "SELECT {OPERATION_COLUMNS} FROM operations WHERE id < ?1 ORDER BY id DESC LIMIT ?2"
    ))?;
    let rows =
        read.query_and_then(params![before, limit + 1], |row| OperationRow::read(row))?.collect::<Result<Vec<_>>>()?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > shown;
    let operations = rows.into_iter().take(shown).map(|row| view(conn, row)).collect::<Result<Vec<_>>>()?;
    let last = operations.last().filter(|_| more).map(|last| number_of(&last.id)).transpose()?;
    Ok(OperationsPage { operations, next_cursor: last.map(|last| seal_numbers(OPERATIONS, &[last])) })
}

pub(crate) fn items(conn: &Connection, id: i64, call: &ItemsCall) -> Result<OperationItemsPage> {
    find(conn, id)?;
    let mut items = Items::begin(id, call)?;
    let mut read =
        conn.prepare_cached(&format!("{ITEMS} WHERE item.operation = ?1 AND item.run > ?2 ORDER BY item.run"))?;
    let mut rows = read.query([id, items.last])?;
    for _ in 0..ITEM_LOOKS_MAX {
        let Some(row) = rows.next()? else { return Ok(items.page(false)) };
        if !items.take(row)? {
            break;
        }
    }
    Ok(items.page(true))
}
