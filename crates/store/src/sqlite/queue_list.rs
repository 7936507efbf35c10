//! Queues as admins see them.

use redrive_core::ids::QueueName;
use redrive_core::run::StateName;
use redrive_core::wire::{QueueSettings, QueueView};
use rusqlite::{Connection, OptionalExtension, Row};

use super::by_state::{ByState, by_queue};
use super::columns::{json, parsed, text, time, time_or_none};
use crate::error::{Error, Result};

const COLUMNS: &str = "id, name, settings, created_at, last_lease_call_at";

/// By name.
pub(super) fn list_queues(conn: &Connection) -> Result<Vec<QueueView>> {
    let by_queue = by_queue(conn)?;
    let mut find = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM queues ORDER BY name"))?;
    find.query_and_then([], |row| {
        let queue: i64 = row.get(0)?;
        view(row, by_queue.get(&queue).copied().unwrap_or_default())
    })?
    .collect()
}

pub(super) fn one_queue(conn: &Connection, name: &QueueName) -> Result<QueueView> {
    let by_queue = by_queue(conn)?;
    let mut find = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM queues WHERE name = ?"))?;
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

fn view(row: &Row<'_>, standing: ByState) -> Result<QueueView> {
    let settings: QueueSettings = json(text(row, 2)?, "queue settings")?;
    Ok(QueueView {
        name: parsed(row, 1, "queue")?,
        ownerless: settings.owner.is_none(),
        settings,
        created_at: time(row, 3)?,
        last_lease_call_at: time_or_none(row, 4)?,
        dead: standing.of(StateName::Dead),
        scheduled: standing.of(StateName::Scheduled),
        running: standing.of(StateName::Running),
    })
}
