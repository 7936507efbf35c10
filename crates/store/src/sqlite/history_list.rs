//! What happened to a run: moves that are not attempts, merged with the attempts.

use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::HistoryEntry;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::attempt_list::EndedAttempt;
use super::columns::{packed_text, time, unexpected};
use super::life::word;
use crate::error::Result;

/// Who acted when nobody gave a name.
pub(super) const REPORTER: &str = "reporter";

/// In the order of time; at the same moment an attempt's end comes before the move that followed from it.
pub(super) fn history_of(
    conn: &Connection,
    run: i64,
    received_at: Timestamp,
    attempts: &[EndedAttempt],
) -> Result<Vec<HistoryEntry>> {
    let mut entries = vec![received(received_at)];
    entries.extend(attempts.iter().map(EndedAttempt::to_entry));
    entries.extend(moves(conn, run)?);
    entries.sort_by_key(|entry| entry.at);
    Ok(entries)
}

fn received(at: Timestamp) -> HistoryEntry {
    HistoryEntry { at, actor: REPORTER.to_owned(), event: "received".to_owned(), from: None, to: None, note: None }
}

fn moves(conn: &Connection, run: i64) -> Result<Vec<HistoryEntry>> {
    let mut find = conn
        .prepare_cached("SELECT at, actor, event, from_state, to_state, note FROM history WHERE run = ? ORDER BY id")?;
    find.query_and_then([run], entry)?.collect()
}

fn entry(row: &Row<'_>) -> Result<HistoryEntry> {
    let note = match row.get_ref(5)? {
        ValueRef::Null => None,
        _ => Some(Text::from_token(packed_text(row, 5, "note")?).ok_or_else(|| unexpected("note"))?),
    };
    Ok(HistoryEntry {
        at: time(row, 0)?,
        actor: row.get(1)?,
        event: row.get(2)?,
        from: Some(word(StateName::ALL, row.get(3)?, "state")?),
        to: Some(word(StateName::ALL, row.get(4)?, "state")?),
        note,
    })
}
