//! What changed since the last look.

use std::sync::LazyLock;

use redrive_core::wire::{ChangeEntry, ChangesAnswer};
use rusqlite::{Connection, OptionalExtension};

pub(crate) use crate::shared::changes::run_numbers;

use crate::shared::changes::{CHANGE, Log, Moved, change_of};
use crate::sqlite::reads::columns::{bytes, number};
use crate::sqlite::reads::lookup::{Whose, whose};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;

static OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{CHANGE} WHERE runs.id = ?"));

pub(crate) fn changes(conn: &Connection, scope: &TenantScope, since: Option<&str>) -> Result<ChangesAnswer> {
    let current = current(conn)?;
    let log = Log::of(scope);
    let Some(cursor) = since else { return Ok(log.nothing(current, false)) };
    let since = log.place(cursor)?;
    if since > current || (since < current && oldest(conn)?.is_none_or(|oldest| since < oldest - 1)) {
        return Ok(log.nothing(current, true));
    }
    Ok(log.answer(moved_since(conn, whose(conn, scope)?, since)?))
}

/// The last commit's number, also after its row was trimmed.
pub(crate) fn current(conn: &Connection) -> Result<i64> {
    let mut find = conn.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")?;
    Ok(find.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn oldest(conn: &Connection) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT min(seq) FROM changes")?;
    Ok(find.query_row([], |row| row.get(0))?)
}

fn moved_since(conn: &Connection, whose: Whose, since: i64) -> Result<Moved> {
    let mut find = conn.prepare_cached("SELECT seq, runs FROM changes WHERE seq > ? ORDER BY seq")?;
    let mut rows = find.query([since])?;
    let mut moved = Moved::after(since);
    while let Some(row) = rows.next()? {
        for run in run_numbers(bytes(row, 1)?)? {
            let entry = if moved.knows(run) { None } else { entry(conn, whose, run)? };
            moved.take(number(row, 0)?, run, entry);
        }
        if moved.is_enough() {
            break;
        }
    }
    Ok(moved)
}

/// As it stands now; none of another tenant's.
fn entry(conn: &Connection, whose: Whose, run: i64) -> Result<Option<ChangeEntry>> {
    let mut find = conn.prepare_cached(&OF_RUN)?;
    let mut rows = find.query([run])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    if whose.sees(number(row, 0)?) { change_of(row).map(Some) } else { Ok(None) }
}
