//! From a pointer to the bytes it names.

use std::ops::Range;

use super::apply::Why;
use super::pointer::index;
use super::scan::{Entry, Kind, after_space, entries, kind, value_end};
use super::work::Work;
use crate::text::decode_token;

/// The value that `names` lead to, in one pass however deep it lies. Where an object has a key twice the last one counts,
/// so that every object on the way is read to its end.
pub(super) fn find(text: &str, names: &[String], work: &mut Work) -> Result<Option<Range<usize>>, Why> {
    work.look(text.len())?;
    Ok(Finder { text, names, open: Vec::new(), found: None }.run())
}

/// Reads along the way that the names lead and steps over everything beside it.
struct Finder<'a> {
    text: &'a str,
    names: &'a [String],
    /// The objects and lists around the place at hand, each on the way, with how many entries of it were passed.
    open: Vec<(Kind, usize)>,
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
    fn entry(&mut self, kind: Kind, at: usize, start: usize) -> usize {
        let Some(name) = self.names.get(self.open.len() - 1) else { return self.text.len() };
        let (value, wanted) = match kind {
            Kind::Object => {
                let end = value_end(self.text, start);
                // Past the colon.
                let value = after_space(self.text, after_space(self.text, end) + 1);
                (value, decode_token(&self.text[start..end]) == *name)
            }
            Kind::List | Kind::Plain => (start, index(name) == Some(at)),
        };
        if wanted { self.value(value) } else { value_end(self.text, value) }
    }

    /// A value on the way: what is looked for, the next container to read, or a dead end.
    fn value(&mut self, start: usize) -> usize {
        self.found = None;
        let kind = kind(self.text, start);
        if self.open.len() < self.names.len() && kind != Kind::Plain {
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
