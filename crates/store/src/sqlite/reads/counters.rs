//! Statements about counters in SQLite's dialect. Each commit folds its own changes, so there are no deltas.

use std::collections::HashMap;

use redrive_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use crate::shared::hours::HourSums;
use crate::shared::patterns::GROUP_SEEN_LAG_MS;
use crate::shared::reader::CounterQueries;
use redrive_engine::error::PortResult as Result;

impl CounterQueries for Connection {
    fn counters(table: &str, columns: &str, condition: &str) -> String {
        format!("SELECT {columns}, n FROM {table} WHERE {condition}")
    }

    async fn hour_events(
        &self,
        hours: &[Timestamp],
        tenant: Option<i64>,
        queue: Option<i64>,
        sums: &mut HourSums,
    ) -> Result<()> {
        let narrow = if tenant.is_some() { "AND tenant = ?2" } else { "AND ?2 IS NULL" };
        let mut find = self.prepare_cached(&format!(
            "SELECT reason, sum(started), sum(failed), sum(retried), sum(dead), sum(recovered), sum(succeeded)
             FROM hours WHERE hour = ?1 {narrow} AND (?3 IS NULL OR queue = ?3) GROUP BY reason"
        ))?;
        for hour in hours {
            let mut rows = find.query((hour.as_millis(), tenant, queue))?;
            while let Some(row) = rows.next()? {
                sums.read(*hour, row, 0)?;
            }
        }
        Ok(())
    }

    /// The newest failure of the patterns that `group_seen`, which lags a little, has as the newest.
    async fn last_failures(&self, tenants: &[i64]) -> Result<HashMap<i64, Timestamp>> {
        let mut find = self.prepare_cached(
            "SELECT max(max(head.last_seen), coalesce(max(part.last_seen), 0))
             FROM patterns head LEFT JOIN patterns part ON part.merged_into = head.id
             WHERE head.tenant = ?1 AND head.merged_into IS NULL AND head.group_seen >=
                 (SELECT max(group_seen) - ?2 FROM patterns WHERE tenant = ?1 AND merged_into IS NULL)",
        )?;
        let lag = i64::try_from(GROUP_SEEN_LAG_MS).unwrap_or(0);
        let mut failed = HashMap::new();
        for tenant in tenants {
            let at: Option<i64> = find.query_row([*tenant, lag], |row| row.get(0)).optional()?.flatten();
            failed.extend(at.map(|at| (*tenant, Timestamp::from_millis(at))));
        }
        Ok(failed)
    }

    async fn last_change(&self) -> Result<i64> {
        let mut find = self.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")?;
        Ok(find.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
    }
}
