//! Queues as admins see them.

use redrive_core::run::StateName;
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};

use super::by_state::ByState;
use super::cursor::{seal, unseal};
use crate::shared::columns::{Columns, json, parsed, text, time, time_or_none};
use redrive_engine::error::{Error, PortResult as Result};

/// What [`view`] reads.
pub(crate) const QUEUES: &str = "SELECT id, name, settings, created_at,
         (SELECT max(at) FROM lease_calls WHERE lease_calls.queue IN (0, queues.id)) FROM queues";

/// A page's end, for the next one to begin after.
const CURSOR: &str = "queues";

/// After which name a page begins.
pub(crate) fn after(cursor: Option<&str>) -> Result<String> {
    match cursor {
        Some(cursor) => Ok(String::from_utf8(unseal(CURSOR, cursor)?).map_err(|_| Error::BadCursor)?),
        None => Ok(String::new()),
    }
}

/// A page of `limit` out of one more than that, if there are so many.
pub(crate) fn page(mut queues: Vec<QueueView>, limit: u32) -> QueuesAnswer {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = queues.len() > limit;
    queues.truncate(limit);
    let next_cursor = queues.last().filter(|_| more).map(|last| seal(CURSOR, last.name.as_str().as_bytes()));
    QueuesAnswer { queues, next_cursor }
}

pub(crate) fn view(row: &impl Columns, standing: ByState) -> Result<QueueView> {
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
