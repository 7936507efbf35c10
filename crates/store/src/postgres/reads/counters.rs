//! Statements about counters in PostgreSQL's dialect. Every read adds the deltas that are not folded yet.

use std::collections::HashMap;

use redrive_core::time::Timestamp;

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::columns::{number, time, time_or_none};
use crate::shared::hours::HourSums;
use crate::shared::patterns::GROUP_SEEN_LAG_MS;
use crate::shared::reader::{CounterQueries, SqlParam, SqlReader};
use redrive_engine::error::PortResult as Result;

impl CounterQueries for Snapshot<'_> {
    fn counters(table: &str, columns: &str, condition: &str) -> String {
        format!(
            "SELECT {columns}, sum(n)::bigint FROM (
                 SELECT {columns}, n FROM {table} WHERE {condition}
                 UNION ALL SELECT {columns}, n FROM counter_deltas WHERE {condition}
             ) counted GROUP BY {columns}"
        )
    }

    async fn hour_events(
        &self,
        hours: &[Timestamp],
        tenant: Option<i64>,
        queue: Option<i64>,
        sums: &mut HourSums,
    ) -> Result<()> {
        let narrow = if tenant.is_some() { "AND tenant = $2" } else { "AND $2::bigint IS NULL" };
        let columns = "hour, reason, started, failed, retried, dead, recovered, succeeded";
        let condition = format!("{narrow} AND ($3::bigint IS NULL OR queue = $3)");
        let sql = format!(
            "SELECT hour, reason, sum(started)::bigint, sum(failed)::bigint, sum(retried)::bigint, sum(dead)::bigint,
                 sum(recovered)::bigint, sum(succeeded)::bigint
             FROM (
                 SELECT kept.* FROM unnest($1::bigint[]) AS asked CROSS JOIN LATERAL
                     (SELECT {columns} FROM hours WHERE hour = asked {condition}) kept
                 UNION ALL SELECT {columns} FROM hour_deltas WHERE hour = ANY($1) {condition}
             ) counted GROUP BY hour, reason"
        );
        let hours = SqlParam::Numbers(hours.iter().map(|hour| hour.as_millis()).collect());
        let values = [hours, tenant.into(), queue.into()];
        SqlReader::rows(self, &sql, &values).await?.read(|row| sums.read(time(row, 0)?, row, 1))?;
        Ok(())
    }

    /// The newest failure of the patterns that `group_seen`, which lags a little, has as the newest, and of the deltas.
    async fn last_failures(&self, tenants: &[i64]) -> Result<HashMap<i64, Timestamp>> {
        let sql = "SELECT asked, greatest(kept.at, new.at) FROM unnest($1::bigint[]) AS asked
             LEFT JOIN LATERAL (
                 SELECT greatest(max(head.last_seen), max(part.last_seen)) AS at
                 FROM patterns head LEFT JOIN patterns part ON part.merged_into = head.id
                 WHERE head.tenant = asked AND head.merged_into IS NULL AND head.group_seen >=
                     (SELECT max(group_seen) - $2 FROM patterns WHERE tenant = asked AND merged_into IS NULL)
             ) kept ON true
             LEFT JOIN (
                 SELECT patterns.tenant, max(pattern_deltas.at) AS at
                 FROM pattern_deltas JOIN patterns ON patterns.id = pattern_deltas.pattern
                 WHERE pattern_deltas.at > 0 GROUP BY patterns.tenant
             ) new ON new.tenant = asked";
        let lag = i64::try_from(GROUP_SEEN_LAG_MS).unwrap_or(0);
        let read = SqlReader::rows(self, sql, &[tenants.into(), lag.into()]).await?.read(|row| {
            let tenant = number(row, 0)?;
            Ok(time_or_none(row, 1)?.map(|at| (tenant, at)))
        });
        Ok(read?.into_iter().flatten().collect())
    }

    async fn last_change(&self) -> Result<i64> {
        let found = SqlReader::row(self, "SELECT seq FROM change_head", &[]).await?.read(|row| number(row, 0))?;
        Ok(found.unwrap_or(0))
    }
}
