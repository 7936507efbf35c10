//! What happened to a run: moves that are not attempts, merged with the attempts.

use std::sync::LazyLock;

use redrive_core::time::Timestamp;
use redrive_core::wire::HistoryEntry;
use rusqlite::Connection;

pub(super) use crate::kept::history::REPORTER;

use super::attempt_list::EndedAttempt;
use crate::error::Result;
use crate::kept::history::{MOVES, entry, merged};

static OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{MOVES} WHERE run = ? ORDER BY id"));

pub(super) fn history_of(
    conn: &Connection,
    run: i64,
    received_at: Timestamp,
    attempts: &[EndedAttempt],
) -> Result<Vec<HistoryEntry>> {
    let mut find = conn.prepare_cached(&OF_RUN)?;
    let moves = find.query_and_then([run], |row| entry(row))?.collect::<Result<Vec<_>>>()?;
    Ok(merged(received_at, attempts, moves))
}
