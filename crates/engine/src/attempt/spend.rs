//! What retries use up: summed in memory with the batch, kept by tenant and day.

use redrive_core::money::Spend;

use crate::error::Result;
use crate::tx::Tx;

/// A retry of the tenant has used this.
pub fn spend(tx: &mut Tx<'_>, tenant: i64, spend: Spend) {
    if !spend.is_none() {
        let sum = tx.tally.spend.entry(tenant).or_default();
        *sum = sum.plus(spend);
    }
}

/// What the tenant's retries have used today, this batch's included.
pub fn spent_today(tx: &mut Tx<'_>, tenant: i64) -> Result<Spend> {
    let kept = tx.rows.spent_on(tenant, tx.now.day())?;
    Ok(kept.plus(tx.tally.spend.get(&tenant).copied().unwrap_or_default()))
}
