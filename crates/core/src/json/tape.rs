//! An index of a JSON text: where each value lies, in document order, found in one pass without copying.

use std::borrow::Cow;

use memchr::memchr2;

use crate::text::decode_token;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    Object,
    Array,
    String,
    /// A number, `true`, `false` or `null`.
    Other,
}

/// A value: its number in the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(u32);

#[derive(Debug, Clone, Copy)]
struct Node {
    start: u32,
    end: u32,
    /// The number of the next value that is not inside this one.
    after: u32,
    kind: JsonKind,
}

/// A JSON text and where its values lie.
#[derive(Debug)]
pub struct Tape<'a> {
    text: &'a str,
    nodes: Vec<Node>,
}

impl<'a> Tape<'a> {
    /// None for text that is not JSON or has too many values.
    pub fn of(text: &'a str) -> Option<Self> {
        Some(Self { text, nodes: scan(text.as_bytes())? })
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    pub fn root(&self) -> At {
        At(0)
    }

    pub fn kind(&self, at: At) -> JsonKind {
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
        (self.kind(at) == JsonKind::String).then(|| decode_token(self.raw(at)))
    }

    pub fn is_null(&self, at: At) -> bool {
        self.raw(at) == "null"
    }

    /// A whole number; none for anything else.
    pub fn whole(&self, at: At) -> Option<u64> {
        (self.kind(at) == JsonKind::Other).then(|| self.raw(at).parse().ok())?
    }

    /// The values of an array; nothing for anything else.
    pub fn items(&self, at: At) -> impl Iterator<Item = At> + '_ {
        let (next, end) = self.inside(at, JsonKind::Array);
        Children { tape: self, next, end }
    }

    /// The keys and values of an object; nothing for anything else.
    pub fn members(&self, at: At) -> impl Iterator<Item = (At, At)> + '_ {
        let (next, end) = self.inside(at, JsonKind::Object);
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
                JsonKind::Object => self.get(at, &part),
                JsonKind::Array => self.items(at).nth(part.parse().ok()?),
                JsonKind::String | JsonKind::Other => None,
            }
        })
    }

    fn node(&self, at: At) -> Node {
        const NOTHING: Node = Node { start: 0, end: 0, after: u32::MAX, kind: JsonKind::Other };
        self.nodes.get(at.0 as usize).copied().unwrap_or(NOTHING)
    }

    fn inside(&self, at: At, kind: JsonKind) -> (u32, u32) {
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

/// More values than this are refused: at sixteen bytes each, an index must not fill the memory.
const VALUES_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 128;

/// Checks that brackets, commas and quotes fit. What a number or an escape holds is left to its reader.
fn scan(text: &[u8]) -> Option<Vec<Node>> {
    if u32::try_from(text.len()).is_err() {
        return None;
    }
    let mut scanner = Indexer { text, at: 0, nodes: Vec::new() };
    scanner.value(0)?;
    scanner.space();
    (scanner.at == text.len()).then_some(scanner.nodes)
}

struct Indexer<'a> {
    text: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Indexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        self.space();
        if depth > DEPTH_MAX || self.nodes.len() >= VALUES_MAX {
            return None;
        }
        let kind = match self.peek()? {
            b'{' => JsonKind::Object,
            b'[' => JsonKind::Array,
            b'"' => JsonKind::String,
            _ => JsonKind::Other,
        };
        let (number, start) = (self.nodes.len(), self.at);
        self.nodes.push(Node { start: u32::try_from(start).ok()?, end: 0, after: 0, kind });
        match kind {
            JsonKind::Object => self.inside(b'}', depth, true)?,
            JsonKind::Array => self.inside(b']', depth, false)?,
            JsonKind::String => self.string()?,
            JsonKind::Other => self.other()?,
        }
        let (end, after) = (u32::try_from(self.at).ok()?, u32::try_from(self.nodes.len()).ok()?);
        let node = self.nodes.get_mut(number)?;
        (node.end, node.after) = (end, after);
        Some(())
    }

    /// What stands between brackets, with commas in between.
    fn inside(&mut self, close: u8, depth: usize, keyed: bool) -> Option<()> {
        self.at += 1;
        self.space();
        if self.peek()? == close {
            self.at += 1;
            return Some(());
        }
        loop {
            if keyed {
                self.space();
                (self.peek()? == b'"').then_some(())?;
                self.value(depth + 1)?;
                self.space();
                (self.peek()? == b':').then_some(())?;
                self.at += 1;
            }
            self.value(depth + 1)?;
            self.space();
            let next = self.peek()?;
            self.at += 1;
            match next {
                b',' => {}
                _ if next == close => return Some(()),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        self.at += end_of_string(self.text.get(self.at..)?)?;
        Some(())
    }

    fn other(&mut self) -> Option<()> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.')) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

// A search for the next quote is fastest where escapes are few. JSON inside a string has one every few bytes, so from the
// first escape on, 64 bytes are examined at a time.
const ONES: u64 = 0x0101_0101_0101_0101;
const LOW_BITS: u64 = 0x7f * ONES;
/// Every other byte of a block, the first one included.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// The position behind the closing quote of a string whose content begins with `text`.
pub(super) fn end_of_string(text: &[u8]) -> Option<usize> {
    let first = memchr2(b'"', b'\\', text)?;
    if text[first] == b'"' {
        return Some(first + 1);
    }
    let (blocks, rest) = text[first..].as_chunks::<64>();
    let mut escaped = false;
    for (number, block) in blocks.iter().enumerate() {
        let closing = closing_quotes(block, &mut escaped);
        if closing != 0 {
            return Some(first + 64 * number + closing.trailing_zeros() as usize + 1);
        }
    }
    for (at, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'"' => return Some(text.len() - rest.len() + at + 1),
            b'\\' => escaped = true,
            _ => {}
        }
    }
    None
}

/// The quotes of a block that no backslash takes back, a bit each. `escaped` says of the first byte, and is left to say of
/// the one after the block.
fn closing_quotes(block: &[u8; 64], escaped: &mut bool) -> u64 {
    let (mut quotes, mut slashes) = (0, 0);
    for (number, eight) in block.as_chunks::<8>().0.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        quotes |= bytes_that_are(word, b'"') << (8 * number);
        slashes |= bytes_that_are(word, b'\\') << (8 * number);
    }
    quotes & !escaped_bytes(slashes, escaped)
}

