//! Finds thousands of short literals in one pass. A trie laid out level by level: 25,000 states in a few hundred
//! kilobytes stay in the cache, where the tables of a general automaton for this many literals do not.
//!
//! Most places begin nothing, and a table of hashes that is always in the cache says so: of the next five letters,
//! can they begin a literal here? Only then is the trie entered, below those five. Within long words, such as
//! `readtimeouterror`, those are asked for that may begin there. A walk is no longer than the longest literal.

use std::collections::VecDeque;

use super::text::Joint;

const ROOT: usize = 0;
const FIRST: u32 = 0;
const NONE: u32 = u32::MAX;
/// Room for letters, digits and some bytes of other scripts.
const SYMBOLS: usize = 64;
/// Only a compound such as `readtimeouterror` is so long; in shorter words nothing begins but at their front.
const LONG_WORD: usize = 12;

/// A text to look for.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    pub(super) letters: Vec<u8>,
    /// May it begin in the middle of a word?
    pub(super) within_words: bool,
}

/// One literal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) literal: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Letters that must come next before anything else counts: where nothing branches there is nothing to decide.
    chain: (u32, u32),
    /// Which symbols lead on, a bit each.
    leads: u64,
    /// Where those lead: side by side from here, in the order of the symbols.
    children: u32,
    /// The literal that ends here.
    literal: u32,
}

impl State {
    fn next(&self, symbol: u8) -> u32 {
        let bit = 1_u64 << symbol;
        if self.leads == bit {
            // Most states have one child; counting bits takes longer than asking.
            return self.children;
        }
        if self.leads & bit == 0 { NONE } else { self.children + (self.leads & (bit - 1)).count_ones() }
    }
}

#[derive(Debug)]
pub(super) struct Automaton {
    /// The symbol of each byte; bytes in no literal share zero, which leads nowhere.
    symbols: [u8; 256],
    states: Vec<State>,
    /// The letters of all chains.
    chains: Vec<u8>,
    /// By the hash of five letters, a bit where a literal begins so.
    begins: Vec<u64>,
    /// The same for those that may begin within a word.
    within: Vec<u64>,
    /// The states of the first letters, five or all of a shorter literal, by hash.
    fronts: Vec<(u32, u32)>,
}

/// The first five letters of what may be a literal. Five bits of each do: it only has to say no.
#[derive(Debug, Clone, Copy, Default)]
struct Five(u32);

impl Five {
    const LEN: usize = 5;
    const HASH_BITS: u32 = 16;

    fn push(self, letter: u8) -> Self {
        Self(self.0 << 5 | u32::from(letter & 31))
    }

    fn of(letters: &[u8]) -> Self {
        letters.iter().fold(Self::default(), |five, letter| five.push(*letter))
    }

    /// Which word and which bit of the table.
    fn place(self) -> (usize, u64) {
        let hash = self.0.wrapping_mul(0x9e37_79b1) >> (32 - Self::HASH_BITS);
        (hash as usize / 64, 1 << (hash % 64))
    }
}

impl Automaton {
    /// `None` if the literals use more kinds of bytes than there are symbols, or one that may begin within a word
    /// has less than five, or one less than two.
    pub(super) fn new(literals: &[Literal]) -> Option<Self> {
        let symbols = symbols_of(literals)?;
        let mut automaton = Trie::of(literals, &symbols).lay_out(symbols);
        for literal in literals {
            let letters = literal.letters.len();
            let front = &literal.letters[..letters.min(Five::LEN)];
            automaton.note_front(front);
            if letters >= Five::LEN {
                let (word, bit) = Five::of(front).place();
                automaton.begins[word] |= bit;
                automaton.within[word] |= if literal.within_words { bit } else { 0 };
            } else if letters < 2 || literal.within_words {
                return None;
            }
        }
        Some(automaton)
    }

    /// Calls back for every literal in the text, word by word.
    pub(super) fn find(&self, text: &[u8], joints: &[Joint], mut found: impl FnMut(Hit)) {
        let mut start = 0;
        while start < text.len() {
            let word_len = 1 + joints[start + 1..].iter().take_while(|j| **j == Joint::None).count();
            self.at_word(text, joints, start, &mut found);
            if word_len >= LONG_WORD {
                (start + 1..start + word_len).for_each(|at| self.within_word(text, at, &mut found));
            }
            start += word_len;
        }
    }

