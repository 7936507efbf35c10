//! The places of all values of a JSON text, in the order in which they stand.

use std::borrow::Cow;

use crate::json::scan::scan;
use crate::text::decode_token;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    String,
    /// A number, `true`, `false` or `null`.
    Other,
}

/// A value: its number in the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(pub(super) u32);

#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The number of the next value that is not inside this one.
    pub(super) after: u32,
    pub(super) kind: Kind,
}

/// A JSON text and where its values lie.
#[derive(Debug)]
pub struct Tape<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Tape<'a> {
    /// None for what is not JSON, or has more values than anybody should walk.
    pub fn of(text: &'a str) -> Option<Self> {
        Some(Self { text, nodes: scan(text.as_bytes())? })
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    pub fn root(&self) -> At {
        At(0)
    }

    pub fn kind(&self, at: At) -> Kind {
        self.node(at).kind
    }

    /// Where it begins and ends in the text.
    pub fn span(&self, at: At) -> (usize, usize) {
        let node = self.node(at);
        (node.start as usize, node.end as usize)
    }

    /// The value as it is written.
    pub fn raw(&self, at: At) -> &'a str {
        let (start, end) = self.span(at);
        self.text.get(start..end).unwrap_or_default()
    }

    /// A string for reading; none for anything else.
    pub fn string(&self, at: At) -> Option<Cow<'a, str>> {
        (self.kind(at) == Kind::String).then(|| decode_token(self.raw(at)))
    }

    pub fn is_null(&self, at: At) -> bool {
        self.raw(at) == "null"
    }

    /// A whole number; none for anything else.
    pub fn whole(&self, at: At) -> Option<u64> {
        (self.kind(at) == Kind::Other).then(|| self.raw(at).parse().ok())?
    }

    /// The values of an array; nothing for anything else.
    pub fn items(&self, at: At) -> impl Iterator<Item = At> + '_ {
        let (next, end) = self.inside(at, Kind::Array);
        Children { tape: self, next, end }
    }

    /// The keys and values of an object; nothing for anything else.
    pub fn members(&self, at: At) -> impl Iterator<Item = (At, At)> + '_ {
        let (next, end) = self.inside(at, Kind::Object);
        let mut children = Children { tape: self, next, end };
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    /// The member of that name; of several the last, as most readers take it.
    pub fn get(&self, at: At, name: &str) -> Option<At> {
        self.members(at).filter(|(key, _)| self.is_key(*key, name)).map(|(_, value)| value).last()
    }

    fn is_key(&self, key: At, name: &str) -> bool {
        let raw = self.raw(key);
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        inner == name || (inner.contains('\\') && decode_token(raw) == name)
    }

    /// What an RFC 6901 pointer leads to from `at`.
    pub fn pointer(&self, at: At, pointer: &str) -> Option<At> {
        if pointer.is_empty() {
            return Some(at);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(at, |at, part| {
            let part = part.replace("~1", "/").replace("~0", "~");
            match self.kind(at) {
                Kind::Object => self.get(at, &part),
                Kind::Array => self.items(at).nth(part.parse().ok()?),
                Kind::String | Kind::Other => None,
            }
        })
    }

    fn node(&self, at: At) -> Node {
        const NOTHING: Node = Node { start: 0, end: 0, after: u32::MAX, kind: Kind::Other };
        self.nodes.get(at.0 as usize).copied().unwrap_or(NOTHING)
    }

    fn inside(&self, at: At, kind: Kind) -> (u32, u32) {
        let node = self.node(at);
        if node.kind == kind { (at.0 + 1, node.after) } else { (0, 0) }
    }
}

struct Children<'t, 'a> {
    tape: &'t Tape<'a>,
    next: u32,
    end: u32,
}

impl Iterator for Children<'_, '_> {
    type Item = At;

    fn next(&mut self) -> Option<At> {
        if self.next >= self.end {
            return None;
        }
        let at = At(self.next);
        self.next = self.tape.node(at).after;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_where_they_lie() {
        let text = r#" {"a": [1, "x\"y", {"deep": 12345678901234567890.10}], "b\u0041": null, "a": 2}"#;
        let tape = Tape::of(text).unwrap();
        let root = tape.root();
        let list = tape.members(root).next().unwrap().1;
        assert_eq!(tape.items(list).map(|at| tape.raw(at)).collect::<Vec<_>>()[1], r#""x\"y""#);
        assert_eq!(tape.raw(tape.get(root, "a").unwrap()), "2", "the last of a name counts");
        assert!(tape.is_null(tape.get(root, "bA").unwrap()));
        assert_eq!(tape.get(root, "c"), None);
    }

    #[test]
    fn pointers_lead_through_objects_and_arrays() {
        let tape = Tape::of(r#"{"a/b": [{"m~n": 7}]}"#).unwrap();
        let at = tape.pointer(tape.root(), "/a~1b/0/m~0n").unwrap();
        assert_eq!(tape.whole(at), Some(7));
        assert_eq!(tape.pointer(tape.root(), ""), Some(tape.root()));
        for nowhere in ["/a~1b/1", "/a~1b/x", "/a", "a", "/a~1b/0/m~0n/z"] {
            assert_eq!(tape.pointer(tape.root(), nowhere), None, "{nowhere}");
        }
    }
}
