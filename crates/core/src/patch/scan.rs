//! Where things are in a JSON text. The text is known to be well formed, so that nothing is checked, nothing is
//! allocated, and no depth can overrun a stack.

use std::ops::Range;

/// An entry of an object or a list, by its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// With its quotes; none in a list.
    pub(super) key: Option<Range<usize>>,
    pub(super) value: Range<usize>,
}

impl Entry {
    pub(super) fn start(&self) -> usize {
        self.key.as_ref().map_or(self.value.start, |key| key.start)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    List,
    Plain,
}

pub(super) fn kind(text: &str, at: usize) -> Kind {
    match text.as_bytes().get(at) {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::List,
        Some(_) | None => Kind::Plain,
    }
}

/// The entries of the object or list that begins at `at`, one after another; none of a plain value.
pub(super) fn entries(text: &str, at: usize) -> Entries<'_> {
    let kind = kind(text, at);
    let next = if kind == Kind::Plain { text.len() } else { at + 1 };
    Entries { text, kind, next }
}

pub(super) struct Entries<'a> {
    text: &'a str,
    kind: Kind,
    next: usize,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let at = after_space(self.text, self.next);
        if matches!(self.text.as_bytes().get(at), Some(b'}' | b']') | None) {
            self.next = self.text.len();
            return None;
        }
        let key = (self.kind == Kind::Object).then(|| at..value_end(self.text, at));
        let start = match &key {
            // Past the colon.
            Some(key) => after_space(self.text, after_space(self.text, key.end) + 1),
            None => at,
        };
        let end = value_end(self.text, start);
        let behind = after_space(self.text, end);
        let comma = self.text.as_bytes().get(behind) == Some(&b',');
        self.next = if comma { behind + 1 } else { self.text.len() };
        Some(Entry { key, value: start..end })
    }
}

/// The first byte from `at` on that is not white space.
pub(super) fn after_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b" \t\r\n".contains(b)).count()
}

/// One past the value that begins at `at`.
pub(super) fn value_end(text: &str, at: usize) -> usize {
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
    let mut next = at + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(next..).unwrap_or_default()) {
        next += found;
        if bytes[next] == b'"' {
            return next + 1;
        }
        next += 2;
    }
    bytes.len()
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
