//! JSON Pointers (RFC 6901), and the bytes that they name.

use std::ops::Range;

use super::{Why, WorkBudget};
use crate::json::{EntrySpan, JsonKind, after_space, entries, kind_at, value_end};
use crate::text::decode_token;

/// A longer pointer is refused.
const POINTER_MAX_BYTES: usize = 8 * 1024;

/// A pointer's names, decoded. Empty: the whole document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    /// None when it is not a pointer.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        if text.len() > POINTER_MAX_BYTES {
            return None;
        }
        text.strip_prefix('/')?.split('/').map(name).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Where it is kept, and under which name; none for the whole document.
    pub(super) fn split(&self) -> Option<(&[String], &str)> {
        self.0.split_last().map(|(last, parents)| (parents, last.as_str()))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.0
    }

    /// Whether `other` is this place or lies within it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

fn name(escaped: &str) -> Option<String> {
    if !escaped.contains('~') {
        return Some(escaped.to_owned());
    }
    let mut out = String::with_capacity(escaped.len());
    let mut chars = escaped.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '~' => match chars.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

/// A list's index: digits without a leading zero.
pub(super) fn index(name: &str) -> Option<usize> {
    let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    (digits && (name == "0" || !name.starts_with('0'))).then(|| name.parse().ok()).flatten()
}

/// The value that `names` lead to, in one pass however deep it lies. Where an object has a key twice the last one counts,
/// so that every object on the way is read to its end.
pub(super) fn find(text: &str, names: &[String], work: &mut WorkBudget) -> Result<Option<Range<usize>>, Why> {
    work.look(text.len())?;
    Ok(Finder { text, names, open: Vec::new(), found: None }.run())
}

/// Reads along the way that the names lead and steps over everything beside it.
struct Finder<'a> {
    text: &'a str,
    names: &'a [String],
    /// The containers around the current position, each with how many of its entries were passed.
    open: Vec<(JsonKind, usize)>,
    found: Option<Range<usize>>,
}

impl Finder<'_> {
    fn run(mut self) -> Option<Range<usize>> {
        let mut next = self.value(0);
        while let Some((kind, passed)) = self.open.last_mut() {
            next = after_space(self.text, next);
            match self.text.as_bytes().get(next) {
                Some(b',') => next += 1,
                Some(b'}' | b']') => {
                    self.open.pop();
                    next += 1;
                }
                Some(_) => {
                    let (kind, at) = (*kind, *passed);
                    *passed += 1;
                    next = self.entry(kind, at, next);
                }
                None => return None,
            }
        }
        self.found
    }

    /// Past an entry, or into its value if that is on the way.
    fn entry(&mut self, kind: JsonKind, at: usize, start: usize) -> usize {
        let Some(name) = self.names.get(self.open.len() - 1) else { return self.text.len() };
        let (value, wanted) = match kind {
            JsonKind::Object => {
                let end = value_end(self.text, start);
                // Past the colon.
                let value = after_space(self.text, after_space(self.text, end) + 1);
                (value, decode_token(&self.text[start..end]) == *name)
            }
            JsonKind::Array | JsonKind::String | JsonKind::Other => (start, index(name) == Some(at)),
        };
        if wanted { self.value(value) } else { value_end(self.text, value) }
    }

    /// A value on the way: what is looked for, the next container to read, or a dead end.
    fn value(&mut self, start: usize) -> usize {
        self.found = None;
        let kind = kind_at(self.text, start);
        if self.open.len() < self.names.len() && matches!(kind, JsonKind::Object | JsonKind::Array) {
            self.open.push((kind, 0));
            return start + 1;
        }
        let end = value_end(self.text, start);
        if self.open.len() == self.names.len() {
            self.found = Some(start..end);
        }
        end
    }
}

/// The entry of that name. Where an object has a key twice, the last one: that is the one readers take.
pub(super) fn child(text: &str, container: usize, name: &str) -> Option<EntrySpan> {
    match kind_at(text, container) {
        JsonKind::Object => entries(text, container).filter(|entry| is_named(text, entry, name)).last(),
        JsonKind::Array => entries(text, container).nth(index(name)?),
        JsonKind::String | JsonKind::Other => None,
    }
}

pub(super) fn is_named(text: &str, entry: &EntrySpan, name: &str) -> bool {
    entry.key.as_ref().is_some_and(|key| decode_token(&text[key.clone()]) == name)
}

/// The bytes of one entry to take out, so that the commas around it still fit.
pub(super) fn cut(text: &str, container: usize, which: impl Fn(usize, &EntrySpan) -> bool) -> Option<Range<usize>> {
    let mut before: Option<EntrySpan> = None;
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
