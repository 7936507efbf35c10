//! What changed since the last look, in the order in which it became seen.

use std::collections::HashMap;

use redrive_core::wire::{ChangeEntry, ChangesAnswer};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{Columns as _, bytes, number};
use crate::postgres::reads::lookup::whose;
use crate::shared::changes::{CHANGE, Log, Moved, change_of, run_numbers};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;

/// Commits that one look reads.
const PIECE_ROWS: u32 = 500;

pub(crate) async fn changes(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    since: Option<&str>,
) -> Result<ChangesAnswer> {
    let current = current(snapshot).await?;
    let log = Log::of(scope);
    let Some(cursor) = since else { return Ok(log.nothing(current, false)) };
    let since = log.place(cursor)?;
    if since > current || (since < current && oldest(snapshot).await?.is_none_or(|oldest| since < oldest - 1)) {
        return Ok(log.nothing(current, true));
    }
    let whose = whose(snapshot, scope).await?;
    let mut moved = Moved::after(since);
    loop {
        let sql = format!("SELECT seq, runs FROM changes WHERE seq > $1 ORDER BY seq LIMIT {PIECE_ROWS}");
        let commits = snapshot.rows(&sql, &[&moved.next]).await?;
        if commits.is_empty() {
            break;
        }
        let mut runs = Vec::new();
        for commit in &commits {
            runs.extend(run_numbers(bytes(commit, 1)?)?);
        }
        let entries = entries(snapshot, &runs).await?;
        for commit in &commits {
            for run in run_numbers(bytes(commit, 1)?)? {
                let seen = entries.get(&run).filter(|(tenant, _)| whose.sees(*tenant));
                moved.take(number(commit, 0)?, run, seen.map(|(_, entry)| entry.clone()));
            }
            if moved.is_enough() {
                break;
            }
        }
        if moved.is_enough() {
            break;
        }
    }
    Ok(log.answer(moved))
}

/// The last commit's number, also after its row was trimmed.
pub(crate) async fn current(snapshot: &Snapshot<'_>) -> Result<i64> {
    snapshot.row("SELECT seq FROM change_head", &[]).await?.map_or(Ok(0), |row| number(&row, 0))
}

async fn oldest(snapshot: &Snapshot<'_>) -> Result<Option<i64>> {
    snapshot.row("SELECT min(seq) FROM changes", &[]).await?.map_or(Ok(None), |row| row.number_or_none(0))
}

/// As the runs stand now, with their tenants.
async fn entries(snapshot: &Snapshot<'_>, runs: &[i64]) -> Result<HashMap<i64, (i64, ChangeEntry)>> {
    let rows = snapshot.rows(&format!("{CHANGE} WHERE runs.id = ANY($1)"), &[&runs]).await?;
    rows.iter().map(|row| Ok((number(row, 8)?, (number(row, 0)?, change_of(row)?)))).collect()
}
