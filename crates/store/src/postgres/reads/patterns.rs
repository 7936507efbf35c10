//! Statements about patterns in PostgreSQL's dialect. Every read adds the deltas that are not folded yet.

use std::collections::HashMap;

use redrive_core::time::Timestamp;
use redrive_core::wire::{MergedPattern, PatternEntry, PatternState, PatternView};

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::columns::{number, text, time, whole};
use crate::shared::patterns::{EVENTS_MAX, event, merged, view};
use crate::shared::reader::{PatternQueries, PatternSql, SqlParam, SqlParams, SqlReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::runs::document::position;

/// Common table expressions that end with `shown`: patterns with the figures of those merged into them. `narrow` is a
/// condition on `p`, a row of `patterns`.
fn shown_table(narrow: &str, now: &str) -> String {
    let muted = position(PatternState::ALL, &PatternState::Muted);
    format!(
        "WITH new AS (
             SELECT pattern, sum(count)::bigint AS count, sum(open)::bigint AS open, max(at) AS at,
                 max(group_seen) AS group_seen
             FROM pattern_deltas GROUP BY pattern
         ), seen AS (
             SELECT p.*, p.count + coalesce(new.count, 0) AS all_count, p.open + coalesce(new.open, 0) AS all_open,
                 greatest(p.last_seen, new.at) AS all_last, greatest(p.group_seen, new.group_seen) AS all_group
             FROM patterns p LEFT JOIN new ON new.pattern = p.id WHERE {narrow}
         ), parts AS (
             SELECT merged_into AS head, sum(all_count)::bigint AS count, sum(all_open)::bigint AS open,
                 min(first_seen) AS first_seen
             FROM seen WHERE merged_into IS NOT NULL GROUP BY merged_into
         ), shown AS (
             SELECT seen.*, all_count + coalesce(parts.count, 0) AS shown_count,
                 all_open + coalesce(parts.open, 0) AS shown_open,
                 least(seen.first_seen, parts.first_seen) AS shown_first,
                 CASE WHEN merged_into IS NULL THEN all_group ELSE all_last END AS shown_last,
                 CASE WHEN state = {muted} AND muted_until <= {now} THEN coalesce(before_mute, 0) ELSE state END
                     AS shown_state
             FROM seen LEFT JOIN parts ON parts.head = seen.id
         )"
    )
}

