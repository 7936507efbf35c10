//! The evidence as the matcher reads it: letters and digits only, in lower case. That makes `DEADLINE_EXCEEDED`,
//! `DeadlineExceeded` and `deadline exceeded` one text; the boundary kept with each letter remembers where words begin, so
//! that `eof` is not found in `the offset`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::evidence::Evidence;
use super::text::{self, LineKind};

/// How much of a field is read, from its head and its tail: an error says what it is at one of its ends.
const HEAD_BYTES: usize = 12 * 1024;
const TAIL_BYTES: usize = 12 * 1024;
const BODY_BYTES: usize = 8 * 1024;

/// Lines that log progress lose against lines that report the error.
const LOG_NOISE: i16 = -15;
/// What follows "During handling of the above exception" wraps what came before.
const WRAPPER: i16 = -2;
/// What follows "Caused by:" is nearer to the root.
const CAUSE: i16 = 2;

/// A frame names code, not the error. It decides nothing, but it may tell what a wording means: a file missing under
/// `subprocess` is a missing program.
const FRAMES: i16 = -1000;

const TELLING_PACKAGES: [&str; 5] = ["subprocess", "openai", "anthropic", "litellm", "genai"];
/// Prepared once: a trace has many frames, and preparing a search costs more than running it.
static PACKAGE_FINDERS: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| TELLING_PACKAGES.map(Finder::new));

/// The field of the evidence that a span comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvidenceField {
    ErrorType,
    FinishReason,
    Text,
    Detail,
    Body,
}

impl EvidenceField {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ErrorType => "error type",
            Self::FinishReason => "finish reason",
            Self::Text => "text",
            Self::Detail => "detail",
            Self::Body => "response body",
        }
    }
}

/// A part of the text, and what its origin adds to the rank of a match in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextSpan {
    pub(super) start: usize,
    pub(super) field: EvidenceField,
    pub(super) adjust: i16,
}

/// The evidence as letters and digits in lower case, without stack frames.
#[derive(Debug, Default)]
pub(super) struct NormalizedText {
    pub(super) letters: Vec<u8>,
    /// How each letter joins the one before.
    pub(super) boundaries: Vec<Boundary>,
    pub(super) spans: Vec<TextSpan>,
    /// Lines left out as stack frames.
    pub(super) frames: usize,
    /// Packages that the frames have named.
    packages: [bool; 5],
}

impl NormalizedText {
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        let mut page = Self::default();
        page.letters.reserve(evidence.text.len().min(HEAD_BYTES + TAIL_BYTES) + 64);
        page.boundaries.reserve(page.letters.capacity());
        if let Some(error_type) = evidence.error_type {
            page.add(EvidenceField::ErrorType, text::head(error_type, 512));
        }
        if let Some(finish) = evidence.finish_reason {
            page.add_line(EvidenceField::FinishReason, 0, "finish reason");
            page.push_words(text::head(finish, 128));
        }
        page.add_ends(EvidenceField::Text, evidence.text);
        if let Some(detail) = evidence.detail {
            page.add_ends(EvidenceField::Detail, detail);
        }
        if let Some(body) = evidence.response_body {
            page.add(EvidenceField::Body, text::head(body, BODY_BYTES));
        }
        page.close();
        page
    }

    /// The span a position lies in.
    pub(super) fn span_at(&self, position: usize) -> Option<&TextSpan> {
        let after = self.spans.partition_point(|s| s.start <= position);
        self.spans.get(after.checked_sub(1)?)
    }

    fn add_ends(&mut self, field: EvidenceField, all: &str) {
        let (head, tail) = text::ends(all, HEAD_BYTES, TAIL_BYTES);
        self.add(field, head);
        self.add(field, tail);
    }

    fn add(&mut self, field: EvidenceField, part: &str) {
        let base = match field {
            EvidenceField::ErrorType | EvidenceField::FinishReason | EvidenceField::Text => 0,
            EvidenceField::Detail | EvidenceField::Body => -1,
        };
        let mut depth = 0;
        for (line, kind) in text::Lines::new(part) {
            match kind {
                LineKind::Frame | LineKind::Code => {
                    self.frames += 1;
                    self.add_frame(field, line);
                }
                LineKind::Wraps => depth += WRAPPER,
                LineKind::Cause => {
                    depth += CAUSE;
                    self.add_line(field, base + depth, line);
                }
                LineKind::LogNoise => self.add_line(field, base + LOG_NOISE, line),
                LineKind::Plain => self.add_line(field, base + depth, line),
            }
        }
    }

    /// Of a frame only the telling packages count, each once.
    fn add_frame(&mut self, field: EvidenceField, line: &str) {
        for (number, package) in TELLING_PACKAGES.iter().enumerate() {
            if !self.packages[number] && PACKAGE_FINDERS[number].find(line.as_bytes()).is_some() {
                self.packages[number] = true;
                self.add_line(field, FRAMES, package);
            }
        }
    }

    fn add_line(&mut self, field: EvidenceField, adjust: i16, line: &str) {
        let same = self.spans.last().is_some_and(|s| s.field == field && s.adjust == adjust);
        if !same {
            self.close();
            self.spans.push(TextSpan { start: self.letters.len(), field, adjust });
        }
        self.push_words(line);
    }

    /// Nothing may match across two spans.
    fn close(&mut self) {
        self.letters.push(0);
        self.boundaries.push(Boundary::Gap);
    }

    fn push_words(&mut self, line: &str) {
        normalize(line, &mut self.letters, &mut self.boundaries);
    }
}

/// What separates a letter from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boundary {
    /// Inside a word.
    Inside,
    /// A hump of camel case.
    Hump,
    /// One `_` or `-` stands between: both are parts of one name.
    Joined,
    /// Something stands between: a space, a sign, the end of a line.
    Gap,
}

