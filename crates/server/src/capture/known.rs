//! Failures judged before. When something breaks, a thousand reports say the same words within a minute; the second one
//! needs no reading. What is judged is pure, so a known answer is the answer; words are compared whole, so no two are
//! taken for one another; and each tenant has its own.

use std::hash::{BuildHasher, Hasher};
use std::sync::{Mutex, PoisonError};

use redrive_core::pattern::Fingerprint;
use redrive_core::reason::Reason;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::ErrorReport;
use redrive_store::AttemptBody;

/// Longer ones are read each time: two megabytes are the most that all of these may take.
const WORDS_MAX_BYTES: usize = 2 * 1024;
const SHELVES: usize = 256;
const PLACES: usize = 4;

/// All that a judgment depends on, one after the other.
pub(super) struct Words(Vec<u8>);

impl Words {
    /// None where headers or a response were told: those carry ids and dates, and hardly ever come again.
    pub(super) fn of(tenant: &str, error: &ErrorReport, body: &AttemptBody) -> Option<Self> {
        if body.response.is_some() || !error.headers.is_empty() {
            return None;
        }
        let token = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.token().len());
        let long = error.message.token().len() + token(&error.detail) + token(&error.error_type);
        if long > WORDS_MAX_BYTES {
            return None;
        }
        let mut words = Vec::with_capacity(long + 128);
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
            // Its length before it: no part can pass for the end of the one before.
            words.extend_from_slice(&part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
            words.extend_from_slice(part.unwrap_or_default().as_bytes());
        }
        words.extend_from_slice(&error.http_status.unwrap_or_default().to_le_bytes());
        words.push(u8::from(error.terminal));
        Some(Self(words))
    }
}

#[derive(Clone)]
struct Known {
    words: Box<[u8]>,
    failure: Failure,
    fingerprint: Fingerprint,
    /// Since it was last passed over when one had to give way.
    asked_for: bool,
}

#[derive(Default)]
struct Shelf {
    places: [Option<Known>; PLACES],
    /// The next one to give way.
    oldest: usize,
}

impl Shelf {
    /// The place for a new one. What was asked for stays once more: words that name their task come once and must not
    /// push out those that come every second.
    fn place(&mut self) -> &mut Option<Known> {
        loop {
            let at = self.oldest;
            self.oldest = (at + 1) % PLACES;
            let stays = self.places[at].as_mut().is_some_and(|known| std::mem::take(&mut known.asked_for));
            if !stays {
                return &mut self.places[at];
            }
        }
    }
}

/// A bounded memory of judgments, the same for all who ask.
pub(crate) struct KnownFailures {
    shelves: Box<[Mutex<Shelf>]>,
    hash: foldhash::fast::RandomState,
}

impl Default for KnownFailures {
    fn default() -> Self {
        let shelves = (0..SHELVES).map(|_| Mutex::default()).collect();
        Self { shelves, hash: foldhash::fast::RandomState::default() }
    }
}

impl KnownFailures {
    fn shelf(&self, words: &Words) -> &Mutex<Shelf> {
        let mut hasher = self.hash.build_hasher();
        hasher.write(&words.0);
        let at = usize::try_from(hasher.finish() % SHELVES as u64).unwrap_or_default();
        &self.shelves[at]
    }

    /// Words name how long to wait, never until when: only headers do, and with those nothing is remembered.
    pub(super) fn get(&self, words: &Words, now: Timestamp) -> Option<(Failure, Fingerprint)> {
        let mut shelf = self.shelf(words).lock().unwrap_or_else(PoisonError::into_inner);
        let known = shelf.places.iter_mut().flatten().find(|known| *known.words == *words.0)?;
        known.asked_for = true;
        let facts = known.failure.facts.heard_at(Some(now.as_millis()));
        Some((Failure { facts, ..known.failure.clone() }, known.fingerprint.clone()))
    }

    pub(super) fn put(&self, words: &Words, failure: &Failure, fingerprint: &Fingerprint) {
        let known = Known {
            words: words.0.as_slice().into(),
            failure: failure.clone(),
            fingerprint: fingerprint.clone(),
            asked_for: false,
        };
        let mut shelf = self.shelf(words).lock().unwrap_or_else(PoisonError::into_inner);
        *shelf.place() = Some(known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::classified::Judges;
    use crate::capture::{Captured, Context};

    fn judged(error: &str, known: Option<&KnownFailures>, now: i64) -> (Failure, Fingerprint) {
        let report = format!(r#"{{"run_id":"a","error":{error}}}"#);
        let captured = Captured::from_report(serde_json::from_str(&report).unwrap(), report.as_bytes()).unwrap();
        let by = Judges { rules: None, known };
        let failed =
            captured.classify(by, &Context::default(), Timestamp::from_millis(now)).unwrap().into_failed().unwrap();
        (failed.failure, failed.fingerprint)
    }

    #[test]
    fn what_is_remembered_is_what_would_be_judged() {
        let known = KnownFailures::default();
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
    fn the_same_words_are_known_to_their_own_tenant_alone() {
        let error: ErrorReport = serde_json::from_str(r#"{"message":"Request timed out"}"#).unwrap();
        let known = KnownFailures::default();
        let (failure, fingerprint) = judged(r#"{"message":"Request timed out"}"#, None, 0);
        let words = |tenant| Words::of(tenant, &error, &AttemptBody::default()).unwrap();
        known.put(&words("acme"), &failure, &fingerprint);
        assert!(known.get(&words("acme"), Timestamp::default()).is_some());
        assert!(known.get(&words("acme2"), Timestamp::default()).is_none());
    }

    #[test]
    fn what_is_asked_for_stays_while_others_pass() {
        let error: ErrorReport = serde_json::from_str(r#"{"message":"Request timed out"}"#).unwrap();
        let words = Words::of("t", &error, &AttemptBody::default()).unwrap();
        let known = KnownFailures::default();
        let (failure, fingerprint) = judged(r#"{"message":"Request timed out"}"#, None, 0);
        known.put(&words, &failure, &fingerprint);
        for n in 0..10 * SHELVES * PLACES {
            assert!(known.get(&words, Timestamp::default()).is_some(), "after {n}");
            judged(&format!(r#"{{"message":"of task {n}"}}"#), Some(&known), 0);
        }
    }

    #[test]
    fn the_oldest_give_way_and_long_ones_are_not_kept() {
        let known = KnownFailures::default();
        for n in 0..10 * SHELVES * PLACES {
            judged(&format!(r#"{{"message":"failure {n}"}}"#), Some(&known), 0);
        }
        let kept = known.shelves.iter().map(|shelf| shelf.lock().unwrap().places.iter().flatten().count());
        assert!(kept.sum::<usize>() <= SHELVES * PLACES);
        let long: ErrorReport =
            serde_json::from_str(&format!(r#"{{"message":"{}"}}"#, "a".repeat(WORDS_MAX_BYTES))).unwrap();
        assert!(Words::of("t", &long, &AttemptBody::default()).is_none());
    }
}
