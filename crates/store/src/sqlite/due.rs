//! Who has work that is due, found by stepping over the index instead of through it.

use redrive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;

/// The tenants with a due time in a queue: one look each.
pub(super) fn tenants_due(conn: &Connection, queue: i64) -> Result<Vec<i64>> {
    let mut step = conn.prepare_cached(
        "SELECT tenant FROM runs INDEXED BY runs_due WHERE queue = ? AND tenant > ? AND due IS NOT NULL \
         ORDER BY tenant LIMIT 1",
    )?;
    let (mut tenants, mut last) = (Vec::new(), i64::MIN);
    while let Some(tenant) = step.query_row([queue, last], |row| row.get(0)).optional()? {
        tenants.push(tenant);
        last = tenant;
    }
    Ok(tenants)
}

/// When the longest waiting run of a tenant in a queue is or was due.
pub(super) fn oldest_due(conn: &Connection, queue: i64, tenant: i64) -> Result<Option<Timestamp>> {
    let mut look = conn.prepare_cached(
        "SELECT due FROM runs INDEXED BY runs_due WHERE queue = ? AND tenant = ? AND due IS NOT NULL \
         ORDER BY due LIMIT 1",
    )?;
    let due = look.query_row(params![queue, tenant], |row| row.get(0)).optional()?;
    Ok(due.map(Timestamp::from_millis))
}

pub(super) fn queue_numbers(conn: &Connection) -> Result<Vec<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM queues ORDER BY id")?;
    Ok(find.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}
