//! Characters of a text by class, counted in one pass. What a class costs depends on the tokenizer ([`super::tokenizer`]).

/// Classes of text that tokenizers treat alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Words of Latin letters, in thousandths of a token by their length.
    Words,
    /// Digits, punctuation and white space, likewise.
    Marks,
    /// Characters of keys, hashes and base64.
    Opaque,
    /// Accented Latin letters.
    Accented,
    /// Greek and Cyrillic letters.
    Cyrillic,
    /// Hebrew, Arabic and their neighbours.
    Arabic,
    Han,
    Kana,
    Hangul,
    /// Scripts of South and Southeast Asia.
    Indic,
    /// All other characters: symbols, emoji.
    Other,
    /// Images, sounds and files, each as one.
    Media,
}

pub(crate) const CLASSES: usize = 12;

/// How much of each class a text has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassTally(pub(crate) [u64; CLASSES]);

impl ClassTally {
    pub(crate) fn add(&mut self, class: Class, amount: u64) {
        self.0[class as usize] += amount;
    }
}

impl std::ops::AddAssign for ClassTally {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    Letter,
    Digit,
    Space,
    Line,
    Mark,
    Wide,
}

const fn byte_classes() -> [Byte; 256] {
    let mut classes = [Byte::Mark; 256];
    let mut at = 0;
    while at < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let byte = at as u8;
        classes[at] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Byte::Letter,
            b'0'..=b'9' => Byte::Digit,
            b' ' | b'\t' => Byte::Space,
            b'\n' | b'\r' => Byte::Line,
            0x80.. => Byte::Wide,
            _ => Byte::Mark,
        };
        at += 1;
    }
    classes
}

static BYTES: [Byte; 256] = byte_classes();

/// Counts a text; with `escapes`, the inside of a JSON string, whose escapes count as what they stand for.
pub(crate) fn tally(text: &[u8], escapes: bool) -> ClassTally {
    let mut counter = Counter { text, at: 0, escapes, tally: ClassTally::default(), after_mark: false };
    while let Some((class, width)) = counter.peek() {
        match class {
            Byte::Letter | Byte::Digit => counter.word(),
            Byte::Space | Byte::Line => counter.space(),
            Byte::Mark => counter.marks(),
            Byte::Wide => counter.wide(width),
        }
    }
    counter.tally
}

/// How many small letters a text begins with, eight at a time: the length of a word is what no processor can guess.
fn small_letters(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let mut count = 0;
    let (eights, rest) = text.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight);
        let low = word & !HIGH;
        // The high bit of each byte: at least `a`, more than `z`, or no ASCII at all.
        let from_a = low + (0x80 - 0x61) * ONES;
        let past_z = low + (0x80 - 0x7b) * ONES;
        let others = (!from_a | past_z | word) & HIGH;
        if others != 0 {
            return count + others.trailing_zeros() as usize / 8;
        }
        count += 8;
    }
    count + rest.iter().take_while(|byte| byte.is_ascii_lowercase()).count()
}

/// How many Chinese characters a text begins with: those whose first byte says so.
fn han_characters(text: &[u8]) -> usize {
    let (threes, _) = text.as_chunks::<3>();
    threes.iter().take_while(|three| matches!(three[0], 0xe5..=0xe9)).count()
}

struct Counter<'a> {
    text: &'a [u8],
    at: usize,
    escapes: bool,
    tally: ClassTally,
    /// The last thing was punctuation, which swallows a line's end.
    after_mark: bool,
}

