//! Limits of a tenant: running attempts and leases per second. A claim skips a tenant at its limit; its runs stay due.

use std::collections::HashMap;

use redrive_core::policy::Limits;
use redrive_core::time::{SECOND_MS, Timestamp};

use crate::error::Result;
use crate::tx::Tx;

/// A token bucket: leases that a tenant may still get.
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    left: f64,
    at: Timestamp,
}

/// The bucket of each tenant with a rate limit. A restart fills them, which admits at most one second's leases more.
#[derive(Debug, Clone, Default)]
pub struct TokenBuckets(HashMap<i64, TokenBucket>);

impl TokenBuckets {
    /// The tenant's bucket, refilled up to now.
    fn refilled(&mut self, tenant: i64, per_s: f64, now: Timestamp) -> &mut TokenBucket {
        let most = per_s.max(1.0);
        let bucket = self.0.entry(tenant).or_insert(TokenBucket { left: most, at: now });
        let more = now.since(bucket.at) as f64 / SECOND_MS as f64 * per_s;
        *bucket = TokenBucket { left: (bucket.left + more).min(most), at: now.max(bucket.at) };
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

/// How many runs the tenant may get now; unbounded without a limit.
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

/// Takes a token for a granted lease.
pub fn count_lease(tx: &mut Tx<'_>, tenant: i64) -> Result<()> {
    let now = tx.now;
    if let Some(rate) = limits(tx, tenant)?.leases_per_s {
        tx.known.buckets.refilled(tenant, rate, now).left -= 1.0;
    }
    Ok(())
}

/// Attempts under way: the stored counter and this batch's change. None while another replica claims for the tenant.
fn running(tx: &mut Tx<'_>, tenant: i64) -> Result<Option<u64>> {
    let Some(stored) = tx.rows.running(tenant)? else { return Ok(None) };
    let running = stored + tx.counters.running(tenant);
    // Counters that need a recount may be negative.
    Ok(Some(running.max(0).cast_unsigned()))
}
