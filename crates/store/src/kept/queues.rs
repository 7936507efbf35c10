//! Queues as admins see them.

use redrive_core::run::StateName;
use redrive_core::wire::{QueueSettings, QueueView};

use super::by_state::ByState;
use super::columns::{Columns, json, parsed, text, time, time_or_none};
use crate::error::Result;

/// What [`view`] reads.
pub(crate) const QUEUES: &str = "SELECT id, name, settings, created_at,
         (SELECT max(at) FROM lease_calls WHERE lease_calls.queue IN (0, queues.id)) FROM queues";

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
