//! What is asked, and the laws that hold for its answers.

mod api;
mod payloads;
mod text;

use std::hash::{DefaultHasher, Hasher as _};

use crate::Verdict;

pub type Ask = Box<dyn Fn(&[u8]) -> Verdict>;

pub struct Target {
    pub name: &'static str,
    /// Files and folders of the corpus that it begins with.
    pub corpus: &'static [&'static str],
    /// Words that it knows, for chance to find.
    pub words: &'static [&'static str],
    pub make: fn() -> Ask,
}

pub const TARGETS: &[Target] = &[
    api::REPORT,
    api::LINES,
    api::UNDER_LEASE,
    api::PEOPLE,
    api::OPERATIONS,
    api::FILTERS,
    api::CURSORS,
    api::KEYS,
    text::NAMES,
    text::CODEC,
    payloads::TAPE,
    payloads::PATCH,
    payloads::REWRITE,
    payloads::SCHEMA,
    payloads::PREFLIGHT,
    text::CLASSIFIER,
    text::RULES,
    text::OBSERVED,
    text::TEXTS,
];

/// What tells apart what happened.
fn told(what: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Two halves of an input, at its first line that is only `---`, or in its middle.
fn halves(input: &str) -> (&str, &str) {
    input.split_once("\n---\n").unwrap_or_else(|| {
        let middle = (input.len() / 2..=input.len()).find(|at| input.is_char_boundary(*at)).unwrap_or(0);
        input.split_at(middle)
    })
}
