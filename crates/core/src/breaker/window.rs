//! The last minutes of what a breaker watches, in a few buckets that roll on with the clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::policy::BreakerSettings;
use crate::time::Timestamp;

/// Finer than a tenth of the window nobody needs to forget.
const BUCKETS: u64 = 10;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Bucket {
    /// Its number since the beginning of time, at the width it was filled with.
    at: u64,
    ok: u64,
    /// Failures by the tenant whose they are.
    failed: BTreeMap<i64, u64>,
}

/// What happened lately.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    width_ms: u64,
    buckets: Vec<Bucket>,
}

impl Window {
    pub(super) fn add(&mut self, voter: i64, failed: bool, settings: &BreakerSettings, now: Timestamp) {
        self.roll(settings, now);
        let at = self.bucket_of(now);
        let last = match self.buckets.last() {
            Some(last) if last.at >= at => self.buckets.len() - 1,
            Some(_) | None => {
                self.buckets.push(Bucket { at, ..Bucket::default() });
                self.buckets.len() - 1
            }
        };
        let bucket = &mut self.buckets[last];
        if failed {
            *bucket.failed.entry(voter).or_default() += 1;
        } else {
            bucket.ok += 1;
        }
    }

    /// Forgets what lies before the window. One of another width starts anew.
    pub(super) fn roll(&mut self, settings: &BreakerSettings, now: Timestamp) {
        let width_ms = (settings.window_ms / BUCKETS).max(1);
        if self.width_ms != width_ms {
            *self = Self { width_ms, buckets: Vec::new() };
        }
        let newest = self.bucket_of(now);
        self.buckets.retain(|bucket| bucket.at + BUCKETS > newest);
    }

    fn bucket_of(&self, now: Timestamp) -> u64 {
        now.as_millis().unsigned_abs() / self.width_ms.max(1)
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    pub fn has_failures(&self) -> bool {
        self.buckets.iter().any(|bucket| !bucket.failed.is_empty())
    }

    /// Attempts within the window, and failures among them, as they were.
    pub fn figures(&self, now: Timestamp) -> (u64, u64) {
        let newest = self.bucket_of(now);
        let recent = self.buckets.iter().filter(|bucket| bucket.at + BUCKETS > newest);
        recent.fold((0, 0), |(attempts, failed), bucket| {
            let failures: u64 = bucket.failed.values().sum();
            (attempts + bucket.ok + failures, failed + failures)
        })
    }

    fn successes(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.ok).sum()
    }

    /// Whether so much fails that it has to stop. `shared`: a breaker of everybody's needs two tenants that fail, and
    /// counts none of them for more than half of the minimum. What works counts in full, so that two who are in trouble
    /// stop nobody whose work succeeds.
    pub(super) fn trips(&self, shared: bool, settings: &BreakerSettings) -> bool {
        let mut by_voter: BTreeMap<i64, u64> = BTreeMap::new();
        for (voter, n) in self.buckets.iter().flat_map(|bucket| &bucket.failed) {
            *by_voter.entry(*voter).or_default() += n;
        }
        let most = if shared { u64::from(settings.min_attempts).div_ceil(2) } else { u64::MAX };
        let failed: u64 = by_voter.values().map(|n| (*n).min(most)).sum();
        let attempts = failed + self.successes();
        let voters = if shared { 2 } else { 1 };
        by_voter.len() >= voters
            && attempts >= u64::from(settings.min_attempts)
            && share(failed, attempts) >= settings.failure_share
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share of counts needs no more than an f64 holds")]
fn share(failed: u64, attempts: u64) -> f64 {
    if attempts == 0 { 0.0 } else { failed as f64 / attempts as f64 }
}
