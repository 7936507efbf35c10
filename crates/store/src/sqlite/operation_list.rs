//! Operations and their items, to be read.

use redrive_core::wire::{CanaryView, ItemOutcome, OperationItem, OperationItemsPage, OperationView, OperationsPage};
use rusqlite::{Connection, params};

use crate::commands::operation_row::{COLUMNS, OperationRow, number_of, public_id};
use crate::error::Result;
use crate::operation_model::ItemsCall;
use crate::sqlite::columns::{json, parsed_or_none};
use crate::sqlite::cursor::{seal_numbers, unseal_numbers};
use crate::sqlite::life::word;
use crate::sqlite::list::PAGE_MAX;
use crate::sqlite::operation_rows::{find, samples_of, spec};

const OPERATIONS: &str = "operations";
/// Items that one page may look at.
const LOOKS_MAX: usize = 20_000;

pub(super) fn one(conn: &Connection, id: i64) -> Result<OperationView> {
    view(conn, find(conn, id)?)
}

fn view(conn: &Connection, row: OperationRow) -> Result<OperationView> {
    let spec = spec(conn, row.id)?;
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
        samples: samples_of(conn, row.id)?,
        actor: row.actor,
        created_at: row.created_at,
        started_at: row.started_at,
        ended_at: row.ended_at,
    })
}

/// Newest first.
pub(super) fn list(conn: &Connection, limit: u32, cursor: Option<&str>) -> Result<OperationsPage> {
    let before = match cursor {
        Some(cursor) => unseal_numbers::<1>(OPERATIONS, cursor)?[0],
        None => i64::MAX,
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let mut read =
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM operations WHERE id < ?1 ORDER BY id DESC LIMIT ?2"))?;
    let rows =
        read.query_and_then(params![before, limit + 1], |row| OperationRow::read(row))?.collect::<Result<Vec<_>>>()?;
    let shown = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > shown;
    let operations = rows.into_iter().take(shown).map(|row| view(conn, row)).collect::<Result<Vec<_>>>()?;
    let last = operations.last().filter(|_| more).map(|last| number_of(&last.id)).transpose()?;
    Ok(OperationsPage { operations, next_cursor: last.map(|last| seal_numbers(OPERATIONS, &[last])) })
}

pub(super) fn items(conn: &Connection, id: i64, call: &ItemsCall) -> Result<OperationItemsPage> {
    find(conn, id)?;
    let question = format!("items {id} {:?}", call.outcomes);
    let after = match &call.cursor {
        Some(cursor) => unseal_numbers::<1>(&question, cursor)?[0],
        None => 0,
    };
    let limit = usize::try_from(call.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    let mut read = conn.prepare_cached(
        "SELECT item.run, item.outcome, item.why, runs.run_id, tenants.name FROM operation_items AS item
         LEFT JOIN runs ON runs.id = item.run LEFT JOIN tenants ON tenants.id = runs.tenant
         WHERE item.operation = ?1 AND item.run > ?2 ORDER BY item.run",
    )?;
    let mut rows = read.query([id, after])?;
    let (mut items, mut last) = (Vec::new(), after);
    for _ in 0..LOOKS_MAX {
        let Some(row) = rows.next()? else { return Ok(OperationItemsPage { items, next_cursor: None }) };
        let outcome = word(ItemOutcome::ALL, row.get(1)?, "outcome")?;
        if call.outcomes.is_empty() || call.outcomes.contains(&outcome) {
            if items.len() == limit {
                break;
            }
            let (run_id, tenant) = (parsed_or_none(row, 3, "run_id")?, parsed_or_none(row, 4, "tenant")?);
            items.push(OperationItem { run_id, tenant, outcome, why: row.get(2)? });
        }
        last = row.get(0)?;
    }
    Ok(OperationItemsPage { items, next_cursor: Some(seal_numbers(&question, &[last])) })
}