impl Counter<'_> {
    /// What comes next and how many bytes it takes.
    fn peek(&self) -> Option<(Byte, usize)> {
        let byte = *self.text.get(self.at)?;
        if byte == b'\\' && self.escapes {
            return Some(match self.text.get(self.at + 1) {
                Some(b'n' | b'r') => (Byte::Line, 2),
                Some(b't' | b'f' | b'b') => (Byte::Space, 2),
                Some(b'u') => (Byte::Wide, 6),
                Some(_) => (Byte::Mark, 2),
                None => (Byte::Mark, 1),
            });
        }
        Some((BYTES[usize::from(byte)], 1))
    }

    /// Words with one space between them, as prose has them: the loop that most texts spend their time in.
    fn word(&mut self) {
        let (mut words, mut numbers) = (0, 0);
        loop {
            let start = self.at;
            let capital = usize::from(self.text[start].is_ascii_uppercase());
            let end = start + capital + small_letters(&self.text[start + capital..]);
            if end > start + capital && !self.goes_on(end) {
                self.at = end;
                words += by_letters((end - start) as u64);
            } else if let Some(digits) = self.plain_number() {
                self.at += digits;
                numbers += by_digits(digits as u64);
            } else {
                let (of_words, of_numbers) = self.mixed();
                words += of_words;
                numbers += of_numbers;
            }
            let next = self.text.get(self.at + 1).is_some_and(|byte| BYTES[usize::from(*byte)] == Byte::Letter);
            if !next || self.text[self.at] != b' ' {
                break;
            }
            self.at += 1;
        }
        self.tally.add(Class::Words, words);
        self.tally.add(Class::Marks, numbers);
        self.after_mark = false;
    }

    /// Whether a word has more letters or digits at `at`.
    fn goes_on(&self, at: usize) -> bool {
        self.text.get(at).is_some_and(|byte| matches!(BYTES[usize::from(*byte)], Byte::Letter | Byte::Digit))
    }

    /// How many digits stand here by themselves.
    fn plain_number(&self) -> Option<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0 && !self.goes_on(self.at + digits)).then_some(digits)
    }

    /// A run of small letters, capitals and digits: what its words and its numbers cost.
    fn mixed(&mut self) -> (u64, u64) {
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let run = &rest[..length];
        self.at += length;
        if is_opaque(run) {
            self.tally.add(Class::Opaque, length as u64);
            return (0, 0);
        }
        let mut pieces = WordRun::default();
        run.iter().for_each(|byte| pieces.take(*byte));
        pieces.cost()
    }

    /// One space goes with the word after it; more are a token, and so are the ends of lines.
    fn space(&mut self) {
        let (mut lines, mut since) = (0_u64, 0_u64);
        let mut before_digit = false;
        while let Some((class, width)) = self.peek() {
            match class {
                Byte::Line => (lines, since) = (lines + 1, 0),
                Byte::Space => since += 1,
                Byte::Letter | Byte::Digit | Byte::Mark | Byte::Wide => {
                    before_digit = class == Byte::Digit;
                    break;
                }
            }
            self.at += width;
        }
        let line = match lines {
            0 => 0,
            _ if self.after_mark => 300,
            _ => 1_000,
        };
        let indent = if since > 1 || (since == 1 && before_digit) { 1_000 } else { 0 };
        self.tally.add(Class::Marks, line + indent);
        self.after_mark = false;
    }

    /// Punctuation: the last mark before a word mostly goes with it.
    fn marks(&mut self) {
        let first = self.text[self.at];
        let (mut count, mut same) = (0_u64, true);
        while let Some(byte) = self.text.get(self.at) {
            if BYTES[usize::from(*byte)] != Byte::Mark {
                break;
            }
            let mut width = 1;
            if *byte == b'\\' && self.escapes {
                match self.text.get(self.at + 1) {
                    // An escaped line's end, space or character is no mark.
                    Some(b'n' | b'r' | b't' | b'f' | b'b' | b'u') => break,
                    Some(_) => width = 2,
                    None => {}
                }
            }
            same &= *byte == first;
            count += 1;
            self.at += width;
        }
        let before_letter = self.text.get(self.at).is_some_and(|byte| BYTES[usize::from(*byte)] == Byte::Letter);
        self.tally.add(Class::Marks, punctuation_cost(count, same, before_letter));
        self.after_mark = true;
    }

    /// A character beyond ASCII, or a `\u` escape.
    fn wide(&mut self, width: usize) {
        self.after_mark = false;
        let han = han_characters(&self.text[self.at..]);
        if han > 0 {
            self.at += 3 * han;
            self.tally.add(Class::Han, han as u64);
            return;
        }
        let code = if width == 6 { self.escaped() } else { self.decoded() };
        let class = match code {
            0xa0..0x370 => Class::Accented,
            0x370..0x590 => Class::Cyrillic,
            0x590..0x900 => Class::Arabic,
            0x900..0x1100 => Class::Indic,
            0x3040..0x3100 => Class::Kana,
            0x3400..0x4dc0 | 0x4e00..0xa000 | 0xf900..0xfb00 => Class::Han,
            0x1100..0x1200 | 0xac00..0xd7b0 => Class::Hangul,
            0x2010..0x2040 | 0x3000..0x3040 | 0xff00..0xfff0 | 0..0xa0 => {
                self.tally.add(Class::Marks, 900);
                self.after_mark = true;
                return;
            }
            _ => Class::Other,
        };
        self.tally.add(class, 1);
    }

    fn escaped(&mut self) -> u32 {
        let hex = self.text.get(self.at + 2..self.at + 6).and_then(|hex| std::str::from_utf8(hex).ok());
        self.at = (self.at + 6).min(self.text.len());
        hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or(0xfffd)
    }

    fn decoded(&mut self) -> u32 {
        let byte = |n: usize| u32::from(self.text.get(self.at + n).copied().unwrap_or(0)) & 0x3f;
        let lead = u32::from(self.text[self.at]);
        let (code, width) = match lead {
            0xf0.. => ((lead & 0x07) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3), 4),
            0xe0.. => ((lead & 0x0f) << 12 | byte(1) << 6 | byte(2), 3),
            0xc0.. => ((lead & 0x1f) << 6 | byte(1), 2),
            _ => (0xfffd, 1),
        };
        self.at = (self.at + width).min(self.text.len());
        code
    }
}