    fn at_word(&self, text: &[u8], joints: &[Joint], start: usize, found: &mut impl FnMut(Hit)) {
        let front = Five::of(&text[start..text.len().min(start + Five::LEN)]);
        if text.len() >= start + Five::LEN {
            let (word, bit) = front.place();
            if self.begins[word] & bit != 0 {
                self.walk(text, start, found);
            }
        }
        for letters in 2..Five::LEN {
            // A short one has to be a word by itself, or a few.
            let ends = joints.get(start + letters).is_none_or(|j| *j != Joint::None);
            if ends && text.len() >= start + letters {
                self.report_short(text, start, letters, found);
            }
        }
    }

    fn within_word(&self, text: &[u8], start: usize, found: &mut impl FnMut(Hit)) {
        let Some(front) = text.get(start..start + Five::LEN) else { return };
        let (word, bit) = Five::of(front).place();
        if self.within[word] & bit != 0 {
            self.walk(text, start, found);
        }
    }

    /// Literals of five letters and more.
    fn walk(&self, text: &[u8], start: usize, found: &mut impl FnMut(Hit)) {
        let Some(front) = text.get(start..start + Five::LEN) else { return };
        if let Some(state) = self.front(front) {
            self.follow(state, text, start, Five::LEN, found);
        }
    }

    /// A literal of less, if it is one.
    fn report_short(&self, text: &[u8], start: usize, letters: usize, found: &mut impl FnMut(Hit)) {
        let end = start + letters;
        let state = text.get(start..end).and_then(|front| self.front(front));
        let literal = state.map_or(NONE, |state| self.states[state as usize].literal);
        if literal != NONE {
            found(Hit { literal: literal as usize, start, end });
        }
    }

    /// Goes on from a state that the first letters led to.
    fn follow(&self, mut state: u32, text: &[u8], start: usize, led_by: usize, found: &mut impl FnMut(Hit)) {
        let mut end = start + led_by;
        while state != NONE && end <= text.len() {
            let here = &self.states[state as usize];
            let chain = &self.chains[here.chain.0 as usize..here.chain.1 as usize];
            if !text[end..].starts_with(chain) {
                return;
            }
            end += chain.len();
            if here.literal != NONE {
                found(Hit { literal: here.literal as usize, start, end });
            }
            let Some(byte) = text.get(end) else { return };
            state = here.next(self.symbols[usize::from(*byte)]);
            end += 1;
        }
    }

    /// The state that the first letters lead to.
    fn front(&self, front: &[u8]) -> Option<u32> {
        let key = self.key(front)?;
        let mut at = slot_of(key, self.fronts.len());
        while self.fronts[at].1 != NONE {
            if self.fronts[at].0 == key {
                return Some(self.fronts[at].1);
            }
            at = (at + 1) % self.fronts.len();
        }
        None
    }

    fn note_front(&mut self, front: &[u8]) {
        let symbols = self.symbols;
        let state = front.iter().fold(FIRST, |state, b| self.states[state as usize].next(symbols[usize::from(*b)]));
        let (Some(key), None) = (self.key(front), self.front(front)) else { return };
        let mut at = slot_of(key, self.fronts.len());
        while self.fronts[at].1 != NONE {
            at = (at + 1) % self.fronts.len();
        }
        self.fronts[at] = (key, state);
    }

    /// Up to five symbols in thirty bits; nothing if one is in no literal.
    fn key(&self, front: &[u8]) -> Option<u32> {
        front.iter().try_fold(0, |key, byte| {
            let symbol = self.symbols[usize::from(*byte)];
            (symbol != 0).then_some(key << 6 | u32::from(symbol))
        })
    }
}

fn slot_of(key: u32, slots: usize) -> usize {
    key.wrapping_mul(0x85eb_ca6b) as usize % slots
}

/// Numbers the bytes that the literals use from one on; zero is for all others.
fn symbols_of(literals: &[Literal]) -> Option<[u8; 256]> {
    let mut symbols = [0; 256];
    let mut next = 1;
    for byte in literals.iter().flat_map(|l| &l.letters) {
        let symbol = &mut symbols[usize::from(*byte)];
        if *symbol == 0 {
            *symbol = u8::try_from(next).ok().filter(|s| usize::from(*s) < SYMBOLS)?;
            next += 1;
        }
    }
    Some(symbols)
}

/// The literals while they are put together.
struct Trie {
    nodes: Vec<Node>,
}

struct Node {
    /// The letter that leads here.
    letter: u8,
    children: Vec<(u8, usize)>,
    literal: u32,
}

