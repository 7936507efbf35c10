//! A cache of classifications, by tenant and error text: an outage produces thousands of equal reports within a minute.
//! Classification is pure and keys are compared whole, so a cached answer is the answer.

use quick_cache::sync::Cache;
use redrive_core::pattern::Fingerprint;
use redrive_core::reason::Reason;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::ErrorReport;
use redrive_engine::AttemptBody;

/// Longer texts are not cached, so all keys together take at most 2 MiB.
const TEXT_MAX_BYTES: usize = 2 * 1024;
const ENTRIES_MAX: usize = 1_024;

/// Everything that a classification depends on, concatenated.
pub(super) struct CacheKey(Vec<u8>);

impl CacheKey {
    /// None for a failure with headers or a response: those carry ids and dates and hardly ever repeat.
    pub(super) fn of(tenant: &str, error: &ErrorReport, body: &AttemptBody) -> Option<Self> {
        if body.response.is_some() || !error.headers.is_empty() {
            return None;
        }
        let token = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.token().len());
        let long = error.message.token().len() + token(&error.detail) + token(&error.error_type);
        if long > TEXT_MAX_BYTES {
            return None;
        }
        let mut key = Vec::with_capacity(long + 128);
        let parts = [
            Some(tenant),
            Some(error.message.token()),
            error.detail.as_ref().map(Text::token),
            error.error_type.as_ref().map(Text::token),
            error.reason.as_ref().map(Reason::as_str),
            error.category.map(|category| category.as_str()),
            body.provider.as_ref().map(Label::as_str),
            body.tool.as_ref().map(Label::as_str),
            body.finish_reason.as_ref().map(Label::as_str),
        ];
        for part in parts {
            // The length comes first, so no part can pass for the end of the one before.
            key.extend_from_slice(&part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
            key.extend_from_slice(part.unwrap_or_default().as_bytes());
        }
        key.extend_from_slice(&error.http_status.unwrap_or_default().to_le_bytes());
        key.push(u8::from(error.terminal));
        Some(Self(key))
    }
}

#[derive(Clone)]
struct CachedClassification {
    failure: Failure,
    fingerprint: Fingerprint,
}

/// Classifications of recent failures, bounded.
pub(crate) struct ClassificationCache(Cache<Box<[u8]>, CachedClassification>);

impl Default for ClassificationCache {
    fn default() -> Self {
        Self(Cache::new(ENTRIES_MAX))
    }
}

impl ClassificationCache {
    /// Message texts name how long to wait, never until when: only headers do, and those are not cached.
    pub(super) fn get(&self, key: &CacheKey, now: Timestamp) -> Option<(Failure, Fingerprint)> {
        let CachedClassification { failure, fingerprint } = self.0.get(&*key.0)?;
        let facts = failure.facts.heard_at(Some(now.as_millis()));
        Some((Failure { facts, ..failure }, fingerprint))
    }

    pub(super) fn put(&self, key: &CacheKey, failure: &Failure, fingerprint: &Fingerprint) {
        let entry = CachedClassification { failure: failure.clone(), fingerprint: fingerprint.clone() };
        self.0.insert(key.0.as_slice().into(), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::classified::Classifiers;
    use crate::capture::{Captured, FailureContext};

    fn judged(error: &str, known: Option<&ClassificationCache>, now: i64) -> (Failure, Fingerprint) {
        let report = format!(r#"{{"run_id":"a","error":{error}}}"#);
        let captured = Captured::from_report(serde_json::from_str(&report).unwrap(), report.as_bytes()).unwrap();
        let by = Classifiers { rules: None, cache: known };
        let failed = captured
            .classify(by, &FailureContext::default(), Timestamp::from_millis(now))
            .unwrap()
            .into_failed()
            .unwrap();
        (failed.failure, failed.fingerprint)
    }

    #[test]
    fn a_cached_classification_equals_a_fresh_one() {
        let known = ClassificationCache::default();
        let errors = [
            r#"{"message":"Request timed out"}"#,
            r#"{"message":"Request timed out","terminal":true}"#,
            r#"{"message":"Request timed out","type":"KeyError"}"#,
            r#"{"message":"Request timed out","detail":"KeyError"}"#,
            r#"{"message":"Request timed out","http_status":401}"#,
            r#"{"message":"Request timed out","reason":"x:mine"}"#,
            r#"{"message":"Request timed out","category":"permanent"}"#,
            r#"{"message":"","type":"Request timed out"}"#,
            r#"{"message":"Rate limit reached. Please try again in 12s"}"#,
            r#"{"message":"slow down","headers":{"retry-after":"7"},"http_status":429}"#,
        ];
        for round in 0..3_i64 {
            for error in errors {
                let now = 1_000_000 * round;
                assert_eq!(judged(error, Some(&known), now), judged(error, None, now), "{error}");
            }
        }
    }

    #[test]
    fn tenants_share_no_cached_classification() {
        let error: ErrorReport = serde_json::from_str(r#"{"message":"Request timed out"}"#).unwrap();
        let known = ClassificationCache::default();
        let (failure, fingerprint) = judged(r#"{"message":"Request timed out"}"#, None, 0);
        let words = |tenant| CacheKey::of(tenant, &error, &AttemptBody::default()).unwrap();
        known.put(&words("acme"), &failure, &fingerprint);
        assert!(known.get(&words("acme"), Timestamp::default()).is_some());
        assert!(known.get(&words("acme2"), Timestamp::default()).is_none());
    }

    #[test]
    fn a_frequent_key_survives_many_rare_ones() {
        let error: ErrorReport = serde_json::from_str(r#"{"message":"Request timed out"}"#).unwrap();
        let key = CacheKey::of("t", &error, &AttemptBody::default()).unwrap();
        let cache = ClassificationCache::default();
        let (failure, fingerprint) = judged(r#"{"message":"Request timed out"}"#, None, 0);
        cache.put(&key, &failure, &fingerprint);
        for n in 0..10 * ENTRIES_MAX {
            assert!(cache.get(&key, Timestamp::default()).is_some(), "after {n}");
            judged(&format!(r#"{{"message":"of task {n}"}}"#), Some(&cache), 0);
        }
    }

    #[test]
    fn the_cache_is_bounded_and_skips_long_texts() {
        let cache = ClassificationCache::default();
        for n in 0..10 * ENTRIES_MAX {
            judged(&format!(r#"{{"message":"failure {n}"}}"#), Some(&cache), 0);
        }
        assert!((1..=ENTRIES_MAX).contains(&cache.0.len()));
        let long: ErrorReport =
            serde_json::from_str(&format!(r#"{{"message":"{}"}}"#, "a".repeat(TEXT_MAX_BYTES))).unwrap();
        assert!(CacheKey::of("t", &long, &AttemptBody::default()).is_none());
    }
}
