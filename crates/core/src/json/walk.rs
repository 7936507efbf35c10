//! A walk over a well-formed JSON text without an index: nothing is checked or allocated, and no depth can overflow the
//! stack. Use it where a payload may be larger or deeper than a [`super::Tape`] allows.

use std::ops::Range;

use super::JsonKind;
use super::tape::end_of_string;

/// An entry of an object or array, by byte range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntrySpan {
    /// With its quotes; none in an array.
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Range<usize>,
}

impl EntrySpan {
    pub(crate) fn start(&self) -> usize {
        self.key.as_ref().map_or(self.value.start, |key| key.start)
    }
}

/// The kind of the value that begins at `at`.
pub(crate) fn kind_at(text: &str, at: usize) -> JsonKind {
    match text.as_bytes().get(at) {
        Some(b'{') => JsonKind::Object,
        Some(b'[') => JsonKind::Array,
        Some(b'"') => JsonKind::String,
        Some(_) | None => JsonKind::Other,
    }
}

/// The entries of the object or array that begins at `at`; none for any other value.
pub(crate) fn entries(text: &str, at: usize) -> EntrySpans<'_> {
    let kind = kind_at(text, at);
    let next = match kind {
        JsonKind::Object | JsonKind::Array => at + 1,
        JsonKind::String | JsonKind::Other => text.len(),
    };
    EntrySpans { text, kind, next }
}

pub(crate) struct EntrySpans<'a> {
    text: &'a str,
    kind: JsonKind,
    next: usize,
}

impl Iterator for EntrySpans<'_> {
    type Item = EntrySpan;

    fn next(&mut self) -> Option<EntrySpan> {
        let at = after_space(self.text, self.next);
        if matches!(self.text.as_bytes().get(at), Some(b'}' | b']') | None) {
            self.next = self.text.len();
            return None;
        }
        let key = (self.kind == JsonKind::Object).then(|| at..value_end(self.text, at));
        let start = match &key {
            // Past the colon.
            Some(key) => after_space(self.text, after_space(self.text, key.end) + 1),
            None => at,
        };
        let end = value_end(self.text, start);
        let behind = after_space(self.text, end);
        let comma = self.text.as_bytes().get(behind) == Some(&b',');
        self.next = if comma { behind + 1 } else { self.text.len() };
        Some(EntrySpan { key, value: start..end })
    }
}

/// The first byte from `at` on that is not white space.
pub(crate) fn after_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b" \t\r\n".contains(b)).count()
}

/// One past the value that begins at `at`.
pub(crate) fn value_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b'{' | b'[') => container_end(bytes, at),
        Some(_) => {
            let ends = |b: &u8| b",]} \t\r\n".contains(b);
            at + bytes[at..].iter().position(ends).unwrap_or(bytes.len() - at)
        }
        None => bytes.len(),
    }
}

fn string_end(bytes: &[u8], at: usize) -> usize {
    let content = at + 1;
    bytes.get(content..).and_then(end_of_string).map_or(bytes.len(), |len| content + len)
}

fn container_end(bytes: &[u8], at: usize) -> usize {
    let (mut next, mut depth) = (at, 0_usize);
    while let Some(byte) = bytes.get(next) {
        match byte {
            b'"' => {
                next = string_end(bytes, next);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return next + 1;
                }
            }
            _ => {}
        }
        next += 1;
    }
    bytes.len()
}
