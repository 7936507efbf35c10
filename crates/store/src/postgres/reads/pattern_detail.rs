//! A pattern with what lists leave out: its failures by the hour, its parts, what people did about it.

use std::collections::BTreeMap;

use redrive_core::time::Timestamp;
use redrive_core::wire::{MergedPattern, PatternBody, PatternDetail, PatternEntry, PatternHour};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{time, whole};
use crate::postgres::reads::patterns::shown;
use crate::shared::patterns::{EVENTS_MAX, PARTS_MAX, Shown, each_hour, event, hours_told, last_events, part};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;

pub(crate) async fn pattern_detail(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    id: &str,
    now: Timestamp,
) -> Result<PatternDetail> {
    let Shown { view, rows } = shown(snapshot, scope, id, now).await?;
    let parts = parts(snapshot, &rows).await?;
    let all: Vec<i64> = rows.iter().copied().chain(parts.iter().map(|(id, _)| *id)).collect();
    let body = PatternBody {
        hours: hours(snapshot, &all, now).await?,
        merged: parts.into_iter().map(|(_, part)| part).take(PARTS_MAX).collect(),
        events: events_of(snapshot, &rows).await?,
    };
    Ok(PatternDetail { pattern: view, body })
}

/// Head by head, the most frequent first.
async fn parts(snapshot: &Snapshot<'_>, heads: &[i64]) -> Result<Vec<(i64, MergedPattern)>> {
    let rows = snapshot
        .rows(
            "WITH new AS (
                 SELECT pattern, sum(count)::bigint AS count, sum(open)::bigint AS open FROM pattern_deltas GROUP BY pattern
             )
             SELECT p.id, public_id, fp_version, fp_hash, template, p.count + coalesce(new.count, 0),
                 p.open + coalesce(new.open, 0)
             FROM patterns p LEFT JOIN new ON new.pattern = p.id WHERE merged_into = ANY($1)
             ORDER BY array_position($1, merged_into), 6 DESC, p.id",
            &[&heads],
        )
        .await?;
    rows.iter().map(part).collect()
}

async fn hours(snapshot: &Snapshot<'_>, patterns: &[i64], now: Timestamp) -> Result<Vec<PatternHour>> {
    let (first, _) = hours_told(now);
    // The hour under way is still on the pattern itself, and what came since the last fold beside it.
    let sql = "SELECT hour, sum(n)::bigint FROM (
                   SELECT hour, n FROM pattern_hourly WHERE pattern = ANY($1) AND hour >= $2
                   UNION ALL SELECT hour, hour_count FROM patterns WHERE id = ANY($1) AND hour >= $2
                   UNION ALL SELECT hour, count FROM pattern_deltas WHERE pattern = ANY($1) AND hour >= $2
               ) counted GROUP BY hour";
    let mut failed: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for row in snapshot.rows(sql, &[&patterns, &first.as_millis()]).await? {
        failed.insert(time(&row, 0)?, whole(&row, 1, "failures")?);
    }
    Ok(each_hour(&failed, now))
}

/// Of all these patterns together, the oldest first.
async fn events_of(snapshot: &Snapshot<'_>, patterns: &[i64]) -> Result<Vec<PatternEntry>> {
    let sql = format!(
        "SELECT e.at, t.name, e.actor, e.event, e.about, e.note FROM unnest($1::bigint[]) WITH ORDINALITY
             AS asked (pattern, place)
         CROSS JOIN LATERAL (
             SELECT * FROM pattern_events WHERE pattern_events.pattern = asked.pattern ORDER BY id DESC LIMIT {EVENTS_MAX}
         ) e
         JOIN patterns p ON p.id = e.pattern JOIN tenants t ON t.id = p.tenant ORDER BY asked.place, e.id"
    );
    let rows = snapshot.rows(&sql, &[&patterns]).await?;
    Ok(last_events(rows.iter().map(event).collect::<Result<_>>()?))
}
