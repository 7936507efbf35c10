//! What to do about a failure: the strategy table by reason, and the decision made from it.

mod decide;
mod delay;
mod plan;
mod sentence;
mod table;
#[cfg(test)]
mod tests;

use crate::classify::{Classified, Facts};
use crate::detect::Objection;
use crate::hash::Fnv;
use crate::money::Spend;
use crate::pattern::Fingerprint;
use crate::reason::{Category, Reason};
use crate::rewrite::Room;
use delay::RETRY_AFTER_MAX_MS;

pub use decide::{Decision, decide};
pub use table::{Delay, Strategy, Tries, strategy};

/// A failed attempt, classified and fingerprinted.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub reason: Reason,
    pub category: Category,
    pub rule: String,
    pub facts: Facts,
    /// The caller forbids further attempts.
    pub terminal: bool,
    pub fingerprint: u64,
    /// Tokens and cost of the attempt.
    pub spent: Spend,
    /// The measured request; only set where the input was too long.
    pub room: Option<Room>,
    /// The output that was refused, by its hash.
    pub refused: Option<u64>,
}

impl Failure {
    pub fn new(classified: Classified, terminal: bool, fingerprint: u64) -> Self {
        let Classified { reason, category, rule, facts } = classified;
        let found = Self::found(reason, &rule);
        Self { category, facts, terminal, fingerprint, ..found }.with_long_waits_as_quota()
    }

    /// A failure that the engine detected itself.
    pub fn found(reason: Reason, rule: &str) -> Self {
        let fingerprint = fnv(reason.as_str(), rule);
        Self {
            category: reason.category(),
            reason,
            rule: rule.into(),
            facts: Facts::default(),
            terminal: false,
            fingerprint,
            spent: Spend::default(),
            room: None,
            refused: None,
        }
    }

    /// A success that a detector objects to.
    pub fn objected(objection: &Objection, fingerprint: &Fingerprint) -> Self {
        let found = Self::found(objection.reason(), &objection.detector.rule());
        Self { facts: objection.facts, fingerprint: fingerprint.hash, ..found }
    }

    /// A rate limit of more than a day is a quota with a reset time.
    fn with_long_waits_as_quota(mut self) -> Self {
        let long = self.facts.wait_ms.is_some_and(|ms| ms > RETRY_AFTER_MAX_MS);
        if long && self.category == Category::Transient {
            self.reason = Reason::QuotaExhausted;
            self.category = Category::Conditional;
        }
        self
    }
}

/// Stored values depend on this hash: it must not change.
fn fnv(reason: &str, rule: &str) -> u64 {
    let mut hash = Fnv::new();
    for part in [reason.as_bytes(), &[0], rule.as_bytes()] {
        hash.write(part);
    }
    hash.plain()
}
