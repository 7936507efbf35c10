//! The evidence as the automaton reads it: letters and digits only, in lower case, stack frames left out.
//! Squashing makes `DEADLINE_EXCEEDED`, `DeadlineExceeded` and `deadline exceeded` one text; a mark at each
//! letter remembers where a word began, so that `eof` is not found in `the offset`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::evidence::Evidence;
use super::text::{self, Joint, LineKind};

/// How much of a field is read: its head and its tail. An error says what it is at one of its ends.
const HEAD_BYTES: usize = 12 * 1024;
const TAIL_BYTES: usize = 12 * 1024;
const BODY_BYTES: usize = 8 * 1024;

/// Lines that only report on the way lose against lines that report the error.
const CHATTER: i16 = -15;
/// What stands after "During handling of the above exception" wraps what stood before.
const WRAPPER: i16 = -2;
/// What stands after "Caused by:" is nearer to the root.
const CAUSE: i16 = 2;

/// A frame names code, not the error: nothing in it decides, but it may tell what a wording means
/// (a file missing under `subprocess` is a missing program).
const FRAMES: i16 = -1000;

const TELLING: [&str; 5] = ["subprocess", "openai", "anthropic", "litellm", "genai"];
/// Made once: a trace has many frames, and preparing a search costs more than a line's.
static FINDERS: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| TELLING.map(Finder::new));

/// Which field a stretch of the page comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    ErrorType,
    FinishReason,
    Text,
    Detail,
    Body,
}

impl Field {
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

/// A stretch of the page and what its place in the evidence adds to the rank of what is found in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) field: Field,
    pub(super) adjust: i16,
}

#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) letters: Vec<u8>,
    /// How each letter joins the one before.
    pub(super) joints: Vec<Joint>,
    pub(super) spans: Vec<Span>,
    /// How many lines were left out as stack frames.
    pub(super) frames: usize,
    /// Which telling packages the frames named.
    told: [bool; 5],
}

impl Page {
    pub(super) fn of(evidence: &Evidence<'_>) -> Self {
        let mut page = Self::default();
        page.letters.reserve(evidence.text.len().min(HEAD_BYTES + TAIL_BYTES) + 64);
        page.joints.reserve(page.letters.capacity());
        if let Some(error_type) = evidence.error_type {
            page.add(Field::ErrorType, text::head(error_type, 512));
        }
        if let Some(finish) = evidence.finish_reason {
            page.add_line(Field::FinishReason, 0, "finish reason");
            page.push_words(text::head(finish, 128));
        }
        page.add_ends(Field::Text, evidence.text);
        if let Some(detail) = evidence.detail {
            page.add_ends(Field::Detail, detail);
        }
        if let Some(body) = evidence.response_body {
            page.add(Field::Body, text::head(body, BODY_BYTES));
        }
        page.close();
        page
    }

    /// The span a position lies in.
    pub(super) fn span_at(&self, position: usize) -> Option<&Span> {
        let after = self.spans.partition_point(|s| s.start <= position);
        self.spans.get(after.checked_sub(1)?)
    }

    fn add_ends(&mut self, field: Field, all: &str) {
        let (head, tail) = text::ends(all, HEAD_BYTES, TAIL_BYTES);
        self.add(field, head);
        self.add(field, tail);
    }

    fn add(&mut self, field: Field, part: &str) {
        let base = match field {
            Field::ErrorType | Field::FinishReason | Field::Text => 0,
            Field::Detail | Field::Body => -1,
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
                LineKind::Chatter => self.add_line(field, base + CHATTER, line),
                LineKind::Plain => self.add_line(field, base + depth, line),
            }
        }
    }

    /// Of a frame only the packages count that tell what a wording means, each once.
    fn add_frame(&mut self, field: Field, line: &str) {
        for (told, package) in TELLING.iter().enumerate() {
            if !self.told[told] && FINDERS[told].find(line.as_bytes()).is_some() {
                self.told[told] = true;
                self.add_line(field, FRAMES, package);
            }
        }
    }

    fn add_line(&mut self, field: Field, adjust: i16, line: &str) {
        let same = self.spans.last().is_some_and(|s| s.field == field && s.adjust == adjust);
        if !same {
            self.close();
            self.spans.push(Span { start: self.letters.len(), field, adjust });
        }
        self.push_words(line);
    }

    /// Nothing may match across two spans.
    fn close(&mut self) {
        self.letters.push(0);
        self.joints.push(Joint::Gap);
    }

    fn push_words(&mut self, line: &str) {
        text::squash(line, &mut self.letters, &mut self.joints);
    }
}