/// The bytes that stand behind an odd number of backslashes. Adding a row of set bits to its own first bit carries out of
/// the row's end, so one addition goes along all rows at once; rows that begin at odd places are the ones added to, and
/// what they carried out shows where the parity is the other way round.
fn escaped_bytes(slashes: u64, escaped: &mut bool) -> u64 {
    let before = u64::from(*escaped);
    let slashes = slashes & !before;
    let behind = slashes << 1 | before;
    let odd_rows = slashes & !EVEN & !behind;
    let (carried, beyond) = odd_rows.overflowing_add(slashes);
    *escaped = beyond;
    (EVEN ^ (carried << 1)) & behind
}

/// A bit for each of eight bytes, the first one lowest.
fn bytes_that_are(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(byte));
    let equal = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS);
    // Moves each byte's bit to a place of its own in the highest byte.
    (equal >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_indexed_by_position() {
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
    fn pointers_resolve_through_objects_and_arrays() {
        let tape = Tape::of(r#"{"a/b": [{"m~n": 7}]}"#).unwrap();
        let at = tape.pointer(tape.root(), "/a~1b/0/m~0n").unwrap();
        assert_eq!(tape.whole(at), Some(7));
        assert_eq!(tape.pointer(tape.root(), ""), Some(tape.root()));
        for nowhere in ["/a~1b/1", "/a~1b/x", "/a", "a", "/a~1b/0/m~0n/z"] {
            assert_eq!(tape.pointer(tape.root(), nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn malformed_json_is_refused() {
        for broken in
            ["", " ", "{", "[1,", "[1 2]", r#"{"a"}"#, r#"{a:1}"#, r#"{"a":1,}"#, r#""open"#, "1 2", "[1}", "]"]
        {
            assert!(scan(broken.as_bytes()).is_none(), "{broken}");
        }
        assert!(scan("[".repeat(100_000).as_bytes()).is_none());
        assert!(scan(format!("[{}0]", "0,".repeat(VALUES_MAX)).as_bytes()).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_indexed_or_refused(text in r#"[\[\]{}",:\\a0 u-]{0,40}"#) {
            let ours = scan(text.as_bytes()).is_some();
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            proptest::prop_assert!(ours || !theirs, "refused what is JSON: {text}");
        }
    }

    /// What [`end_of_string`] has to agree with.
    fn one_by_one(text: &[u8]) -> Option<usize> {
        let mut escaped = false;
        for (at, byte) in text.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'"' => return Some(at + 1),
                b'\\' => escaped = true,
                _ => {}
            }
        }
        None
    }

    proptest::proptest! {
        #[test]
        fn string_ends_match_a_bytewise_scan(text in r#"([ab\\é!#\[\]]|\\\\|\\"){0,150}"?[a"\\]{0,80}"#) {
            proptest::prop_assert_eq!(end_of_string(text.as_bytes()), one_by_one(text.as_bytes()));
        }

        #[test]
        fn backslash_runs_of_any_length_are_counted(before in 0_usize..130, slashes in 0_usize..140) {
            let text = format!("\\n{}{}\" and \"", "a".repeat(before), "\\".repeat(slashes));
            proptest::prop_assert_eq!(end_of_string(text.as_bytes()), one_by_one(text.as_bytes()));
        }
    }
}