impl PatternQueries for Snapshot<'_> {
    fn pattern_sql(tenant: Option<&str>, now: &str) -> PatternSql {
        let narrow = tenant.map_or("true".to_owned(), |tenant| format!("p.tenant = {tenant}"));
        PatternSql {
            with: shown_table(&narrow, now),
            table: "shown p",
            count: "p.shown_count",
            open: "p.shown_open",
            last_seen: "p.shown_last",
            state: "p.shown_state".to_owned(),
        }
    }

    /// Searched here and not in SQL, where a template is bytes.
    async fn template_contains(&self, searched: &str, params: &mut SqlParams) -> Result<String> {
        let sql = "SELECT id, template FROM patterns WHERE merged_into IS NULL";
        let read = SqlReader::rows(self, sql, &[])
            .await?
            .read(|row| Ok(text(row, 1)?.to_lowercase().contains(searched).then_some(number(row, 0)?)));
        let ids = read?.into_iter().flatten().collect();
        Ok(format!("p.id = ANY({})", params.add(SqlParam::Numbers(ids))))
    }

    /// The last seen first.
    async fn pattern_views(&self, patterns: &[i64], now: Timestamp) -> Result<Vec<(i64, PatternView)>> {
        let table = shown_table("p.id = ANY($1) OR p.merged_into = ANY($1)", "$2");
        let sql = format!(
            "{table} SELECT shown.public_id, shown.fp_version, shown.fp_hash, shown.template, shown.reason, shown.category,
                 shown_count, shown_open, shown_first, shown_last, shown_state, shown.regression, shown.owner, tenants.name,
                 shown.id, shown.muted_until, shown.resolved_at, shown.resolved_in, head.public_id
             FROM shown JOIN tenants ON tenants.id = shown.tenant LEFT JOIN patterns head ON head.id = shown.merged_into
             WHERE shown.id = ANY($1) ORDER BY shown.all_group DESC, shown.id"
        );
        self.rows_any(&sql, &[patterns.into(), now.into()]).await?.read(|row| Ok((number(row, 14)?, view(row)?)))
    }

    async fn patterns_by_fingerprint(
        &self,
        keys: &[FingerprintKey],
        now: Timestamp,
    ) -> Result<Vec<(FingerprintKey, i64, PatternView)>> {
        let (hashes, versions): (Vec<i64>, Vec<i64>) =
            keys.iter().map(|key| (key.hash, i64::from(key.version))).unzip();
        let sql = "SELECT patterns.id, patterns.fp_hash, patterns.fp_version FROM unnest($1::bigint[], $2::bigint[])
                 AS asked (hash, version)
             JOIN patterns ON patterns.fp_hash = asked.hash AND patterns.fp_version = asked.version";
        let values = [SqlParam::Numbers(hashes), SqlParam::Numbers(versions)];
        let read = SqlReader::rows(self, sql, &values).await?.read(|row| {
            let key = FingerprintKey { hash: number(row, 1)?, version: whole(row, 2, "fingerprint version")? };
            Ok((number(row, 0)?, key))
        });
        let keys: HashMap<i64, FingerprintKey> = read?.into_iter().collect();
        let ids: Vec<i64> = keys.keys().copied().collect();
        let views = self.pattern_views(&ids, now).await?;
        Ok(views.into_iter().filter_map(|(id, view)| Some((*keys.get(&id)?, id, view))).collect())
    }

    async fn merged_patterns(&self, heads: &[i64]) -> Result<Vec<(i64, MergedPattern)>> {
        let sql = "WITH new AS (
                 SELECT pattern, sum(count)::bigint AS count, sum(open)::bigint AS open FROM pattern_deltas GROUP BY pattern
             )
             SELECT p.id, public_id, fp_version, fp_hash, template, p.count + coalesce(new.count, 0),
                 p.open + coalesce(new.open, 0)
             FROM patterns p LEFT JOIN new ON new.pattern = p.id WHERE merged_into = ANY($1)
             ORDER BY array_position($1, merged_into), 6 DESC, p.id";
        self.rows_any(sql, &[heads.into()]).await?.read(merged)
    }

    /// The pattern's row counts the current hour.
    async fn pattern_hours(&self, patterns: &[i64], since: Timestamp) -> Result<Vec<(Timestamp, u64)>> {
        let sql = "SELECT hour, sum(n)::bigint FROM (
                   SELECT hour, n FROM pattern_hourly WHERE pattern = ANY($1) AND hour >= $2
                   UNION ALL SELECT hour, hour_count FROM patterns WHERE id = ANY($1) AND hour >= $2
                   UNION ALL SELECT hour, count FROM pattern_deltas WHERE pattern = ANY($1) AND hour >= $2
               ) counted GROUP BY hour";
        let values = [patterns.into(), since.into()];
        self.rows_any(sql, &values).await?.read(|row| Ok((time(row, 0)?, whole(row, 1, "failures")?)))
    }

    async fn pattern_events(&self, patterns: &[i64]) -> Result<Vec<PatternEntry>> {
        let sql = format!(
            "SELECT e.at, t.name, e.actor, e.event, e.about, e.note FROM unnest($1::bigint[]) WITH ORDINALITY
                 AS asked (pattern, place)
             CROSS JOIN LATERAL (
                 SELECT * FROM pattern_events WHERE pattern_events.pattern = asked.pattern
                 ORDER BY id DESC LIMIT {EVENTS_MAX}
             ) e
             JOIN patterns p ON p.id = e.pattern JOIN tenants t ON t.id = p.tenant ORDER BY asked.place, e.id"
        );
        SqlReader::rows(self, &sql, &[patterns.into()]).await?.read(event)
    }
}
