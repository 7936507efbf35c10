//! What retries use up: summed in memory with the batch, kept by tenant and day.

use redrive_core::money::{Spend, Usd};
use redrive_core::time::{DAY_MS, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;
use crate::sqlite::batch::Batch;
use crate::sqlite::map::Map;

/// Days are kept this long for whoever wants to look.
const DAYS_KEPT_MS: u64 = 31 * DAY_MS;

impl Batch<'_> {
    /// A retry of the tenant has used this.
    pub(super) fn spend(&mut self, tenant: i64, spend: Spend) {
        if !spend.is_none() {
            let sum = self.tally.spend.entry(tenant).or_default();
            *sum = sum.plus(spend);
        }
    }

    /// What the tenant's retries have used today, this batch's included.
    pub(super) fn spent_today(&mut self, tenant: i64) -> Result<Spend> {
        let mut find =
            self.conn.prepare_cached("SELECT tokens, cost_micros FROM retry_spend WHERE tenant = ?1 AND day = ?2")?;
        let kept = find
            .query_row([tenant, self.now.day().as_millis()], |row| {
                Ok(Spend { tokens: row.get(0)?, cost: Usd::from_micros(row.get(1)?) })
            })
            .optional()?;
        Ok(kept.unwrap_or_default().plus(self.tally.spend.get(&tenant).copied().unwrap_or_default()))
    }
}

pub(super) fn fold(conn: &Connection, spend: Map<i64, Spend>, now: Timestamp) -> Result<()> {
    if spend.is_empty() {
        return Ok(());
    }
    // A sum that would pass what the column holds stays at its end: past every budget is past every budget.
    let mut fold = conn.prepare_cached(
        "INSERT INTO retry_spend (tenant, day, tokens, cost_micros) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET tokens = min(tokens + excluded.tokens, 4611686018427387903),
             cost_micros = min(cost_micros + excluded.cost_micros, 4611686018427387903)",
    )?;
    let mut forget = conn.prepare_cached("DELETE FROM retry_spend WHERE tenant = ?1 AND day < ?2")?;
    for (tenant, Spend { tokens, cost }) in spend {
        let most = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).min(i64::MAX / 2);
        fold.execute(params![tenant, now.day().as_millis(), most(tokens), most(cost.micros())])?;
        forget.execute(params![tenant, now.day().minus_ms(DAYS_KEPT_MS).as_millis()])?;
    }
    Ok(())
}
