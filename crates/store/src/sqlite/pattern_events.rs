//! What is recorded of patterns: written with the act, in the same commit.

use redrive_core::text::Text;
use redrive_core::wire::{PatternEntry, PatternEvent};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

use super::columns::{packed_text, parsed, time, unexpected};
use super::life::{position, word};
use crate::codec::encode;
use crate::error::Result;
use crate::sqlite::batch::Batch;

/// Of one pattern; what is older is pushed out by what is newer.
const KEPT_MAX: usize = 1_000;
/// Of many, the last are shown.
const SHOWN_MAX: usize = 200;

impl Batch<'_> {
    pub(super) fn note_pattern(
        &mut self,
        pattern: i64,
        actor: &str,
        event: PatternEvent,
        about: Option<&str>,
        note: Option<&Text>,
    ) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO pattern_events (pattern, at, actor, event, about, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        insert.execute(params![
            pattern,
            self.now.as_millis(),
            actor,
            position(PatternEvent::ALL, &event),
            about,
            note.map(|note| encode(note.token().as_bytes())),
        ])?;
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM pattern_events WHERE pattern = ?1 AND id <= (
                 SELECT id FROM pattern_events WHERE pattern = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?;
        forget.execute(params![pattern, KEPT_MAX])?;
        Ok(())
    }
}

/// Of all these patterns together, the oldest first.
pub(super) fn events_of(conn: &Connection, patterns: &[i64]) -> Result<Vec<PatternEntry>> {
    let mut find = conn.prepare_cached(
        "SELECT e.at, t.name, e.actor, e.event, e.about, e.note FROM pattern_events e
             JOIN patterns p ON p.id = e.pattern JOIN tenants t ON t.id = p.tenant
         WHERE e.pattern = ?1 ORDER BY e.id DESC LIMIT ?2",
    )?;
    let mut entries = Vec::new();
    for pattern in patterns {
        let mut own = find.query_and_then(params![pattern, SHOWN_MAX], entry)?.collect::<Result<Vec<_>>>()?;
        own.reverse();
        entries.extend(own);
    }
    entries.sort_by_key(|entry| entry.at);
    Ok(entries.split_off(entries.len().saturating_sub(SHOWN_MAX)))
}

fn entry(row: &Row<'_>) -> Result<PatternEntry> {
    let note = match row.get_ref(5)? {
        ValueRef::Null => None,
        _ => Some(Text::from_token(packed_text(row, 5, "note")?).ok_or_else(|| unexpected("note"))?),
    };
    Ok(PatternEntry {
        at: time(row, 0)?,
        tenant: parsed(row, 1, "tenant")?,
        actor: row.get(2)?,
        event: word(PatternEvent::ALL, row.get(3)?, "pattern event")?,
        about: row.get(4)?,
        note,
    })
}
