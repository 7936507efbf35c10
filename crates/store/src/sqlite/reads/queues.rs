//! Queues as admins see them.

use std::sync::LazyLock;

use redrive_core::ids::QueueName;
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};
use rusqlite::{Connection, OptionalExtension, params};

use crate::shared::filter::PAGE_MAX;
use crate::shared::queues::{QUEUES, after, page, view};
use crate::sqlite::reads::by_state::by_queue;
use crate::sqlite::reads::columns::{json, parsed, text};
use crate::sqlite::reads::lookup::{key_hash, tenant_number};
use crate::sqlite::rows::run_names::NAMED;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunRef;

pub(crate) static QUEUE_OF: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT queues.name FROM runs NOT INDEXED JOIN queues ON queues.id = runs.queue
         WHERE runs.id IN ({NAMED}) AND tenant = ?2 AND run_id = ?3"
    )
});

/// By name.
pub(crate) fn list_queues(conn: &Connection, limit: u32, cursor: Option<&str>) -> Result<QueuesAnswer> {
    let limit = limit.clamp(1, PAGE_MAX);
    let by_queue = by_queue(conn)?;
    let mut find = conn.prepare_cached(&format!("{QUEUES} WHERE name > ?1 ORDER BY name LIMIT ?2"))?;
    let found = find.query_and_then(params![after(cursor)?, limit + 1], |row| {
        let queue: i64 = row.get(0)?;
        view(row, by_queue.get(&queue).copied().unwrap_or_default())
    })?;
    Ok(page(found.collect::<Result<Vec<QueueView>>>()?, limit))
}

pub(crate) fn count_queues(conn: &Connection) -> Result<u64> {
    let n: i64 = conn.query_row("SELECT count(*) FROM queues", [], |row| row.get(0))?;
    Ok(n.cast_unsigned())
}

/// What an admin or the configuration has set.
pub(crate) fn declared_settings(conn: &Connection) -> Result<Vec<QueueSettings>> {
    let mut find = conn.prepare_cached("SELECT settings FROM queues WHERE declared = 1")?;
    find.query_and_then([], |row| json(text(row, 0)?, "queue settings"))?.collect()
}

pub(crate) fn one_queue(conn: &Connection, name: &QueueName) -> Result<QueueView> {
    let by_queue = by_queue(conn)?;
    let mut find = conn.prepare_cached(&format!("{QUEUES} WHERE name = ?"))?;
    let found = find.query_row([name.as_str()], |row| {
        let queue: i64 = row.get(0)?;
        Ok(view(row, by_queue.get(&queue).copied().unwrap_or_default()))
    });
    found.optional()?.ok_or(Error::NotFound("queue"))?
}

/// What was set on a queue; none when there is no such queue yet.
pub(crate) fn settings_of(conn: &Connection, name: &QueueName) -> Result<Option<QueueSettings>> {
    let mut find = conn.prepare_cached("SELECT settings FROM queues WHERE name = ?")?;
    let mut rows = find.query([name.as_str()])?;
    rows.next()?.map(|row| json(text(row, 0)?, "queue settings")).transpose()
}

/// The queue that a run is in; none where there is no such run.
pub(crate) fn queue_of(conn: &Connection, at: &RunRef) -> Result<Option<QueueName>> {
    let Some(tenant) = tenant_number(conn, &at.tenant)? else { return Ok(None) };
    let run_id = at.run_id.as_str();
    let mut find = conn.prepare_cached(&QUEUE_OF)?;
    let found = find.query_row(params![key_hash(tenant, run_id), tenant, run_id], |row| Ok(parsed(row, 0, "queue")));
    found.optional()?.transpose()
}
