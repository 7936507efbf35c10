//! One pass of one automaton over the page finds every phrase of every rule.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::automaton::{Automaton, Hit, Literal};
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

/// A literal as phrases ask for it: two phrases may want the same letters under other conditions.
#[derive(Debug, Clone)]
struct Form {
    free_start: bool,
    free_end: bool,
    /// Written as one word: `typeerror` is the class, not `"type": "error"`.
    one_word: bool,
    /// Where its numbers begin and end. A number that is glued to a name is a part of the name: the 1006 of
    /// `invoice_1006` is no close code.
    numbers: Vec<usize>,
    /// Phrases that are this and nothing else.
    whole: Vec<PhraseId>,
    /// Where to note that it was seen, if phrases begin with it.
    begins: Option<Slot>,
    goes_on: Vec<Step>,
}

/// A note of where the front of a phrase was last seen.
type Slot = u16;

/// A phrase of several parts goes on, if its front was noted shortly before.
#[derive(Debug, Clone, Copy)]
struct Step {
    after: Slot,
    then: Then,
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Note(Slot),
    Phrase(PhraseId),
}

#[derive(Debug)]
pub(super) struct Matcher {
    automaton: Automaton,
    /// For each literal, the forms that it has.
    forms: Vec<Vec<Form>>,
    phrases: HashMap<&'static str, PhraseId>,
    slots: usize,
}

pub(super) static MATCHER: LazyLock<Matcher> = LazyLock::new(|| {
    let rules = rules().iter().flat_map(|r| [r.any, r.with, r.unless]).flatten().copied();
    Matcher::new(rules.chain(super::decide::LLM_WORDS.iter().copied()))
});

impl Matcher {
    #[expect(clippy::expect_used, reason = "the phrases are constants of this crate; a test builds the automaton")]
    fn new(all: impl Iterator<Item = &'static str>) -> Self {
        let mut builder = Builder::default();
        for phrase in all {
            builder.add(phrase);
        }
        let Builder { literals, forms, phrases, slots, .. } = builder;
        assert!(phrases.len() <= MOST_PHRASES);
        let automaton = Automaton::new(&literals).expect("constant phrases use few kinds of bytes");
        Self { automaton, forms, phrases, slots }
    }

    /// The number of a phrase that some rule has.
    pub(super) fn id(&self, phrase: &'static str) -> Option<PhraseId> {
        self.phrases.get(phrase).copied()
    }

    pub(super) fn phrase_count(&self) -> usize {
        self.phrases.len()
    }

    /// Every phrase on the page, in the order of where its last part begins.
    pub(super) fn find(&self, page: &Page) -> Vec<Found> {
        let mut found = Vec::with_capacity(32);
        let mut notes = vec![None; self.slots];
        let mut seen = Seen::default();
        self.automaton.find(&page.letters, &page.joints, |hit| {
            seen.enter(page, hit.start);
            for form in self.forms[hit.literal].iter().filter(|f| f.stands(&page.joints, hit.start, hit.end)) {
                form.take(hit, &mut notes, &mut seen, &mut found);
            }
        });
        found
    }
}

/// Which phrases were found in the span at hand: a second time adds nothing.
struct Seen {
    phrases: [u64; MOST_PHRASES / 64],
    spans: usize,
}

impl Default for Seen {
    fn default() -> Self {
        Self { phrases: [0; MOST_PHRASES / 64], spans: 0 }
    }
}

impl Seen {
    /// In another span the same phrase may weigh more.
    fn enter(&mut self, page: &Page, position: usize) {
        while page.spans.get(self.spans).is_some_and(|span| span.start <= position) {
            self.phrases = [0; MOST_PHRASES / 64];
            self.spans += 1;
        }
    }

    fn is_news(&mut self, phrase: PhraseId) -> bool {
        let (word, bit) = (usize::from(phrase) / 64, 1 << (phrase % 64));
        let news = self.phrases[word] & bit == 0;
        self.phrases[word] |= bit;
        news
    }
}

/// Where the front of a phrase stands.
#[derive(Debug, Clone, Copy)]
struct Note {
    start: usize,
    end: usize,
}

impl Form {
    /// Does it stand there as a word of its own, where it has to?
    fn stands(&self, joints: &[Joint], start: usize, end: usize) -> bool {
        let begins = |at: usize| joints.get(at).is_none_or(|j| *j != Joint::None);
        let glued = |at: usize| joints.get(at) == Some(&Joint::Glue);
        (self.free_start || begins(start))
            && (self.free_end || begins(end))
            && !(self.one_word && joints[start + 1..end].iter().any(|j| matches!(j, Joint::Gap | Joint::Glue)))
            && !self.numbers.iter().any(|at| glued(start + at))
    }

