use crate::error::*;
use redrive_core::{ids::*, time::*, wire::*};
use rusqlite::Connection;
pub(super) fn list_queues(_c: &Connection) -> Result<Vec<QueueView>> {
    Err(Error::Closing)
}
pub(super) fn queue(_c: &Connection, n: &QueueName) -> Result<QueueView> {
    Ok(QueueView {
        name: n.clone(),
        settings: QueueSettings::default(),
        ownerless: true,
        created_at: Timestamp::default(),
        last_lease_call_at: None,
        dead: 0,
        scheduled: 0,
        running: 0,
    })
}
