//! What differs between two payloads, place by place: for people to read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::pointer::escaped;
use super::same::same;
use super::scan::{Entry, Kind, entries, kind};
use super::work::Work;
use crate::text::decode_token;

const DEPTH_MAX: usize = 64;
/// A list or object with more entries is shown as changed as a whole.
const ENTRIES_MAX: usize = 10_000;
/// How much may be read to find what differs; beyond it a place is shown as changed as a whole.
const WORK_MAX_BYTES: usize = 256 * 1024 * 1024;

/// One place that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference<'a> {
    /// JSON Pointer; empty for the whole payload.
    pub path: String,
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
}

/// The first `most` places that differ, in the order of the old payload; what is new comes last.
pub fn differences<'a>(before: &'a str, after: &'a str, most: usize) -> Vec<Difference<'a>> {
    let mut comparison = Comparison { most, found: Vec::new(), work: Work::of(WORK_MAX_BYTES) };
    comparison.compare(String::new(), before, after, DEPTH_MAX);
    comparison.found
}

struct Comparison<'a> {
    most: usize,
    found: Vec<Difference<'a>>,
    work: Work,
}

impl<'a> Comparison<'a> {
    fn compare(&mut self, path: String, before: &'a str, after: &'a str, depth: usize) {
        let equal = same(before, after, &mut self.work);
        if self.found.len() >= self.most || equal == Ok(true) {
            return;
        }
        let both = kind(before, 0);
        let open = equal.is_ok() && both == kind(after, 0) && both != Kind::Plain && depth > 0;
        let (Some(old), Some(new)) = (open.then(|| named(before)).flatten(), open.then(|| named(after)).flatten())
        else {
            self.found.push(Difference { path, before: Some(before), after: Some(after) });
            return;
        };
        let place = |name: &str| format!("{path}/{}", escaped(name));
        for (name, value) in &old.in_order {
            match new.by_name.get(name) {
                Some(other) => self.compare(place(name), value, other, depth - 1),
                None if self.found.len() < self.most => {
                    self.found.push(Difference { path: place(name), before: Some(value), after: None });
                }
                None => return,
            }
        }
        for (name, value) in new.in_order.iter().filter(|(name, _)| !old.by_name.contains_key(name)) {
            if self.found.len() >= self.most {
                return;
            }
            self.found.push(Difference { path: place(name), before: None, after: Some(value) });
        }
    }
}

struct Named<'a> {
    in_order: Vec<(Cow<'a, str>, &'a str)>,
    by_name: BTreeMap<Cow<'a, str>, &'a str>,
}

/// None when there are too many.
fn named(text: &str) -> Option<Named<'_>> {
    let name = |(at, entry): (usize, Entry)| {
        let name = entry.key.map_or_else(|| at.to_string().into(), |key| decode_token(&text[key]));
        (name, &text[entry.value])
    };
    let in_order: Vec<_> = entries(text, 0).enumerate().take(ENTRIES_MAX + 1).map(name).collect();
    let by_name = in_order.iter().cloned().collect();
    (in_order.len() <= ENTRIES_MAX).then_some(Named { in_order, by_name })
}
