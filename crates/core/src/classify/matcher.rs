//! One pass of one automaton over the page finds every phrase of every rule.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::automaton::Automaton;
use super::page::Page;
use super::rules::rules;
use super::text::{self, Joint};

/// Shorter parts match whole words only: `eof`, `oom` and `401` stand in the middle of too much else.
const LONG_ENOUGH: usize = 10;
/// How many letters `~` may stand for.
const MAX_GAP: usize = 70;

pub(super) type PhraseId = u16;

/// More than there are; a set of phrases is that many bits.
pub(super) const MOST_PHRASES: usize = 4096;

/// Where a phrase was found on the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) phrase: PhraseId,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// One literal of a phrase, between two `~`.
#[derive(Debug, Clone, Copy)]
struct Part {
    phrase: PhraseId,
    index: u8,
    last: bool,
    free_start: bool,
    free_end: bool,
    /// Written as one word: `typeerror` is the class, not `"type": "error"`.
    one_word: bool,
}

#[derive(Debug)]
pub(super) struct Matcher {
    automaton: Automaton,
    /// How long each literal is.
    lengths: Vec<usize>,
    /// For each literal, the parts of phrases that it is.
    parts: Vec<Vec<Part>>,
    phrases: HashMap<&'static str, PhraseId>,
}

pub(super) static MATCHER: LazyLock<Matcher> = LazyLock::new(|| {
    let rules = rules().iter().flat_map(|r| [r.any, r.with, r.unless]).flatten().copied();
    Matcher::new(rules.chain(super::decide::LLM_WORDS.iter().copied()))
});

impl Matcher {
    #[expect(clippy::expect_used, reason = "the phrases are constants of this crate; a test builds the automaton")]
    fn new(all: impl Iterator<Item = &'static str>) -> Self {
        let mut phrases = HashMap::new();
        let mut literals: Vec<Vec<u8>> = Vec::new();
        let mut parts: Vec<Vec<Part>> = Vec::new();
        let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
        for phrase in all {
            if phrases.contains_key(phrase) {
                continue;
            }
            let id = PhraseId::try_from(phrases.len())
                .ok()
                .filter(|id| usize::from(*id) < MOST_PHRASES)
                .expect("few enough");
            phrases.insert(phrase, id);
            let pieces: Vec<&str> = phrase.split('~').map(str::trim).collect();
            for (index, piece) in pieces.iter().enumerate() {
                let literal = letters_of(piece);
                let long = literal.len() >= LONG_ENOUGH;
                let slot = *seen.entry(literal).or_insert_with_key(|literal| {
                    literals.push(literal.clone());
                    parts.push(Vec::new());
                    literals.len() - 1
                });
                parts[slot].push(Part {
                    phrase: id,
                    index: u8::try_from(index).expect("a phrase has few parts"),
                    last: index + 1 == pieces.len(),
                    free_start: long || piece.starts_with('*'),
                    free_end: long || piece.ends_with('*'),
                    one_word: !piece.contains([' ', '_', '-', '\'']),
                });
            }
        }
        let automaton = Automaton::new(&literals).expect("constant phrases use few kinds of bytes");
        let lengths = literals.iter().map(Vec::len).collect();
        Self { automaton, lengths, parts, phrases }
    }

    /// The number of a phrase that some rule has.
    pub(super) fn id(&self, phrase: &'static str) -> Option<PhraseId> {
        self.phrases.get(phrase).copied()
    }

    pub(super) fn phrase_count(&self) -> usize {
        self.phrases.len()
    }

    /// Every phrase on the page, in the order of where it ends.
    pub(super) fn find(&self, page: &Page) -> Vec<Found> {
        let mut found = Vec::with_capacity(16);
        let mut open: Vec<Open> = Vec::new();
        self.automaton.find(&page.letters, |hit| {
            let start = hit.end - self.lengths[hit.literal];
            for part in &self.parts[hit.literal] {
                if stands(part, &page.joints, start, hit.end) {
                    advance(part, start, hit.end, &mut open, &mut found);
                }
            }
        });
        found
    }
}

/// Does it stand there as a word of its own, where it has to?
fn stands(part: &Part, joints: &[Joint], start: usize, end: usize) -> bool {
    let begins = |at: usize| joints.get(at).is_none_or(|j| *j != Joint::None);
    (part.free_start || begins(start))
        && (part.free_end || begins(end))
        && !(part.one_word && joints[start + 1..end].contains(&Joint::Gap))
}

/// A phrase of several parts of which the first ones were seen.
struct Open {
    phrase: PhraseId,
    index: u8,
    start: usize,
    end: usize,
}

/// Keeps for every phrase and part only the latest place, so that a page full of beginnings stays cheap.
fn advance(part: &Part, start: usize, end: usize, open: &mut Vec<Open>, found: &mut Vec<Found>) {
    let begun = match part.index.checked_sub(1) {
        None => Some(start),
        Some(before) => open
            .iter()
            .find(|o| o.phrase == part.phrase && o.index == before && o.end <= start && start - o.end <= MAX_GAP)
            .map(|o| o.start),
    };
    let Some(begun) = begun else { return };
    if part.last {
        found.push(Found { phrase: part.phrase, start: begun, end });
        return;
    }
    match open.iter_mut().find(|o| o.phrase == part.phrase && o.index == part.index) {
        Some(same) => (same.start, same.end) = (begun, end),
        None => open.push(Open { phrase: part.phrase, index: part.index, start: begun, end }),
    }
}

fn letters_of(piece: &str) -> Vec<u8> {
    let (mut letters, mut joints) = (Vec::new(), Vec::new());
    text::squash(piece, &mut letters, &mut joints);
    letters
}
