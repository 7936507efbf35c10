//! Finds every phrase of every rule in one pass of an Aho-Corasick automaton over the normalized evidence.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::normalize::{Boundary, NormalizedText, normalize};
use super::rules::rules;

/// Shorter literals match whole words only: `eof`, `oom` and `401` occur inside too much else.
const LONG_LITERAL: usize = 10;
/// Only a compound such as `readtimeouterror` is this long. In shorter words a literal matches at the front only.
const LONG_WORD: usize = 12;
/// How many letters `~` may stand for.
const MAX_GAP: usize = 70;

pub(super) type PhraseId = u16;

/// More than there are; a set of phrases is that many bits.
pub(super) const MOST_PHRASES: usize = 4096;

/// Where a phrase was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct PhraseMatch {
    pub(super) phrase: PhraseId,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A set of phrases.
#[derive(Debug)]
pub(super) struct PhraseSet([u64; MOST_PHRASES / 64]);

impl PhraseSet {
    pub(super) const EMPTY: Self = Self([0; MOST_PHRASES / 64]);

    pub(super) fn contains(&self, phrase: PhraseId) -> bool {
        self.0[usize::from(phrase) / 64] & (1 << (phrase % 64)) != 0
    }

    /// Whether it was not there before.
    pub(super) fn insert(&mut self, phrase: PhraseId) -> bool {
        let new = !self.contains(phrase);
        self.0[usize::from(phrase) / 64] |= 1 << (phrase % 64);
        new
    }
}

/// A literal under one set of conditions: two phrases may want the same letters under different ones.
#[derive(Debug)]
struct LiteralForm {
    conditions: Conditions,
    /// Phrases that consist of this literal alone.
    whole: Vec<PhraseId>,
    /// Where to note it, if phrases begin with it.
    begins: Option<Slot>,
    continuations: Vec<Continuation>,
}

#[derive(Debug, PartialEq, Eq)]
struct Conditions {
    /// It may begin inside a long word.
    free_start: bool,
    free_end: bool,
    /// It is written as one word: `typeerror` is the class, not `"type": "error"`.
    one_word: bool,
    /// Where its numbers begin and end. A number joined to a name is part of the name: the 1006 of `invoice_1006` is no
    /// close code.
    numbers: Vec<usize>,
}

/// Remembers where the front of a phrase was last seen.
type Slot = u16;

/// A phrase of several parts continues here if its front was seen shortly before.
#[derive(Debug, Clone, Copy)]
struct Continuation {
    after: Slot,
    then: Then,
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Remember(Slot),
    Match(PhraseId),
}

/// Where the front of a phrase was seen.
#[derive(Debug, Clone, Copy)]
struct Front {
    start: usize,
    end: usize,
}

/// One occurrence of a literal.
#[derive(Debug, Clone, Copy)]
struct Hit {
    literal: usize,
    start: usize,
    end: usize,
}

#[derive(Debug)]
pub(super) struct Matcher {
    automaton: AhoCorasick,
    /// For each literal, its forms.
    forms: Vec<Vec<LiteralForm>>,
    phrases: HashMap<&'static str, PhraseId>,
    slots: usize,
}

pub(super) static MATCHER: LazyLock<Matcher> = LazyLock::new(|| {
    let rules = rules().iter().flat_map(|r| [r.any, r.with, r.unless]).flatten().copied();
    Matcher::new(rules.chain(super::decide::LLM_WORDS.iter().copied()))
});

impl Matcher {
    #[expect(clippy::expect_used, reason = "the phrases are constants of this crate; every test builds the automaton")]
    fn new(all: impl Iterator<Item = &'static str>) -> Self {
        let mut builder = Builder::default();
        for phrase in all {
            builder.add(phrase);
        }
        let Builder { literals, forms, phrases, slots, .. } = builder;
        assert!(phrases.len() <= MOST_PHRASES);
        let automaton = AhoCorasick::new(&literals).expect("a few thousand short literals");
        Self { automaton, forms, phrases, slots }
    }

    /// The number of a phrase that some rule has.
    pub(super) fn id(&self, phrase: &'static str) -> Option<PhraseId> {
        self.phrases.get(phrase).copied()
    }

    pub(super) fn phrase_count(&self) -> usize {
        self.phrases.len()
    }

