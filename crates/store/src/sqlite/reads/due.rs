//! Who has work that is due, found by stepping over the index instead of through it.

use redrive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use redrive_engine::error::PortResult as Result;

/// The tenants with a due time in a queue, each with its oldest: one look each, since the index has a tenant's
/// oldest first.
pub(crate) fn oldest_by_tenant(conn: &Connection, queue: i64) -> Result<Vec<(i64, Timestamp)>> {
    let mut step = conn.prepare_cached(
        "SELECT tenant, due FROM runs INDEXED BY runs_due WHERE queue = ? AND tenant > ? AND due IS NOT NULL \
         ORDER BY tenant, due LIMIT 1",
    )?;
    let (mut found, mut last) = (Vec::new(), i64::MIN);
    let read = |row: &Row<'_>| Ok((row.get(0)?, Timestamp::from_millis(row.get(1)?)));
    while let Some((tenant, due)) = step.query_row([queue, last], read).optional()? {
        found.push((tenant, due));
        last = tenant;
    }
    Ok(found)
}

/// When the longest waiting run of a tenant in a queue is or was due.
pub(crate) fn oldest_due(conn: &Connection, queue: i64, tenant: i64) -> Result<Option<Timestamp>> {
    let mut look = conn.prepare_cached(
        "SELECT due FROM runs INDEXED BY runs_due WHERE queue = ? AND tenant = ? AND due IS NOT NULL \
         ORDER BY due LIMIT 1",
    )?;
    let due = look.query_row(params![queue, tenant], |row| row.get(0)).optional()?;
    Ok(due.map(Timestamp::from_millis))
}

/// Those that are there for a tenant: its own, `default`, and what was declared.
pub(crate) fn queue_numbers_of(conn: &Connection, tenant: i64) -> Result<Vec<i64>> {
    let mut find = conn.prepare_cached(QUEUES_OF)?;
    Ok(find.query_map([tenant], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

/// By its tenant's names, so that others' cost nothing.
const QUEUES_OF: &str = "SELECT id FROM queues WHERE declared = 1
     UNION SELECT id FROM queues WHERE name = 'default'
     UNION SELECT queues.id FROM tenant_names CROSS JOIN queues ON queues.name = tenant_names.name
         WHERE tenant_names.tenant = ?1 AND tenant_names.kind = 0
     ORDER BY 1";

pub(crate) fn queue_numbers(conn: &Connection) -> Result<Vec<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM queues ORDER BY id")?;
    Ok(find.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}
