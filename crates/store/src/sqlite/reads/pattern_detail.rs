//! A pattern with what lists leave out: its failures by the hour, its parts, what people did about it.

use std::collections::BTreeMap;

use redrive_core::time::Timestamp;
use redrive_core::wire::{MergedPattern, PatternBody, PatternDetail, PatternHour};
use rusqlite::{Connection, params};

use crate::shared::patterns::{PARTS_MAX, each_hour, hours_told, part};
use crate::sqlite::reads::columns::whole;
use crate::sqlite::reads::patterns::{Shown, shown};
use crate::sqlite::rows::patterns::events_of;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;

pub(crate) fn pattern_detail(
    conn: &Connection,
    scope: &TenantScope,
    id: &str,
    now: Timestamp,
) -> Result<PatternDetail> {
    let Shown { view, rows } = shown(conn, scope, id, now)?;
    let parts = parts(conn, &rows)?;
    let all: Vec<i64> = rows.iter().copied().chain(parts.iter().map(|(id, _)| *id)).collect();
    let body = PatternBody {
        hours: hours(conn, &all, now)?,
        merged: parts.into_iter().map(|(_, part)| part).take(PARTS_MAX).collect(),
        events: events_of(conn, &rows)?,
    };
    Ok(PatternDetail { pattern: view, body })
}

fn parts(conn: &Connection, heads: &[i64]) -> Result<Vec<(i64, MergedPattern)>> {
    let mut find = conn.prepare_cached(
        "SELECT id, public_id, fp_version, fp_hash, template, count, open FROM patterns WHERE merged_into = ? \
         ORDER BY count DESC, id",
    )?;
    let mut parts = Vec::new();
    for head in heads {
        let found = find.query_and_then([head], |row| part(row))?;
        parts.extend(found.collect::<Result<Vec<_>>>()?);
    }
    Ok(parts)
}

fn hours(conn: &Connection, patterns: &[i64], now: Timestamp) -> Result<Vec<PatternHour>> {
    let (first, _) = hours_told(now);
    let mut failed: BTreeMap<Timestamp, u64> = BTreeMap::new();
    // The hour under way is still on the pattern itself.
    let mut find = conn.prepare_cached(
        "SELECT hour, n FROM pattern_hourly WHERE pattern = ?1 AND hour >= ?2
         UNION ALL SELECT hour, hour_count FROM patterns WHERE id = ?1 AND hour >= ?2",
    )?;
    for pattern in patterns {
        let mut rows = find.query(params![pattern, first.as_millis()])?;
        while let Some(row) = rows.next()? {
            *failed.entry(Timestamp::from_millis(row.get(0)?)).or_default() += whole::<u64>(row, 1, "failures")?;
        }
    }
    Ok(each_hour(&failed, now))
}
