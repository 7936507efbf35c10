//! Redaction of JSON by secret shapes, object keys and JSON pointers. It edits by position: what is not masked keeps its
//! bytes. One pass with a stack of its own, so no size and no depth of a payload escapes it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::shapes::{self, MARK_START};
use super::{mark, mask, mask_token};
use crate::json::{Splices, Tape, escape_pointer, value_end};
use crate::text::decode_token;

/// A masked part of a run's payload or headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RedactedPart {
    /// A JSON pointer into the payload, or `header:` and a name.
    pub at: String,
    /// What it was: a kind of secret, `key` or `pointer`.
    pub kind: String,
}

/// More are masked, but not listed.
pub const PARTS_MAX: usize = 100;

/// What is masked in a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redactor {
    /// Well-known secret shapes.
    pub secrets: bool,
    /// Object keys at any depth, in any case.
    pub keys: Vec<String>,
    /// RFC 6901.
    pub pointers: Vec<String>,
}

/// A redacted text, and what was masked in it.
pub type RedactedJson = (String, Vec<RedactedPart>);

impl Redactor {
    /// Well-known secrets only.
    pub fn of_secrets() -> Self {
        Self { secrets: true, ..Self::default() }
    }

    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    pub fn is_key(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.eq_ignore_ascii_case(name))
    }

    /// The same without pointers, which belong to payloads.
    #[must_use]
    pub fn without_pointers(&self) -> Self {
        Self { pointers: Vec::new(), ..self.clone() }
    }

    /// A well-formed JSON text; none where nothing is masked.
    pub fn json(&self, text: &str) -> Option<RedactedJson> {
        let may_hide = |text: &str| text.contains("\\u") || text.contains("\\/") || shapes::has_anchor(text);
        if self.keys.is_empty() && self.pointers.is_empty() && !(self.secrets && may_hide(text)) {
            return None;
        }
        let mut walk = Walk::new(self, text);
        walk.all();
        let Walk { edits, parts, .. } = walk;
        (!edits.is_empty()).then(|| (edits.apply(text), parts))
    }

    /// Bytes that are JSON or other text; what is no UTF-8 has no shape that could be found.
    pub fn bytes(&self, bytes: &[u8]) -> Option<(Vec<u8>, Vec<RedactedPart>)> {
        let text = std::str::from_utf8(bytes).ok()?;
        if serde_json::from_str::<&RawValue>(text).is_ok() {
            return self.json(text).map(|(text, parts)| (text.into_bytes(), parts));
        }
        if !self.secrets {
            return None;
        }
        match mask(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => {
                let kind = shapes::find(text).first().map_or("secret", |secret| secret.kind).to_owned();
                Some((masked.into_bytes(), vec![RedactedPart { at: String::new(), kind }]))
            }
        }
    }
}

/// JSON for a page: well-known secrets are masked.
pub fn shown_json(text: &str) -> Cow<'_, str> {
    Redactor::of_secrets().json(text).map_or(Cow::Borrowed(text), |(masked, _)| Cow::Owned(masked))
}

/// Puts the masked values of `original` back into a text that a person edited as [`shown_json`] showed it: a marked string
/// in its old place, or anywhere if only one value looked like it.
pub fn restore(edited: &str, original: &str) -> String {
    let Some((masked, parts)) = Redactor::of_secrets().json(original) else { return edited.to_owned() };
    let (Some(old), Some(shown), Some(new)) = (Tape::of(original), Tape::of(&masked), Tape::of(edited)) else {
        return edited.to_owned();
    };
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut edits = Splices::default();
    for RedactedPart { at, .. } in &parts {
        let (Some(was), Some(mark)) = (old.pointer(old.root(), at), shown.pointer(shown.root(), at)) else { continue };
        values.entry(shown.raw(mark)).or_default().insert(old.raw(was));
        if let Some(is) = new.pointer(new.root(), at).filter(|is| new.raw(*is) == shown.raw(mark)) {
            edits.replace(new.span(is), old.raw(was));
        }
    }
    let mut restored = edits.apply(edited);
    for (mark, was) in values {
        if let (Some(was), 1) = (was.first(), was.len()) {
            restored = restored.replace(mark, was);
        }
    }
    restored
}

/// An object or array that is being read.
struct Level {
    is_object: bool,
    /// The next string is a key.
    at_key: bool,
    /// The current member's key, with its quotes.
    key: Range<usize>,
    /// The current item's number.
    index: usize,
}

