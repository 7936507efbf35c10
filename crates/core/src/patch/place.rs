//! From a pointer to the bytes it names.

use std::ops::Range;

use super::pointer::index;
use super::scan::{Entry, Kind, entries, kind, value_end};
use crate::text::decode_token;

/// The value that `names` lead to.
pub(super) fn find(text: &str, names: &[String]) -> Option<Range<usize>> {
    let mut at = 0..value_end(text, 0);
    for name in names {
        at = child(text, at.start, name)?.value;
    }
    Some(at)
}

/// The entry of that name. Where an object has a key twice, the last one: that is the one readers take.
pub(super) fn child(text: &str, container: usize, name: &str) -> Option<Entry> {
    match kind(text, container) {
        Kind::Object => entries(text, container).filter(|entry| is_named(text, entry, name)).last(),
        Kind::List => entries(text, container).nth(index(name)?),
        Kind::Plain => None,
    }
}

pub(super) fn is_named(text: &str, entry: &Entry, name: &str) -> bool {
    entry.key.as_ref().is_some_and(|key| decode_token(&text[key.clone()]) == name)
}

/// The bytes of one entry to take out, so that the commas around it still fit.
pub(super) fn cut(text: &str, container: usize, which: impl Fn(usize, &Entry) -> bool) -> Option<Range<usize>> {
    let mut before: Option<Entry> = None;
    let mut all = entries(text, container).enumerate();
    while let Some((at, entry)) = all.next() {
        if !which(at, &entry) {
            before = Some(entry);
            continue;
        }
        return Some(match (all.next(), before) {
            (Some((_, after)), _) => entry.start()..after.start(),
            (None, Some(before)) => before.value.end..entry.value.end,
            (None, None) => entry.start()..entry.value.end,
        });
    }
    None
}