/// By letters; beyond the table each letter adds the same.
const BY_LETTERS: [u64; 21] = [
    0, 1_000, 1_000, 1_000, 1_010, 1_030, 1_060, 1_100, 1_160, 1_240, 1_330, 1_420, 1_560, 1_700, 1_900, 2_100, 2_350,
    2_600, 2_850, 3_100, 3_350,
];
const EACH_BEYOND: u64 = 250;
/// Capitals alone break up a little sooner.
const EACH_CAPITAL: u64 = 150;
/// A run this long that keeps changing between letters, capitals and digits is no word.
const OPAQUE_FROM: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    #[default]
    Nothing,
    Lower,
    Upper,
    Digit,
}

/// A run of letters and digits: `parseHTML5` is three words and a number.
#[derive(Debug, Default)]
pub(super) struct WordRun {
    last: Last,
    upper: u64,
    lower: u64,
    digits: u64,
    words: u64,
    numbers: u64,
}

impl WordRun {
    #[inline]
    pub(super) fn take(&mut self, byte: u8) {
        let kind = match byte {
            b'a'..=b'z' => Last::Lower,
            b'A'..=b'Z' => Last::Upper,
            _ => Last::Digit,
        };
        if kind != self.last {
            self.turn(kind);
        }
        match kind {
            Last::Lower => self.lower += 1,
            Last::Upper => self.upper += 1,
            Last::Digit | Last::Nothing => self.digits += 1,
        }
    }

    fn turn(&mut self, kind: Last) {
        // A capital goes with the small letters after it; any other change starts a new word.
        if !(kind == Last::Lower && self.last == Last::Upper) {
            self.end();
        }
        self.last = kind;
    }

    fn end(&mut self) {
        self.words += match (self.upper, self.lower) {
            (0, 0) => 0,
            (capitals, 0) => 1_000 + capitals.saturating_sub(3) * EACH_CAPITAL,
            (upper, lower) => by_letters(upper + lower),
        };
        self.numbers += by_digits(self.digits);
        (self.upper, self.lower, self.digits) = (0, 0, 0);
    }

    /// Of the words and of the numbers.
    pub(super) fn cost(mut self) -> (u64, u64) {
        self.end();
        (self.words, self.numbers)
    }
}

/// A word of so many letters.
pub(super) fn by_letters(letters: u64) -> u64 {
    let at = usize::try_from(letters).unwrap_or(usize::MAX);
    match BY_LETTERS.get(at) {
        Some(cost) => *cost,
        None => BY_LETTERS[20] + (letters - 20) * EACH_BEYOND,
    }
}

/// A number of so many digits: three are one token.
pub(super) fn by_digits(digits: u64) -> u64 {
    digits.div_ceil(3) * 1_000
}

/// Whether a run of letters and digits keeps changing between them, as no word does.
pub(super) fn is_opaque(run: &[u8]) -> bool {
    const fn kind(byte: u8) -> u8 {
        // Small letters, capitals and digits differ in these bits.
        byte >> 5
    }
    if run.len() < OPAQUE_FROM {
        return false;
    }
    let changes: usize = run.windows(2).map(|two| usize::from(kind(two[0]) != kind(two[1]))).sum();
    changes * 5 >= run.len()
}

/// A run of punctuation: pairs are mostly one token, the same mark again and again is one for many.
pub(super) fn punctuation_cost(count: u64, same: bool, before_letter: bool) -> u64 {
    if same && count > 3 {
        return 1_000 + count * 60;
    }
    let (alone, joined) = if before_letter { (count - 1, 330) } else { (count, 0) };
    joined
        + match alone {
            0 => 0,
            1 => 920,
            2 => 960,
            3 => 1_100,
            _ => 1_100 + (alone - 3) * 420,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn lowercase_runs_match_a_bytewise_count(text in "[a-zA-Z`{@\\[ é]{0,40}") {
            let one_by_one = text.bytes().take_while(u8::is_ascii_lowercase).count();
            proptest::prop_assert_eq!(small_letters(text.as_bytes()), one_by_one);
        }

        #[test]
        fn tallying_any_text_never_panics(text in ".*", escaped in r#"(\\\\u[0-9a-f]{0,4}|\\\\[nt"\\\\]|[a-zA-Z0-9 é漢]){0,30}"#) {
            let _ = (tally(text.as_bytes(), false), tally(text.as_bytes(), true), tally(escaped.as_bytes(), true));
        }
    }
}
