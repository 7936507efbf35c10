//! Queues as admins see them.

use redrive_core::ids::QueueName;
use redrive_core::wire::{QueueSettings, QueueView};

use super::by_state::by_queue;
use super::columns::{json, number, parsed, text};
use super::look::Look;
use crate::error::{Error, Result};
use crate::kept::queues::{QUEUES, view};
use crate::model::RunRef;

/// By name.
pub(super) async fn list_queues(look: &Look<'_>) -> Result<Vec<QueueView>> {
    let by_queue = by_queue(look).await?;
    let rows = look.rows(&format!("{QUEUES} ORDER BY name"), &[]).await?;
    rows.iter().map(|row| view(row, by_queue.get(&number(row, 0)?).copied().unwrap_or_default())).collect()
}

pub(super) async fn one_queue(look: &Look<'_>, name: &QueueName) -> Result<QueueView> {
    let by_queue = by_queue(look).await?;
    let found = look.row(&format!("{QUEUES} WHERE name = $1"), &[&name.as_str()]).await?;
    let row = found.ok_or(Error::NotFound("queue"))?;
    view(&row, by_queue.get(&number(&row, 0)?).copied().unwrap_or_default())
}

/// What was set on a queue; none when there is no such queue yet.
pub(super) async fn settings_of(look: &Look<'_>, name: &QueueName) -> Result<Option<QueueSettings>> {
    let found = look.row("SELECT settings FROM queues WHERE name = $1", &[&name.as_str()]).await?;
    found.map(|row| json(text(&row, 0)?, "queue settings")).transpose()
}

/// What was set on each queue.
pub(super) async fn all_settings(look: &Look<'_>) -> Result<Vec<QueueSettings>> {
    let rows = look.rows("SELECT settings FROM queues", &[]).await?;
    rows.iter().map(|row| json(text(row, 0)?, "settings")).collect()
}

/// The queue that a run is in; none where there is no such run.
pub(super) async fn queue_of(look: &Look<'_>, at: &RunRef) -> Result<Option<QueueName>> {
    let found = look
        .row(
            "SELECT queues.name FROM tenants CROSS JOIN LATERAL (
                 SELECT queue FROM runs WHERE tenant = tenants.id AND run_id >= $2 AND run_id <= $2
                 ORDER BY run_id LIMIT 1) AS run
             JOIN queues ON queues.id = run.queue WHERE tenants.name = $1",
            &[&at.tenant.as_str(), &at.run_id.as_str()],
        )
        .await?;
    found.map(|row| parsed(&row, 0, "queue")).transpose()
}
