//! What changed since the last look.

use std::collections::BTreeMap;

use redrive_core::run::StateName;
use redrive_core::wire::{ChangeEntry, ChangesAnswer};
use rusqlite::{Connection, OptionalExtension};

use super::columns::{parsed, parsed_or_empty, time, unexpected, whole};
use super::cursor::{seal_numbers, unseal_numbers};
use super::life::word;
use super::lookup::{Whose, whose};
use crate::error::Result;
use crate::model::TenantScope;

const CHANGES: &str = "changes";
/// An answer stops after the commit that reaches this many runs.
const RUNS_MAX: usize = 1_000;
/// Runs of others that a tenant's answer may step over.
const LOOKS_MAX: usize = 10_000;

pub(super) fn changes(conn: &Connection, scope: &TenantScope, since: Option<&str>) -> Result<ChangesAnswer> {
    let current = current(conn)?;
    let Some(cursor) = since else { return Ok(nothing(current, false)) };
    let [since] = unseal_numbers(CHANGES, cursor)?;
    if since > current || (since < current && oldest(conn)?.is_none_or(|oldest| since < oldest - 1)) {
        return Ok(nothing(current, true));
    }
    let (moved, next) = moved_since(conn, whose(conn, scope)?, since)?;
    Ok(ChangesAnswer { changes: moved, next: seal_numbers(CHANGES, &[next]), reset: false })
}

fn nothing(at: i64, reset: bool) -> ChangesAnswer {
    ChangesAnswer { changes: Vec::new(), next: seal_numbers(CHANGES, &[at]), reset }
}

/// The last commit's number, also after its row was trimmed.
pub(super) fn current(conn: &Connection) -> Result<i64> {
    let mut find = conn.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")?;
    Ok(find.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn oldest(conn: &Connection) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT min(seq) FROM changes")?;
    Ok(find.query_row([], |row| row.get(0))?)
}

/// Each run once, where it last moved, and the commit up to which that is all.
fn moved_since(conn: &Connection, whose: Whose, since: i64) -> Result<(Vec<ChangeEntry>, i64)> {
    let mut find = conn.prepare_cached("SELECT seq, runs FROM changes WHERE seq > ? ORDER BY seq")?;
    let mut rows = find.query([since])?;
    let mut entries: BTreeMap<i64, (i64, ChangeEntry)> = BTreeMap::new();
    let (mut next, mut looks) = (since, 0);
    while let Some(row) = rows.next()? {
        next = row.get(0)?;
        for run in run_numbers(row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)? {
            looks += 1;
            if let Some(known) = entries.get_mut(&run) {
                known.0 = next;
            } else if let Some(entry) = entry(conn, whose, run)? {
                entries.insert(run, (next, entry));
            }
        }
        if entries.len() >= RUNS_MAX || looks >= LOOKS_MAX {
            break;
        }
    }
    let mut entries: Vec<(i64, ChangeEntry)> = entries.into_values().collect();
    entries.sort_by_key(|(seq, _)| *seq);
    Ok((entries.into_iter().map(|(_, entry)| entry).collect(), next))
}

pub(super) fn run_numbers(bytes: &[u8]) -> Result<Vec<i64>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(unexpected("changes"));
    }
    Ok(numbers.iter().map(|n| i64::from_le_bytes(*n)).collect())
}

/// As it stands now; none of another tenant's.
fn entry(conn: &Connection, whose: Whose, run: i64) -> Result<Option<ChangeEntry>> {
    let mut find = conn.prepare_cached(
        "SELECT runs.tenant, runs.run_id, tenants.name, queues.name, runs.state, runs.attempt, runs.reason, \
         runs.updated_at FROM runs JOIN tenants ON tenants.id = runs.tenant JOIN queues ON queues.id = runs.queue \
         WHERE runs.id = ?",
    )?;
    let mut rows = find.query([run])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    if whose != Whose::All && whose != Whose::One(row.get(0)?) {
        return Ok(None);
    }
    Ok(Some(ChangeEntry {
        run_id: parsed(row, 1, "run_id")?,
        tenant: parsed(row, 2, "tenant")?,
        queue: parsed(row, 3, "queue")?,
        state: word(StateName::ALL, row.get(4)?, "state")?,
        attempt: whole(row, 5, "attempt")?,
        reason: parsed_or_empty(row, 6, "reason")?,
        at: time(row, 7)?,
    }))
}
