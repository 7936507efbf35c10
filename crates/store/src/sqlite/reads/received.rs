//! What the order of the rows tells without a scan.

use redrive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use redrive_engine::error::PortResult as Result;

/// The newest run's number; 0 when there is none.
pub(crate) fn last_id(conn: &Connection) -> Result<i64> {
    let mut find = conn.prepare_cached("SELECT coalesce(max(id), 0) FROM runs")?;
    Ok(find.query_row([], |row| row.get(0))?)
}

/// The first number whose run was received at `at` or later; one past `last` when there is none. Numbers rise with
/// the time of receipt, so halving finds it: some twenty looks at a million runs.
pub(crate) fn first_received_from(conn: &Connection, at: Timestamp, last: i64) -> Result<i64> {
    let mut look =
        conn.prepare_cached("SELECT id, received_at FROM runs WHERE id >= ? AND id <= ? ORDER BY id LIMIT 1")?;
    let (mut low, mut high) = (1, last.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> =
            look.query_row([middle, high - 1], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some((id, received_at)) if received_at < at.as_millis() => low = id + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

pub(crate) fn any_deferred(conn: &Connection, now: Timestamp) -> Result<bool> {
    let mut look =
        conn.prepare_cached("SELECT 1 FROM runs INDEXED BY runs_deferred WHERE deferred_until > ? LIMIT 1")?;
    Ok(look.exists([now.as_millis()])?)
}