impl Trie {
    fn of(literals: &[Literal], symbols: &[u8; 256]) -> Self {
        let mut trie = Self { nodes: vec![Node { letter: 0, children: Vec::new(), literal: NONE }] };
        for (number, literal) in (0_u32..).zip(literals) {
            let node =
                literal.letters.iter().fold(ROOT, |at, byte| trie.child_or_new(at, *byte, symbols[usize::from(*byte)]));
            trie.nodes[node].literal = number;
        }
        trie
    }

    fn child_or_new(&mut self, node: usize, letter: u8, symbol: u8) -> usize {
        if let Some((_, child)) = self.nodes[node].children.iter().find(|(s, _)| *s == symbol) {
            return *child;
        }
        self.nodes.push(Node { letter, children: Vec::new(), literal: NONE });
        let child = self.nodes.len() - 1;
        self.nodes[node].children.push((symbol, child));
        child
    }

    /// Numbers the states level by level, so that children stand side by side.
    #[expect(clippy::cast_possible_truncation, reason = "there are thousands of states, not billions")]
    fn lay_out(mut self, symbols: [u8; 256]) -> Automaton {
        self.nodes.iter_mut().for_each(|node| node.children.sort_unstable());
        let (mut states, mut chains) = (vec![self.state(ROOT, (0, 0))], Vec::new());
        let mut waiting = VecDeque::from([(ROOT, ROOT, 0)]);
        while let Some((node, state, depth)) = waiting.pop_front() {
            states[state].children = states.len() as u32;
            for (_, child) in &self.nodes[node].children {
                let from = chains.len() as u32;
                let end = if depth >= Five::LEN { self.follow_chain(*child, &mut chains) } else { *child };
                waiting.push_back((end, states.len(), depth + 1));
                states.push(self.state(end, (from, chains.len() as u32)));
            }
        }
        let bits = |bits: u32| vec![0; (1 << bits) / 64];
        // At least half of the slots stay free, so that a search for what is not there is short.
        let slots = (states.len() * 2).next_power_of_two();
        Automaton {
            symbols,
            states,
            chains,
            begins: bits(Five::HASH_BITS),
            within: bits(Five::HASH_BITS),
            fronts: vec![(0, NONE); slots.clamp(64, 1 << 14)],
        }
    }

    fn state(&self, node: usize, chain: (u32, u32)) -> State {
        let Node { children, literal, .. } = &self.nodes[node];
        let leads = children.iter().fold(0, |leads, (symbol, _)| leads | 1 << symbol);
        State { chain, leads, children: 0, literal: *literal }
    }

    /// Down to where a literal ends or the way parts, writing down the letters.
    fn follow_chain(&self, mut node: usize, chains: &mut Vec<u8>) -> usize {
        while let (NONE, [(_, child)]) = (self.nodes[node].literal, &self.nodes[node].children[..]) {
            node = *child;
            chains.push(self.nodes[node].letter);
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(literals: &[(&str, bool)], text: &str, joints: &[Joint]) -> Vec<(usize, usize)> {
        let literals: Vec<Literal> = literals
            .iter()
            .map(|(l, within_words)| Literal { letters: l.as_bytes().to_vec(), within_words: *within_words })
            .collect();
        let mut hits = Vec::new();
        Automaton::new(&literals).unwrap().find(text.as_bytes(), joints, |hit| hits.push((hit.literal, hit.start)));
        hits
    }

    #[test]
    fn only_those_that_may_are_found_within_a_word() {
        let mut joints = [Joint::None; 12];
        joints[0] = Joint::Gap;
        assert_eq!(
            found(&[("hersel", true), ("herself", true), ("usher", true), ("er", false)], "usherselfabc", &joints),
            [(2, 0), (0, 2), (1, 2)]
        );
    }

    proptest! {
        #[test]
        fn at_word_beginnings_it_finds_what_a_search_for_each_literal_finds(
            literals in proptest::collection::btree_set("[abc]{2,4}", 1..8), text in "[abcd]{0,40}"
        ) {
            let literals: Vec<(&str, bool)> = literals.iter().map(|l| (l.as_str(), false)).collect();
            let starts = |literal: &str| (0..text.len()).filter(|s| text[*s..].starts_with(literal)).collect::<Vec<_>>();
            let mut expected: Vec<_> = literals.iter().enumerate().flat_map(|(n, (l, _))| starts(l).into_iter().map(move |s| (n, s))).collect();
            let mut hits = found(&literals, &text, &vec![Joint::Gap; text.len()]);
            hits.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(hits, expected);
        }
    }
}
