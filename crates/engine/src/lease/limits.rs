//! What one tenant may have of the workers at a time, on top of the fair deal. A tenant at its limit is passed over; its
//! runs stay due.

use std::collections::HashMap;

use redrive_core::policy::Limits;
use redrive_core::time::{SECOND_MS, Timestamp};

use crate::error::Result;
use crate::tx::Tx;

/// Leases that a tenant may still have, refilled by the clock.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Timestamp,
}

/// Each limited tenant's bucket; a restart fills them, which costs at most a second's worth.
#[derive(Debug, Clone, Default)]
pub struct Buckets(HashMap<i64, Bucket>);

impl Buckets {
    /// How many leases the tenant has left now.
    fn refilled(&mut self, tenant: i64, per_s: f64, now: Timestamp) -> &mut Bucket {
        let most = per_s.max(1.0);
        let bucket = self.0.entry(tenant).or_insert(Bucket { left: most, at: now });
        let more = now.since(bucket.at) as f64 / SECOND_MS as f64 * per_s;
        *bucket = Bucket { left: (bucket.left + more).min(most), at: now.max(bucket.at) };
        bucket
    }
}

fn limits(tx: &mut Tx<'_>, tenant: i64) -> Result<Limits> {
    if let Some(limits) = tx.known.limits.get(&tenant) {
        return Ok(*limits);
    }
    let name = tx.tenant_name(tenant)?;
    let limits = tx.policies.limits_of(&name);
    tx.known.limits.insert(tenant, limits);
    Ok(limits)
}

/// How many runs the tenant may be given in this call; any number where nobody has set it a limit.
pub fn allowance(tx: &mut Tx<'_>, tenant: i64) -> Result<usize> {
    let Limits { max_running, leases_per_s } = limits(tx, tenant)?;
    let slots = match max_running {
        Some(most) => running(tx, tenant)?.map_or(0, |running| most.saturating_sub(running)),
        None => u64::MAX,
    };
    let now = tx.now;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole leases, never negative")]
    let tokens = leases_per_s.map(|rate| tx.known.buckets.refilled(tenant, rate, now).left as u64);
    Ok(usize::try_from(slots.min(tokens.unwrap_or(u64::MAX))).unwrap_or(usize::MAX))
}

/// The tenant was given a run.
pub fn count_lease(tx: &mut Tx<'_>, tenant: i64) -> Result<()> {
    let now = tx.now;
    if let Some(rate) = limits(tx, tenant)?.leases_per_s {
        tx.known.buckets.refilled(tenant, rate, now).left -= 1.0;
    }
    Ok(())
}

/// Attempts under way: the kept counter, and what this batch has changed of it.
fn running(tx: &mut Tx<'_>, tenant: i64) -> Result<Option<u64>> {
    let Some(kept) = tx.rows.running(tenant)? else { return Ok(None) };
    Ok(Some(u64::try_from(kept + tx.counters.running(tenant)).unwrap_or(0)))
}
