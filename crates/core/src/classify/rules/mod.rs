//! The built-in rules: which phrases indicate which reason, and how strongly. One file per family; the tables are laid out
//! by hand because rustfmt would give every phrase its own line.

#[rustfmt::skip]
mod access;
#[rustfmt::skip]
mod code;
#[rustfmt::skip]
mod output;
#[rustfmt::skip]
mod people;
#[rustfmt::skip]
mod provider;
#[rustfmt::skip]
mod request;
#[rustfmt::skip]
mod tools;
#[rustfmt::skip]
mod transport;

use std::sync::LazyLock;

use super::FailurePlace;
use crate::reason::{Category, Reason};

/// How much a rule's evidence weighs. Between rules that match, the heavier wins; between equal ones the one
/// whose phrase says more. The bands leave room for a rule to stand just above another.
pub type Rank = u8;

/// A code or wording that only this reason has.
pub(super) const SURE: Rank = 90;
/// A wording that means this reason nearly always.
pub(super) const CLEAR: Rank = 70;
/// An exception class or common wording that a more exact one may overrule.
pub(super) const LIKELY: Rank = 50;
/// An HTTP status that says something by itself.
pub(super) const BY_STATUS: Rank = 30;
/// A word that is better than nothing.
pub(super) const HINT: Rank = 20;
/// Nothing matched but the place.
pub(super) const BY_PLACE: Rank = 5;

/// A phrase is written in plain words. Case, punctuation, spaces, underscores and camel case make no difference:
/// `rate limit exceeded` also matches `RATE_LIMIT_EXCEEDED` and `RateLimitExceededError`. A single word stands for
/// itself: `typeerror` is `TypeError`, not `"type": "error"`. Phrases shorter than ten letters match whole words only; `*` at an end lifts that. `~` stands for up to some words in between.
#[derive(Debug, Clone)]
pub struct Rule {
    pub name: &'static str,
    pub reason: Reason,
    /// Where it differs from the reason's own.
    pub category: Option<Category>,
    pub rank: Rank,
    /// One of these must be there.
    pub any: &'static [&'static str],
    /// If not empty, one of these too.
    pub with: &'static [&'static str],
    /// None of these.
    pub unless: &'static [&'static str],
    /// If not empty, only there.
    pub places: &'static [FailurePlace],
    /// If not empty, only with one of these statuses.
    pub statuses: &'static [u16],
    /// Where the wording comes from, or which family it serves.
    pub note: &'static str,
    /// A text that this rule decides.
    pub example: &'static str,
}

impl Rule {
    pub(super) const fn new(name: &'static str, reason: Reason, rank: Rank, any: &'static [&'static str]) -> Self {
        Self {
            name,
            reason,
            category: None,
            rank,
            any,
            with: &[],
            unless: &[],
            places: &[],
            statuses: &[],
            note: "",
            example: "",
        }
    }

    pub(super) const fn category(mut self, category: Category) -> Self {
        self.category = Some(category);
        self
    }

    pub(super) const fn with(mut self, phrases: &'static [&'static str]) -> Self {
        self.with = phrases;
        self
    }

    pub(super) const fn unless(mut self, phrases: &'static [&'static str]) -> Self {
        self.unless = phrases;
        self
    }

    pub(super) const fn at(mut self, places: &'static [FailurePlace]) -> Self {
        self.places = places;
        self
    }

    pub(super) const fn on(mut self, statuses: &'static [u16]) -> Self {
        self.statuses = statuses;
        self
    }

    pub(super) const fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    pub(super) const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    /// The category a failure gets by this rule.
    pub fn category_or_default(&self) -> Category {
        self.category.unwrap_or_else(|| self.reason.category())
    }
}

/// Every built-in rule. Among equally strong matches the later rule wins, so the order of families matters.
pub fn rules() -> &'static [Rule] {
    static ALL: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        let families = [
            provider::RULES,
            output::RULES,
            tools::RULES,
            access::RULES,
            request::RULES,
            transport::RULES,
            people::RULES,
            code::RULES,
        ];
        families.into_iter().flatten().cloned().collect()
    });
    &ALL
}