    /// Every phrase of the text, in the order in which their last parts begin.
    pub(super) fn find(&self, text: &NormalizedText) -> Vec<PhraseMatch> {
        let mut matches = Vec::with_capacity(32);
        let mut fronts = vec![None; self.slots];
        let mut seen = SeenInSpan { phrases: PhraseSet::EMPTY, spans: 0 };
        for hit in self.hits(text) {
            seen.enter(text, hit.start);
            for form in self.forms[hit.literal].iter().filter(|f| f.conditions.hold(&text.boundaries, hit)) {
                form.take(hit, &mut fronts, &mut seen, &mut matches);
            }
        }
        matches
    }

    /// Occurrences of literals at the front of words and inside long words. They are sorted by where they begin, because
    /// a phrase's front has to be seen before its continuation.
    fn hits(&self, text: &NormalizedText) -> Vec<Hit> {
        let begins = |start: usize| text.boundaries[start] != Boundary::Inside || in_long_word(&text.boundaries, start);
        let mut hits: Vec<Hit> = self
            .automaton
            .find_overlapping_iter(&text.letters)
            .map(|found| Hit { literal: found.pattern().as_usize(), start: found.start(), end: found.end() })
            .filter(|hit| begins(hit.start))
            .collect();
        hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        hits
    }
}

/// Whether the word around a position has at least [`LONG_WORD`] letters.
fn in_long_word(boundaries: &[Boundary], at: usize) -> bool {
    let inside = |boundary: &&Boundary| **boundary == Boundary::Inside;
    let before = boundaries[..=at].iter().rev().take(LONG_WORD).take_while(inside).count();
    let after = boundaries[at + 1..].iter().take(LONG_WORD).take_while(inside).count();
    before + 1 + after >= LONG_WORD
}

/// Phrases found in the current span: a second time adds nothing, but in another span it may weigh more.
struct SeenInSpan {
    phrases: PhraseSet,
    spans: usize,
}

impl SeenInSpan {
    fn enter(&mut self, text: &NormalizedText, position: usize) {
        while text.spans.get(self.spans).is_some_and(|span| span.start <= position) {
            self.phrases = PhraseSet::EMPTY;
            self.spans += 1;
        }
    }
}

impl Conditions {
    fn hold(&self, boundaries: &[Boundary], Hit { start, end, .. }: Hit) -> bool {
        let boundary = |at: usize| boundaries.get(at).is_none_or(|b| *b != Boundary::Inside);
        let joined = |at: usize| boundaries.get(at) == Some(&Boundary::Joined);
        let apart = |b: &Boundary| matches!(b, Boundary::Gap | Boundary::Joined);
        (self.free_start || boundary(start))
            && (self.free_end || boundary(end))
            && !(self.one_word && boundaries[start + 1..end].iter().any(apart))
            && !self.numbers.iter().any(|at| joined(start + at))
    }
}

impl LiteralForm {
    /// Only the latest front is kept, so that a text full of fronts stays cheap.
    fn take(&self, hit: Hit, fronts: &mut [Option<Front>], seen: &mut SeenInSpan, matches: &mut Vec<PhraseMatch>) {
        let Hit { start, end, .. } = hit;
        let new = self.whole.iter().filter(|phrase| seen.phrases.insert(**phrase));
        matches.extend(new.map(|phrase| PhraseMatch { phrase: *phrase, start, end }));
        for continuation in &self.continuations {
            let near = |front: &Front| front.end <= start && start - front.end <= MAX_GAP;
            let Some(front) = fronts[usize::from(continuation.after)].filter(near) else { continue };
            match continuation.then {
                Then::Remember(slot) => fronts[usize::from(slot)] = Some(Front { start: front.start, end }),
                Then::Match(phrase) => matches.push(PhraseMatch { phrase, start: front.start, end }),
            }
        }
        if let Some(slot) = self.begins {
            fronts[usize::from(slot)] = Some(Front { start, end });
        }
    }
}

/// Collects phrases into literals and their forms.
#[derive(Default)]
struct Builder {
    literals: Vec<Vec<u8>>,
    numbers: HashMap<Vec<u8>, usize>,
    forms: Vec<Vec<LiteralForm>>,
    phrases: HashMap<&'static str, PhraseId>,
    slots: usize,
}