/// Letters and digits in lower case, each with how it joins the one before.
/// Escapes of JSON strings and terminal colours count as gaps.
pub(super) fn normalize(line: &str, letters: &mut Vec<u8>, boundaries: &mut Vec<Boundary>) {
    // One allocation for the line instead of a check for every letter.
    let already = letters.len();
    letters.resize(already + line.len(), 0);
    boundaries.resize(already + line.len(), Boundary::Inside);
    let written = already + normalize_into(line, &mut letters[already..], &mut boundaries[already..]);
    letters.truncate(written);
    boundaries.truncate(written);
}

/// Writes into slices as long as the line; returns how much was written.
fn normalize_into(line: &str, letters: &mut [u8], boundaries: &mut [Boundary]) -> usize {
    let bytes = line.as_bytes();
    let (mut written, mut at) = (0, 0);
    let (mut boundary, mut before) = (Boundary::Gap, Previous::Other);
    while at < bytes.len() && written < letters.len() && written < boundaries.len() {
        let byte = bytes[at];
        at += 1;
        match BYTE_KINDS[usize::from(byte)] {
            ByteKind::Lower => {
                (letters[written], boundaries[written]) = (byte, boundary);
                written += 1;
                (boundary, before) = (Boundary::Inside, Previous::Lower);
            }
            ByteKind::Digit => {
                (letters[written], boundaries[written]) = (byte, boundary);
                written += 1;
                (boundary, before) = (Boundary::Inside, Previous::Other);
            }
            ByteKind::Upper => {
                let next_is_lower = || bytes.get(at).is_some_and(u8::is_ascii_lowercase);
                let hump = before == Previous::Lower || (before == Previous::Upper && next_is_lower());
                (letters[written], boundaries[written]) = (byte | 0x20, if hump { Boundary::Hump } else { boundary });
                written += 1;
                (boundary, before) = (Boundary::Inside, Previous::Upper);
            }
            ByteKind::Glue => {
                boundary = if boundary == Boundary::Inside { Boundary::Joined } else { Boundary::Gap };
                before = Previous::Other;
            }
            ByteKind::Gap => (boundary, before) = (Boundary::Gap, Previous::Other),
            ByteKind::Escape => {
                at += if byte == b'\\' { escape_len(&bytes[at..]) } else { colour_len(&bytes[at..]) };
                (boundary, before) = (Boundary::Gap, Previous::Other);
            }
            ByteKind::Wide => {
                let width = bytes[at..].iter().take_while(|b| (0x80..0xc0).contains(*b)).count();
                // Letters of other scripts stand for themselves; typographic quotes and dashes are gaps.
                if line.get(at - 1..).and_then(|rest| rest.chars().next()).is_some_and(char::is_alphabetic) {
                    letters[written..=written + width].copy_from_slice(&bytes[at - 1..at + width]);
                    boundaries[written] = Boundary::Gap;
                    written += width + 1;
                }
                at += width;
                (boundary, before) = (Boundary::Gap, Previous::Other);
            }
        }
    }
    written
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Lower,
    Upper,
    Other,
}

#[derive(Clone, Copy)]
enum ByteKind {
    Lower,
    Upper,
    Digit,
    /// `_` and `-`.
    Glue,
    Gap,
    /// A backslash, or the escape before a colour.
    Escape,
    /// The first byte of a character beyond ASCII.
    Wide,
}

const BYTE_KINDS: [ByteKind; 256] = {
    let mut table = [ByteKind::Gap; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => ByteKind::Lower,
            b'A'..=b'Z' => ByteKind::Upper,
            b'0'..=b'9' => ByteKind::Digit,
            b'_' | b'-' => ByteKind::Glue,
            b'\\' | 0x1b => ByteKind::Escape,
            0x80.. => ByteKind::Wide,
            _ => ByteKind::Gap,
        };
        byte += 1;
    }
    table
};

/// How much of a JSON escape to step over: `\n` is a gap, not the letter n. `\new` in a path is taken for one too;
/// it costs a letter.
fn escape_len(after: &[u8]) -> usize {
    match after.first() {
        Some(b'n' | b't' | b'r' | b'"' | b'\'') => 1,
        Some(b'u') if after.len() >= 5 && after[1..5].iter().all(u8::is_ascii_hexdigit) => 5,
        _ => 0,
    }
}

fn colour_len(after: &[u8]) -> usize {
    if after.first() != Some(&b'[') {
        return 0;
    }
    let parameters = after[1..].iter().take(16).take_while(|b| b.is_ascii_digit() || **b == b';').count();
    1 + parameters + usize::from(after.get(1 + parameters).is_some_and(u8::is_ascii_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(line: &str) -> String {
        let (mut letters, mut boundaries) = (Vec::new(), Vec::new());
        normalize(line, &mut letters, &mut boundaries);
        let mut out = String::new();
        for (letter, boundary) in letters.into_iter().zip(boundaries) {
            if boundary != Boundary::Inside && !out.is_empty() {
                out.push(' ');
            }
            out.push(letter as char);
        }
        out
    }

    #[test]
    fn spellings_of_one_wording_are_equal() {
        for spelling in ["DEADLINE_EXCEEDED", "deadline exceeded", "DeadlineExceeded", "deadline-exceeded"] {
            assert_eq!(normalized(spelling).replace(' ', ""), "deadlineexceeded");
        }
        assert_eq!(normalized("JSONDecodeError: model's\\nname"), "json decode error model s name");
        assert_eq!(normalized("\u{1b}[31mboom\u{1b}[0m"), "boom");
    }
}
