//! Queues as admins see them.

use redrive_core::ids::QueueName;
use redrive_core::wire::{QueueSettings, QueueView};
use rusqlite::{Connection, OptionalExtension};

use super::by_state::by_queue;
use super::columns::{json, text};
use crate::error::{Error, Result};
use crate::kept::queues::{QUEUES, view};

/// By name.
pub(super) fn list_queues(conn: &Connection) -> Result<Vec<QueueView>> {
    let by_queue = by_queue(conn)?;
    let mut find = conn.prepare_cached(&format!("{QUEUES} ORDER BY name"))?;
    find.query_and_then([], |row| {
        let queue: i64 = row.get(0)?;
        view(row, by_queue.get(&queue).copied().unwrap_or_default())
    })?
    .collect()
}

pub(super) fn one_queue(conn: &Connection, name: &QueueName) -> Result<QueueView> {
    let by_queue = by_queue(conn)?;
    let mut find = conn.prepare_cached(&format!("{QUEUES} WHERE name = ?"))?;
    let found = find.query_row([name.as_str()], |row| {
        let queue: i64 = row.get(0)?;
        Ok(view(row, by_queue.get(&queue).copied().unwrap_or_default()))
    });
    found.optional()?.ok_or(Error::NotFound("queue"))?
}

/// What was set on a queue; none when there is no such queue yet.
pub(super) fn settings_of(conn: &Connection, name: &QueueName) -> Result<Option<QueueSettings>> {
    let mut find = conn.prepare_cached("SELECT settings FROM queues WHERE name = ?")?;
    let mut rows = find.query([name.as_str()])?;
    rows.next()?.map(|row| json(text(row, 0)?, "queue settings")).transpose()
}
