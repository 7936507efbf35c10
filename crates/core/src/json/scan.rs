//! One pass over the bytes. It checks that brackets, commas and quotes fit; what a number or an escape holds is left to
//! whoever reads it.

use crate::json::quoted::end_of_string;
use crate::json::tape::{Kind, Node};

/// More values than this are not walked: sixteen bytes each must not become a way to fill the memory.
const VALUES_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 128;

pub(super) fn scan(text: &[u8]) -> Option<Vec<Node>> {
    if u32::try_from(text.len()).is_err() {
        return None;
    }
    let mut scanner = Scanner { text, at: 0, nodes: Vec::new() };
    scanner.value(0)?;
    scanner.space();
    (scanner.at == text.len()).then_some(scanner.nodes)
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Scanner<'_> {
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
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            _ => Kind::Other,
        };
        let (number, start) = (self.nodes.len(), self.at);
        self.nodes.push(Node { start: u32::try_from(start).ok()?, end: 0, after: 0, kind });
        match kind {
            Kind::Object => self.inside(b'}', depth, true)?,
            Kind::Array => self.inside(b']', depth, false)?,
            Kind::String => self.string()?,
            Kind::Other => self.other()?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_broken_is_refused() {
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
        fn any_bytes_are_read_or_refused_without_a_panic(text in r#"[\[\]{}",:\\a0 u-]{0,40}"#) {
            let ours = scan(text.as_bytes()).is_some();
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            proptest::prop_assert!(ours || !theirs, "refused what is JSON: {text}");
        }
    }
}
