//! The readable template of a message, and its hash, built side by side.

use std::fmt;

use crate::hash::Fnv;

/// A template is for reading; the hash goes on.
const SHOWN_BYTES: usize = 300;
/// Beyond this a message no longer tells failures apart.
const HASHED_BYTES: usize = 1024;

/// A part of a message that was masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedPart {
    pub original: String,
    pub mask: Mask,
}

#[derive(Debug)]
pub(super) struct Template {
    text: String,
    hash: Fnv,
    hashed: usize,
    /// What came last, to fold `‹n›, ‹n›, ‹n›` into one: lists differ in length.
    tail: Tail,
    parts: Option<Vec<MaskedPart>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    Start,
    Plain,
    Mask,
    /// A mask and then nothing but commas and spaces, held back until it is known what follows.
    MaskThen(Separator),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Space,
    Comma,
    CommaSpace,
}

impl Separator {
    fn as_str(self) -> &'static str {
        match self {
            Self::Space => " ",
            Self::Comma => ",",
            Self::CommaSpace => ", ",
        }
    }
}

impl Template {
    pub(super) fn new() -> Self {
        Self { text: String::with_capacity(SHOWN_BYTES), hash: Fnv::new(), hashed: 0, tail: Tail::Start, parts: None }
    }

    pub(super) fn recording() -> Self {
        Self { parts: Some(Vec::new()), ..Self::new() }
    }

    pub(super) fn plain(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let separator = match text {
            " " => Some(Separator::Space),
            "," => Some(Separator::Comma),
            ", " => Some(Separator::CommaSpace),
            _ => None,
        };
        match (self.tail, separator) {
            (Tail::Mask, Some(separator)) => return self.tail = Tail::MaskThen(separator),
            (Tail::MaskThen(Separator::Comma), Some(Separator::Space)) => {
                return self.tail = Tail::MaskThen(Separator::CommaSpace);
            }
            (Tail::MaskThen(held), _) => self.write(held.as_str(), held.as_str()),
            (Tail::Start | Tail::Plain | Tail::Mask, _) => {}
        }
        self.write(text, text);
        self.tail = Tail::Plain;
    }

    /// One space, however many the message has.
    pub(super) fn space(&mut self) {
        let spaced = matches!(self.tail, Tail::Plain) && self.text.ends_with(' ');
        if self.tail != Tail::Start && !spaced {
            self.plain(" ");
        }
    }

    pub(super) fn mask(&mut self, mask: Mask, original: &str) {
        if let Some(parts) = &mut self.parts {
            parts.push(MaskedPart { original: original.to_owned(), mask });
        }
        if matches!(self.tail, Tail::Mask | Tail::MaskThen(_)) {
            self.tail = Tail::Mask;
            return;
        }
        // For the hash every mask is the same: an id of digits only is still an id.
        self.write(mask.as_str(), "\u{1}");
        self.tail = Tail::Mask;
    }

    fn write(&mut self, shown: &str, hashed: &str) {
        if self.text.len() + shown.len() <= SHOWN_BYTES {
            self.text.push_str(shown);
        }
        let room = HASHED_BYTES.saturating_sub(self.hashed).min(hashed.len());
        self.hash.write(&hashed.as_bytes()[..room]);
        self.hashed += room;
    }

    pub(super) fn is_full(&self) -> bool {
        self.hashed >= HASHED_BYTES
    }

    pub(super) fn is_blank(&self) -> bool {
        self.hashed == 0
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub(super) fn into_text(self) -> String {
        let end = self.text.trim_end().len();
        let mut text = self.text;
        text.truncate(end);
        text
    }

    pub(super) fn into_parts(self) -> Vec<MaskedPart> {
        self.parts.unwrap_or_default()
    }
}

/// What stood where a template shows `‹…›`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    Number,
    Id,
    Url,
    Path,
    Host,
    Email,
    Model,
    Text,
    Name,
    Flag,
}

impl Mask {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Number => "‹n›",
            Self::Id => "‹id›",
            Self::Url => "‹url›",
            Self::Path => "‹path›",
            Self::Host => "‹host›",
            Self::Email => "‹email›",
            Self::Model => "‹model›",
            Self::Text => "‹text›",
            Self::Name => "‹name›",
            Self::Flag => "‹flag›",
        }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
