//! Statements about patterns in SQLite's dialect. The figures of merged patterns are added by index seeks.

use redrive_core::time::Timestamp;
use redrive_core::wire::{MergedPattern, PatternEntry, PatternState, PatternView};
use rusqlite::Connection;

use crate::shared::columns::{number, time, whole};
use crate::shared::patterns::{EVENTS_MAX, event, merged, view};
use crate::shared::reader::{PatternQueries, PatternSql, SqlParam, SqlParams, SqlReader as _};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::runs::document::position;

const COUNT: &str = "(p.count + coalesce((SELECT sum(m.count) FROM patterns m WHERE m.merged_into = p.id), 0))";
const OPEN: &str = "(p.open + coalesce((SELECT sum(m.open) FROM patterns m WHERE m.merged_into = p.id), 0))";
const FIRST_SEEN: &str = "min(p.first_seen, coalesce((SELECT min(m.first_seen) FROM patterns m \
     WHERE m.merged_into = p.id), p.first_seen))";

fn state_sql(now: &str) -> String {
    let muted = position(PatternState::ALL, &PatternState::Muted);
    format!("(CASE WHEN p.state = {muted} AND p.muted_until <= {now} THEN coalesce(p.before_mute, 0) ELSE p.state END)")
}

/// The columns that [`view`] reads.
fn select_views(now: &str) -> String {
    format!(
        "SELECT p.public_id, p.fp_version, p.fp_hash, p.template, p.reason, p.category, {COUNT}, {OPEN}, {FIRST_SEEN}, \
         CASE WHEN p.merged_into IS NULL THEN p.group_seen ELSE p.last_seen END, {}, p.regression, p.owner, \
         tenants.name, p.id, p.muted_until, p.resolved_at, p.resolved_in, head.public_id \
         FROM patterns p JOIN tenants ON tenants.id = p.tenant LEFT JOIN patterns head ON head.id = p.merged_into",
        state_sql(now)
    )
}

impl PatternQueries for Connection {
    fn pattern_sql(_: Option<&str>, now: &str) -> PatternSql {
        PatternSql {
            with: String::new(),
            table: "patterns p",
            count: COUNT,
            open: OPEN,
            last_seen: "p.group_seen",
            state: state_sql(now),
        }
    }

    async fn template_contains(&self, text: &str, params: &mut SqlParams) -> Result<String> {
        Ok(format!("instr(lower(p.template), {}) > 0", params.add(text)))
    }

    async fn pattern_views(&self, patterns: &[i64], now: Timestamp) -> Result<Vec<(i64, PatternView)>> {
        let sql = format!("{} WHERE p.id = ANY($1)", select_views("$2"));
        self.rows_any(&sql, &[patterns.into(), now.into()]).await?.read(|row| Ok((number(row, 14)?, view(row)?)))
    }

    async fn patterns_by_fingerprint(
        &self,
        keys: &[FingerprintKey],
        now: Timestamp,
    ) -> Result<Vec<(FingerprintKey, i64, PatternView)>> {
        let sql = format!(
            "{} WHERE p.fp_hash = $2 AND p.fp_version = $3 ORDER BY p.group_seen DESC, p.id",
            select_views("$1")
        );
        let mut found = Vec::new();
        for key in keys {
            let values = [SqlParam::from(now), key.hash.into(), i64::from(key.version).into()];
            found.extend(self.rows(&sql, &values).await?.read(|row| Ok((*key, number(row, 14)?, view(row)?)))?);
        }
        Ok(found)
    }

    async fn merged_patterns(&self, heads: &[i64]) -> Result<Vec<(i64, MergedPattern)>> {
        let sql = "SELECT id, public_id, fp_version, fp_hash, template, count, open FROM patterns
             WHERE merged_into = ANY($1) ORDER BY count DESC, id";
        self.rows_any(sql, &[heads.into()]).await?.read(merged)
    }

    /// The pattern's row counts the current hour.
    async fn pattern_hours(&self, patterns: &[i64], since: Timestamp) -> Result<Vec<(Timestamp, u64)>> {
        let sql = "SELECT hour, n FROM pattern_hourly WHERE pattern = ANY($1) AND hour >= $2
             UNION ALL SELECT hour, hour_count FROM patterns WHERE id = ANY($1) AND hour >= $2";
        let values = [patterns.into(), since.into()];
        self.rows_any(sql, &values).await?.read(|row| Ok((time(row, 0)?, whole(row, 1, "failures")?)))
    }

    async fn pattern_events(&self, patterns: &[i64]) -> Result<Vec<PatternEntry>> {
        let sql = format!(
            "SELECT e.at, t.name, e.actor, e.event, e.about, e.note FROM pattern_events e
                 JOIN patterns p ON p.id = e.pattern JOIN tenants t ON t.id = p.tenant
             WHERE e.pattern = $1 ORDER BY e.id DESC LIMIT {EVENTS_MAX}"
        );
        let mut events = Vec::new();
        for pattern in patterns {
            let newest_first = self.rows(&sql, &[SqlParam::from(*pattern)]).await?.read(event)?;
            events.extend(newest_first.into_iter().rev());
        }
        Ok(events)
    }
}
