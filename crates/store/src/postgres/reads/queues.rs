//! Queues as admins see them.

use redrive_core::ids::QueueName;
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::by_state::by_queue;
use crate::postgres::reads::columns::{json, number, parsed, text};
use crate::shared::filter::PAGE_MAX;
use crate::shared::queues::{QUEUES, after, page, view};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunRef;

/// By name.
pub(crate) async fn list_queues(snapshot: &Snapshot<'_>, limit: u32, cursor: Option<&str>) -> Result<QueuesAnswer> {
    let limit = limit.clamp(1, PAGE_MAX);
    let by_queue = by_queue(snapshot).await?;
    let sql = format!("{QUEUES} WHERE name > $1 ORDER BY name LIMIT $2");
    let rows = snapshot.rows(&sql, &[&after(cursor)?, &i64::from(limit + 1)]).await?;
    let found = rows.iter().map(|row| view(row, by_queue.get(&number(row, 0)?).copied().unwrap_or_default()));
    Ok(page(found.collect::<Result<Vec<QueueView>>>()?, limit))
}

pub(crate) async fn count_queues(snapshot: &Snapshot<'_>) -> Result<u64> {
    let found = snapshot.row("SELECT count(*) FROM queues", &[]).await?;
    found.map_or(Ok(0), |row| number(&row, 0).map(i64::cast_unsigned))
}

pub(crate) async fn one_queue(snapshot: &Snapshot<'_>, name: &QueueName) -> Result<QueueView> {
    let by_queue = by_queue(snapshot).await?;
    let found = snapshot.row(&format!("{QUEUES} WHERE name = $1"), &[&name.as_str()]).await?;
    let row = found.ok_or(Error::NotFound("queue"))?;
    view(&row, by_queue.get(&number(&row, 0)?).copied().unwrap_or_default())
}

/// What was set on a queue; none when there is no such queue yet.
pub(crate) async fn settings_of(snapshot: &Snapshot<'_>, name: &QueueName) -> Result<Option<QueueSettings>> {
    let found = snapshot.row("SELECT settings FROM queues WHERE name = $1", &[&name.as_str()]).await?;
    found.map(|row| json(text(&row, 0)?, "queue settings")).transpose()
}

/// What an admin or the configuration has set.
pub(crate) async fn declared_settings(snapshot: &Snapshot<'_>) -> Result<Vec<QueueSettings>> {
    let rows = snapshot.rows("SELECT settings FROM queues WHERE declared = 1", &[]).await?;
    rows.iter().map(|row| json(text(row, 0)?, "settings")).collect()
}

/// The queue that a run is in; none where there is no such run.
pub(crate) async fn queue_of(snapshot: &Snapshot<'_>, at: &RunRef) -> Result<Option<QueueName>> {
    let found = snapshot
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
