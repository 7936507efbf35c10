//! Queues as admins see them.

use redrive_core::ids::QueueName;
use redrive_core::run::StateName;
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};

use super::columns::{Columns, json, number, parsed, text, time, time_or_none, whole};
use super::counters::{CountsByState, counts_by_queue};
use super::cursor::{seal, unseal};
use super::reader::{SqlReader, StoreReader};
use super::runs::PAGE_MAX;
use redrive_engine::error::{Error, PortResult as Result};

/// The columns of [`view`].
const QUEUES: &str = "SELECT id, name, settings, created_at,
         (SELECT max(at) FROM lease_calls WHERE lease_calls.queue IN (0, queues.id)) FROM queues";
/// The question that cursors into the list of queues are sealed for.
const QUESTION: &str = "queues";

/// Sorted by name.
pub(crate) async fn list_queues(reader: &impl StoreReader, limit: u32, cursor: Option<&str>) -> Result<QueuesAnswer> {
    let after = match cursor {
        Some(cursor) => String::from_utf8(unseal(QUESTION, cursor)?).map_err(|_| Error::BadCursor)?,
        None => String::new(),
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let counts = counts_by_queue(reader).await?;
    let sql = format!("{QUEUES} WHERE name > $1 ORDER BY name LIMIT $2");
    let mut queues = reader
        .rows(&sql, &[after.as_str().into(), (limit + 1).into()])
        .await?
        .read(|row| view(row, counts.get(&number(row, 0)?).copied().unwrap_or_default()))?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = queues.len() > limit;
    queues.truncate(limit);
    let next_cursor = queues.last().filter(|_| more).map(|last| seal(QUESTION, last.name.as_str().as_bytes()));
    Ok(QueuesAnswer { queues, next_cursor })
}

pub(crate) async fn one_queue(reader: &impl StoreReader, name: &QueueName) -> Result<QueueView> {
    let counts = counts_by_queue(reader).await?;
    let found = reader
        .row(&format!("{QUEUES} WHERE name = $1"), &[name.as_str().into()])
        .await?
        .read(|row| view(row, counts.get(&number(row, 0)?).copied().unwrap_or_default()));
    found?.ok_or(Error::NotFound("queue").into())
}

pub(crate) async fn count_queues(reader: &impl SqlReader) -> Result<u64> {
    let found = reader.row("SELECT count(*) FROM queues", &[]).await?.read(|row| whole(row, 0, "count"))?;
    Ok(found.unwrap_or(0))
}

/// The settings of a queue, if it exists.
pub(crate) async fn settings_of(reader: &impl SqlReader, name: &QueueName) -> Result<Option<QueueSettings>> {
    let sql = "SELECT settings FROM queues WHERE name = $1";
    reader.row(sql, &[name.as_str().into()]).await?.read(|row| json(text(row, 0)?, "queue settings"))
}

/// The settings that an admin or the configuration declared.
pub(crate) async fn declared_settings(reader: &impl SqlReader) -> Result<Vec<QueueSettings>> {
    let sql = "SELECT settings FROM queues WHERE declared = 1";
    reader.rows(sql, &[]).await?.read(|row| json(text(row, 0)?, "queue settings"))
}

fn view(row: &impl Columns, counts: CountsByState) -> Result<QueueView> {
    let settings: QueueSettings = json(text(row, 2)?, "queue settings")?;
    Ok(QueueView {
        name: parsed(row, 1, "queue")?,
        ownerless: settings.owner.is_none(),
        settings,
        created_at: time(row, 3)?,
        last_lease_call_at: time_or_none(row, 4)?,
        dead: counts.of(StateName::Dead),
        scheduled: counts.of(StateName::Scheduled),
        running: counts.of(StateName::Running),
    })
}