impl Builder {
    fn add(&mut self, phrase: &'static str) {
        if self.phrases.contains_key(phrase) {
            return;
        }
        let id = small(self.phrases.len());
        self.phrases.insert(phrase, id);
        let parts: Vec<&str> = phrase.split('~').map(str::trim).collect();
        if let [part] = parts[..] {
            return self.form(part).whole.push(id);
        }
        let mut after = self.front(parts[0]);
        for (index, part) in parts.iter().enumerate().skip(1) {
            let is_last = index + 1 == parts.len();
            let then = if is_last { Then::Match(id) } else { Then::Remember(self.new_slot()) };
            self.form(part).continuations.push(Continuation { after, then });
            if let Then::Remember(slot) = then {
                after = slot;
            }
        }
    }

    /// The slot of a form that begins phrases.
    fn front(&mut self, part: &str) -> Slot {
        if let Some(slot) = self.form(part).begins {
            return slot;
        }
        let slot = self.new_slot();
        self.form(part).begins = Some(slot);
        slot
    }

    fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        small(self.slots - 1)
    }

    fn form(&mut self, part: &str) -> &mut LiteralForm {
        let (mut letters, mut boundaries) = (Vec::new(), Vec::new());
        normalize(part, &mut letters, &mut boundaries);
        let long = letters.len() >= LONG_LITERAL;
        let conditions = Conditions {
            free_start: long,
            free_end: long || part.ends_with('*'),
            one_word: !part.contains([' ', '_', '-', '\'']),
            numbers: numbers_in(&letters, &boundaries),
        };
        let number = *self.numbers.entry(letters).or_insert_with_key(|letters| {
            self.literals.push(letters.clone());
            self.forms.push(Vec::new());
            self.forms.len() - 1
        });
        let forms = &mut self.forms[number];
        let at = forms.iter().position(|form| form.conditions == conditions).unwrap_or_else(|| {
            forms.push(LiteralForm { conditions, whole: Vec::new(), begins: None, continuations: Vec::new() });
            forms.len() - 1
        });
        &mut forms[at]
    }
}

#[expect(clippy::expect_used, reason = "the phrases are constants of this crate; every test builds the automaton")]
fn small(number: usize) -> u16 {
    u16::try_from(number).expect("a few thousand phrases")
}

/// Where words of digits begin and end, except those that the phrase itself joins, as in `utf-8`.
fn numbers_in(letters: &[u8], boundaries: &[Boundary]) -> Vec<usize> {
    let starts: Vec<usize> = (0..letters.len()).filter(|at| *at == 0 || boundaries[*at] != Boundary::Inside).collect();
    let ends = starts.iter().skip(1).copied().chain([letters.len()]);
    let numbers =
        starts.iter().copied().zip(ends).filter(|(from, to)| letters[*from..*to].iter().all(u8::is_ascii_digit));
    numbers.flat_map(|(from, to)| [from, to]).filter(|at| boundaries.get(*at) != Some(&Boundary::Joined)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Evidence;

    fn found(phrases: &[&'static str], text: &str) -> Vec<&'static str> {
        let matcher = Matcher::new(phrases.iter().copied());
        let matches = matcher.find(&NormalizedText::of(&Evidence::of(text)));
        matches.iter().map(|found| phrases[usize::from(found.phrase)]).collect()
    }

    #[test]
    fn short_literals_match_whole_words_only() {
        assert_eq!(found(&["eof", "usher"], "the offset of ushers"), Vec::<&str>::new());
        assert_eq!(found(&["eof", "nosuch*"], "unexpected EOF: NoSuchKey"), ["eof", "nosuch*"]);
        assert_eq!(found(&["typeerror"], r#"{"type": "error"}"#), Vec::<&str>::new());
    }

    #[test]
    fn long_literals_match_inside_long_words() {
        assert_eq!(found(&["timeout error"], "asyncreadtimeouterror"), ["timeout error"]);
        assert_eq!(found(&["too many requests"], "xtoomany requests"), Vec::<&str>::new(), "the word is short");
    }

    #[test]
    fn parts_of_a_phrase_follow_within_the_gap() {
        let far = format!("tool {} not found", "x ".repeat(MAX_GAP + 1));
        assert_eq!(found(&["tool ~ not found"], "tool `search` was not found"), ["tool ~ not found"]);
        for text in ["not found: tool", far.as_str()] {
            assert_eq!(found(&["tool ~ not found"], text), Vec::<&str>::new(), "{text}");
        }
    }
}