    /// Only the latest place of a front is kept, so that a page full of beginnings stays cheap.
    fn take(&self, hit: Hit, notes: &mut [Option<Note>], seen: &mut Seen, found: &mut Vec<Found>) {
        let Hit { start, end, .. } = hit;
        let news = self.whole.iter().filter(|phrase| seen.is_news(**phrase));
        found.extend(news.map(|phrase| Found { phrase: *phrase, start, end }));
        for step in &self.goes_on {
            let near = |note: &Note| note.end <= start && start - note.end <= MAX_GAP;
            let Some(front) = notes[usize::from(step.after)].filter(near) else { continue };
            match step.then {
                Then::Note(slot) => notes[usize::from(slot)] = Some(Note { start: front.start, end }),
                Then::Phrase(phrase) => found.push(Found { phrase, start: front.start, end }),
            }
        }
        if let Some(slot) = self.begins {
            notes[usize::from(slot)] = Some(Note { start, end });
        }
    }
}

/// Collects phrases into literals and forms.
#[derive(Default)]
struct Builder {
    literals: Vec<Literal>,
    numbers: HashMap<Vec<u8>, usize>,
    forms: Vec<Vec<Form>>,
    phrases: HashMap<&'static str, PhraseId>,
    slots: usize,
}

impl Builder {
    fn add(&mut self, phrase: &'static str) {
        if self.phrases.contains_key(phrase) {
            return;
        }
        let id = u16_of(self.phrases.len());
        self.phrases.insert(phrase, id);
        let pieces: Vec<&str> = phrase.split('~').map(str::trim).collect();
        if let [piece] = pieces[..] {
            return self.form(piece).whole.push(id);
        }
        let mut after = self.front(pieces[0]);
        for (index, piece) in pieces.iter().enumerate().skip(1) {
            let is_last = index + 1 == pieces.len();
            let then = if is_last { Then::Phrase(id) } else { Then::Note(self.new_slot()) };
            self.form(piece).goes_on.push(Step { after, then });
            if let Then::Note(slot) = then {
                after = slot;
            }
        }
    }

    /// The slot of a form that begins phrases.
    fn front(&mut self, piece: &str) -> Slot {
        if let Some(slot) = self.form(piece).begins {
            return slot;
        }
        let slot = self.new_slot();
        self.form(piece).begins = Some(slot);
        slot
    }

    fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        u16_of(self.slots - 1)
    }

    fn form(&mut self, piece: &str) -> &mut Form {
        let (letters, joints) = squashed(piece);
        let numbers = numbers_in(&letters, &joints);
        let long = letters.len() >= LONG_ENOUGH;
        let form = Form {
            free_start: long || piece.starts_with('*'),
            free_end: long || piece.ends_with('*'),
            one_word: !piece.contains([' ', '_', '-', '\'']),
            numbers,
            whole: Vec::new(),
            begins: None,
            goes_on: Vec::new(),
        };
        let number = *self.numbers.entry(letters).or_insert_with_key(|letters| {
            self.literals.push(Literal { letters: letters.clone(), within_words: false });
            self.forms.push(Vec::new());
            self.forms.len() - 1
        });
        self.literals[number].within_words |= form.free_start;
        let forms = &mut self.forms[number];
        let same = |f: &Form| {
            (f.free_start, f.free_end, f.one_word, &f.numbers)
                == (form.free_start, form.free_end, form.one_word, &form.numbers)
        };
        let at = forms.iter().position(same).unwrap_or_else(|| {
            forms.push(form);
            forms.len() - 1
        });
        &mut forms[at]
    }
}

/// There are a few thousand phrases; a test counts them.
fn u16_of(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn squashed(piece: &str) -> (Vec<u8>, Vec<Joint>) {
    let (mut letters, mut joints) = (Vec::new(), Vec::new());
    text::squash(piece, &mut letters, &mut joints);
    (letters, joints)
}

/// Where words of digits begin and end, but for those that the phrase itself glues, as in `utf-8`.
fn numbers_in(letters: &[u8], joints: &[Joint]) -> Vec<usize> {
    let starts: Vec<usize> = (0..letters.len()).filter(|at| *at == 0 || joints[*at] != Joint::None).collect();
    let ends = starts.iter().skip(1).copied().chain([letters.len()]);
    let numbers =
        starts.iter().copied().zip(ends).filter(|(from, to)| letters[*from..*to].iter().all(u8::is_ascii_digit));
    numbers.flat_map(|(from, to)| [from, to]).filter(|at| joints.get(*at) != Some(&Joint::Glue)).collect()
}
