//! Byte-exact JSON: an index of a text ([`Tape`]), edits by position ([`Splices`]), and differences ([`diff`]). Payloads are
//! changed by position, so untouched bytes (numbers, key order, escapes) stay as they were sent.

mod diff;
mod tape;
mod walk;

use std::borrow::Cow;

pub use diff::{DIFF_MAX_OPERATIONS, DiffOp, DiffOperation, Difference, diff, differences};
pub use tape::{At, JsonKind, Tape};
pub(crate) use walk::{EntrySpan, after_space, entries, kind_at, value_end};

/// A member name as a JSON Pointer (RFC 6901) writes it.
pub(crate) fn escape_pointer(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) { name.replace('~', "~0").replace('/', "~1").into() } else { name.into() }
}

/// Replacements of stretches of a text that do not overlap.
#[derive(Debug, Default)]
pub struct Splices(Vec<(usize, usize, String)>);

impl Splices {
    pub fn replace(&mut self, (start, end): (usize, usize), by: impl Into<String>) {
        self.0.push((start, end, by.into()));
    }

    pub fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace((at, at), text);
    }

    pub fn remove(&mut self, span: (usize, usize)) {
        self.replace(span, "");
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with all of it done; inserts at one place come in the order in which they were asked for. What was to be
    /// done inside of a stretch that goes, goes with it.
    pub fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(start, end, _)| (*start, *end));
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (start, end, by) in &self.0 {
            if *start < done {
                continue;
            }
            out.push_str(text.get(done..*start).unwrap_or_default());
            out.push_str(by);
            done = *end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_apply_in_position_order() {
        let mut splices = Splices::default();
        splices.replace((4, 5), "X");
        splices.insert(0, ">");
        splices.remove((1, 3));
        splices.insert(0, ">");
        assert_eq!(splices.apply("abcdef"), ">>adXf");
    }

    #[test]
    fn edits_inside_a_removed_span_are_dropped() {
        let mut splices = Splices::default();
        splices.insert(2, "lost");
        splices.remove((1, 4));
        splices.insert(1, "<");
        splices.insert(4, ">");
        assert_eq!(splices.apply("abcdef"), "a<>ef");
    }
}
