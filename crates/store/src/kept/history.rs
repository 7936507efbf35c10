//! What happened to a run: moves that are not attempts, merged with the attempts.

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::HistoryEntry;

use super::attempts::EndedAttempt;
use super::columns::{Columns, number, owned, packed_note, time};
use crate::commands::life::word;
use crate::error::Result;

/// Who acted when nobody gave a name.
pub(crate) const REPORTER: &str = "reporter";

/// Of what [`entry`] reads; a condition follows.
pub(crate) const MOVES: &str = "SELECT at, actor, event, from_state, to_state, note FROM history";

/// In the order of time; at the same moment an attempt's end comes before the move that followed from it.
pub(crate) fn merged(
    received_at: Timestamp,
    attempts: &[EndedAttempt],
    moves: impl IntoIterator<Item = HistoryEntry>,
) -> Vec<HistoryEntry> {
    let mut entries = vec![received(received_at)];
    entries.extend(attempts.iter().map(EndedAttempt::to_entry));
    entries.extend(moves);
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn received(at: Timestamp) -> HistoryEntry {
    HistoryEntry { at, actor: REPORTER.to_owned(), event: "received".to_owned(), from: None, to: None, note: None }
}

pub(crate) fn entry(row: &impl Columns) -> Result<HistoryEntry> {
    Ok(HistoryEntry {
        at: time(row, 0)?,
        actor: owned(row, 1)?,
        event: owned(row, 2)?,
        from: Some(word(StateName::ALL, number(row, 3)?, "state")?),
        to: Some(word(StateName::ALL, number(row, 4)?, "state")?),
        note: packed_note(row, 5)?,
    })
}
