//! What is recorded of patterns: written with the act, in the same commit.

use redrive_core::wire::PatternEntry;
use rusqlite::{Connection, params};

use crate::shared::patterns::{EVENTS_MAX, event, last_events};
use redrive_engine::error::PortResult as Result;

/// Of all these patterns together, the oldest first.
pub(crate) fn events_of(conn: &Connection, patterns: &[i64]) -> Result<Vec<PatternEntry>> {
    let mut find = conn.prepare_cached(
        "SELECT e.at, t.name, e.actor, e.event, e.about, e.note FROM pattern_events e
             JOIN patterns p ON p.id = e.pattern JOIN tenants t ON t.id = p.tenant
         WHERE e.pattern = ?1 ORDER BY e.id DESC LIMIT ?2",
    )?;
    let mut entries = Vec::new();
    for pattern in patterns {
        let mut own =
            find.query_and_then(params![pattern, EVENTS_MAX], |row| event(row))?.collect::<Result<Vec<_>>>()?;
        own.reverse();
        entries.extend(own);
    }
    Ok(last_events(entries))
}