struct Walk<'a> {
    by: &'a Redactor,
    /// The segments of each pointer.
    pointers: Vec<Vec<String>>,
    text: &'a str,
    levels: Vec<Level>,
    edits: Splices,
    parts: Vec<RedactedPart>,
}

impl<'a> Walk<'a> {
    fn new(by: &'a Redactor, text: &'a str) -> Self {
        let segments = |pointer: &String| match pointer.strip_prefix('/') {
            Some(rest) => rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect(),
            None => Vec::new(),
        };
        let pointers = by.pointers.iter().map(segments).collect();
        Self { by, pointers, text, levels: Vec::new(), edits: Splices::default(), parts: Vec::new() }
    }

    fn all(&mut self) {
        let mut at = 0;
        while let Some(byte) = self.text.as_bytes().get(at) {
            at = match byte {
                b' ' | b'\t' | b'\r' | b'\n' => at + 1,
                b':' => {
                    self.with_level(|level| level.at_key = false);
                    at + 1
                }
                b',' => {
                    self.with_level(|level| (level.at_key, level.index) = (level.is_object, level.index + 1));
                    at + 1
                }
                b'}' | b']' => {
                    self.levels.pop();
                    at + 1
                }
                b'"' if self.levels.last().is_some_and(|level| level.at_key) => self.key(at),
                _ => self.value(at),
            };
        }
    }

    fn with_level(&mut self, change: impl FnOnce(&mut Level)) {
        if let Some(level) = self.levels.last_mut() {
            change(level);
        }
    }

    fn key(&mut self, at: usize) -> usize {
        let end = value_end(self.text, at);
        self.with_level(|level| level.key = at..end);
        if self.by.secrets
            && let Some(masked) = mask_token(&self.text[at..end])
        {
            self.mask((at, end), masked, "secret");
        }
        end
    }

    /// Answers where to continue: inside of a container that is not masked.
    fn value(&mut self, at: usize) -> usize {
        let byte = self.text.as_bytes()[at];
        if let Some(kind) = self.masks_whole(at) {
            let end = value_end(self.text, at);
            if !self.text[at..end].starts_with("\"[redacted:") {
                self.mask((at, end), format!("\"{}\"", mark(&kind)), &kind);
            }
            return end;
        }
        if let b'{' | b'[' = byte {
            let is_object = byte == b'{';
            self.levels.push(Level { is_object, at_key: is_object, key: 0..0, index: 0 });
            return at + 1;
        }
        let end = value_end(self.text, at).max(at + 1);
        if byte == b'"'
            && self.by.secrets
            && let Some(masked) = mask_token(&self.text[at..end])
        {
            let kind = shapes::find(&decode_token(&self.text[at..end])).first().map_or("secret", |found| found.kind);
            self.mask((at, end), masked, kind);
        }
        end
    }

    /// The kind of mark, where the value goes as a whole.
    fn masks_whole(&self, at: usize) -> Option<String> {
        if self.pointers.iter().any(|pointer| self.is_at(pointer)) {
            return Some("pointer".to_owned());
        }
        let level = self.levels.last().filter(|level| level.is_object)?;
        let name = decode_token(&self.text[level.key.clone()]);
        if self.by.is_key(&name) {
            return Some("key".to_owned());
        }
        if !self.by.secrets || self.text.as_bytes()[at] != b'"' {
            return None;
        }
        let value = decode_token(&self.text[at..value_end(self.text, at)]);
        if value.is_empty() || value.starts_with(MARK_START) {
            return None;
        }
        shapes::secret_header(&name).or_else(|| shapes::assigned_to(&name, &value)).map(str::to_owned)
    }

    fn is_at(&self, pointer: &[String]) -> bool {
        pointer.len() == self.levels.len()
            && self.levels.iter().zip(pointer).all(|(level, part)| match level.is_object {
                true => decode_token(&self.text[level.key.clone()]) == part.as_str(),
                false => part.parse() == Ok(level.index),
            })
    }

    fn mask(&mut self, span: (usize, usize), by: String, kind: &str) {
        self.edits.replace(span, by);
        if self.parts.len() < PARTS_MAX {
            let part = RedactedPart { at: self.pointer(), kind: kind.to_owned() };
            self.parts.push(part);
        }
    }

    /// Where the walk is. Secrets in names stay out of it.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for level in &self.levels {
            pointer.push('/');
            match level.is_object {
                true => {
                    let name = decode_token(&self.text[level.key.clone()]);
                    pointer.push_str(&escape_pointer(&mask(&name)));
                }
                false => pointer.push_str(&level.index.to_string()),
            }
        }
        pointer
    }
}
