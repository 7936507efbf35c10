//! What Latin words, numbers and punctuation cost by their length, in thousandths of a token. Byte pair encoders have
//! whole tokens for common words, and break rare and long ones up; these curves are fitted to that.

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
        // A capital goes with the small letters after it; everything else begins anew.
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
