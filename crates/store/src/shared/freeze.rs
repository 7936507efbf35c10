//! The freeze of a restored store.

use redrive_core::wire::StoreFreeze;

use super::columns::{time, time_or_none};
use super::reader::SqlReader;
use redrive_engine::error::PortResult as Result;

pub(crate) const LIFT: &str = "DELETE FROM store_freeze";

pub(crate) async fn read_freeze(reader: &impl SqlReader) -> Result<Option<StoreFreeze>> {
    let found = reader.row("SELECT restored_at, backup_at FROM store_freeze", &[]).await?;
    found.read(|row| Ok(StoreFreeze { restored_at: time(row, 0)?, backup_at: time_or_none(row, 1)? }))
}
