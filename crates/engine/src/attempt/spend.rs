//! What retries use up: summed in memory with the batch, kept by tenant and day.

use redrive_core::money::Spend;

use crate::error::Result;
use crate::tx::Tx;

impl Tx<'_> {
    /// A retry of the tenant has used this.
    pub fn spend(&mut self, tenant: i64, spend: Spend) {
        if !spend.is_none() {
            let sum = self.tally.spend.entry(tenant).or_default();
            *sum = sum.plus(spend);
        }
    }

    /// What the tenant's retries have used today, this batch's included.
    pub fn spent_today(&mut self, tenant: i64) -> Result<Spend> {
        let kept = self.rows.spent_on(tenant, self.now.day())?;
        Ok(kept.plus(self.tally.spend.get(&tenant).copied().unwrap_or_default()))
    }
}
