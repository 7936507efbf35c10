//! Rates of tenants: requests, and reports of failures, which have a budget of their own so that a storm of failures is not
//! refused because of other calls. Token buckets of this server; each replica has its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::ids::Tenant;
use redrive_core::time::{SECOND_MS, Timestamp};
use redrive_core::wire::TenantLimits;

use crate::app::App;
use crate::auth::Principal;
use crate::problem::{Code, HttpProblem, Result};

/// Buckets in memory. Beyond it full ones are dropped, then all: that admits a second's worth more.
const BUCKETS_MAX: usize = 10_000;

/// What a call is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charge {
    Request,
    /// Reports of failures are charged one by one, and reports of attempts under way not at all: a limit ends no work.
    Nothing,
}

impl Charge {
    pub(crate) fn of(path: &str) -> Self {
        const FREE: &[&str] = &[
            "/v1/failures",
            "/v1/heartbeats",
            "/v1/runs/{run_id}/heartbeat",
            "/v1/runs/{run_id}/steps",
            "/v1/runs/{run_id}/succeed",
            "/v1/runs/{run_id}/fail",
            "/v1/runs/{run_id}/release",
        ];
        if FREE.contains(&path) || !path.starts_with("/v1/") { Self::Nothing } else { Self::Request }
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Timestamp,
}

impl Bucket {
    fn full(per_s: f64, now: Timestamp) -> Self {
        Self { left: per_s.max(1.0), at: now }
    }

    fn refilled(self, per_s: f64, now: Timestamp) -> Self {
        let more = now.since(self.at) as f64 / SECOND_MS as f64 * per_s;
        Self { left: (self.left + more).min(per_s.max(1.0)), at: now.max(self.at) }
    }
}

/// The buckets of one rate.
#[derive(Debug, Default)]
struct Buckets(Mutex<HashMap<Tenant, Bucket>>);

impl Buckets {
    fn lock(&self) -> MutexGuard<'_, HashMap<Tenant, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a token, or answers in how many seconds there is one.
    fn take(&self, tenant: &Tenant, per_s: f64, now: Timestamp) -> Result<(), u32> {
        let mut buckets = self.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(tenant) {
            buckets.retain(|_, bucket| now.since(bucket.at) < SECOND_MS);
            if buckets.len() >= BUCKETS_MAX {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(tenant.clone()).or_insert_with(|| Bucket::full(per_s, now));
        *bucket = bucket.refilled(per_s, now);
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds, never negative")]
        let wait_s = ((1.0 - bucket.left) / per_s).ceil().clamp(1.0, 3_600.0) as u32;
        Err(wait_s)
    }

    /// How much of a second's worth is used.
    fn used(&self, tenant: &Tenant, per_s: f64, now: Timestamp) -> f64 {
        let bucket = self.lock().get(tenant).map(|bucket| bucket.refilled(per_s, now));
        bucket.map_or(0.0, |bucket| (per_s.max(1.0) - bucket.left).max(0.0))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Quotas {
    requests: Buckets,
    reports: Buckets,
}

impl Quotas {
    /// Charges a call to the tenant of its key; a key that spans tenants is not limited.
    pub(crate) fn request(&self, app: &App, caller: Option<&Principal>) -> Result<()> {
        let Some(tenant) = caller.and_then(Principal::own_tenant) else { return Ok(()) };
        match app.store.limits(tenant).requests_per_s {
            Some(per_s) => taken(self.requests.take(tenant, per_s, app.store.now()), "requests_per_s", per_s),
            None => Ok(()),
        }
    }

    /// Charges one reported failure to its tenant, whoever reports it.
    pub(crate) fn report(&self, app: &App, tenant: &Tenant) -> Result<()> {
        match app.store.limits(tenant).reports_per_s {
            Some(per_s) => taken(self.reports.take(tenant, per_s, app.store.now()), "reports_per_s", per_s),
            None => Ok(()),
        }
    }

    /// Adds what this server knows to a tenant's limits.
    pub(crate) fn show(&self, tenant: &Tenant, limits: &mut TenantLimits, now: Timestamp) {
        limits.requests_used = limits.requests_per_s.map(|per_s| self.requests.used(tenant, per_s, now));
        limits.reports_used = limits.reports_per_s.map(|per_s| self.reports.used(tenant, per_s, now));
    }
}

fn taken(took: Result<(), u32>, quota: &'static str, per_s: f64) -> Result<()> {
    took.map_err(|wait_s| {
        HttpProblem::new(Code::QuotaExceeded, format!("the tenant has used up its limit `{quota}` of {per_s}"))
            .with("quota", quota)
            .with("limit", per_s)
            .retry_after_s(wait_s)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_a_second_and_fills_up_again() {
        let (buckets, tenant) = (Buckets::default(), Tenant::default_tenant());
        let at = |ms: i64| Timestamp::from_millis(1_000_000 + ms);
        assert_eq!([(); 3].map(|()| buckets.take(&tenant, 2.0, at(0))), [Ok(()), Ok(()), Err(1)]);
        assert_eq!(buckets.used(&tenant, 2.0, at(0)), 2.0);
        assert_eq!(buckets.take(&tenant, 2.0, at(500)), Ok(()));
        assert_eq!(buckets.take(&tenant, 2.0, at(500)), Err(1));
        assert_eq!(buckets.take(&tenant, 0.1, at(500)), Err(10), "a slow rate names its wait");
    }

    #[test]
    fn buckets_are_bounded() {
        let buckets = Buckets::default();
        for n in 0..=2 * BUCKETS_MAX {
            let tenant: Tenant = format!("t{n}").parse().unwrap();
            assert_eq!(buckets.take(&tenant, 1.0, Timestamp::default()), Ok(()));
        }
        assert!(buckets.lock().len() <= BUCKETS_MAX);
    }
}
