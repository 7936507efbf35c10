//! How closely a text is read. A payload of a megabyte and more says the same with half of it read: of each pair of windows
//! in a long text one is counted, and stands for both. What that may cost in truth widens the bounds.

use crate::json::{At, Kind, Tape};
use crate::preflight::classes::{Tally, tally};
use crate::preflight::estimate::Estimate;
use crate::preflight::weigh::{inside, tally_of};

const HALF_FROM_BYTES: usize = 1 << 20;
const WINDOW_BYTES: usize = 512;
/// A text with fewer pairs than these is read whole.
const PAIRS_MIN: usize = 2;
/// How far off the half may be from the whole, in percent.
const OFF_PERCENT: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reading {
    #[default]
    Whole,
    Half,
}

impl Reading {
    pub(super) fn of(payload: &str) -> Self {
        if payload.len() < HALF_FROM_BYTES { Self::Whole } else { Self::Half }
    }

    /// Of a text as it is.
    pub(super) fn text(self, text: &str) -> Tally {
        match self {
            Self::Whole => tally(text.as_bytes(), false),
            Self::Half => half(text.as_bytes(), false),
        }
    }

    /// Of one text in a request.
    pub(crate) fn tally(self, tape: &Tape<'_>, at: At) -> Tally {
        match (self, tape.kind(at)) {
            (Self::Half, Kind::String) => half(inside(tape, at), true),
            (Self::Half, Kind::Object | Kind::Array | Kind::Other) | (Self::Whole, _) => tally_of(tape, at),
        }
    }

    /// The bounds that an estimate has by this reading.
    pub(super) fn bounds(self, of: Estimate) -> Estimate {
        match self {
            Self::Whole => of,
            Self::Half => Estimate {
                low: of.low * (100 - OFF_PERCENT) / 100,
                high: (of.high * (100 + OFF_PERCENT)).div_ceil(100),
                ..of
            },
        }
    }
}

fn half(text: &[u8], escapes: bool) -> Tally {
    if text.len() < PAIRS_MIN * 2 * WINDOW_BYTES {
        return tally(text, escapes);
    }
    let (mut sum, mut read) = (Tally::default(), 0);
    for (n, pair) in text.chunks(2 * WINDOW_BYTES).enumerate() {
        let (first, second) = pair.split_at(WINDOW_BYTES.min(pair.len()));
        // By the bits of the pair's number: no text goes up and down in that rhythm.
        let window = if n.count_ones() % 2 == 0 || second.is_empty() { first } else { second };
        let window = from_a_character(window);
        sum += tally(window, escapes);
        read += window.len() as u64;
    }
    Tally(sum.0.map(|amount| amount * text.len() as u64 / read.max(1)))
}

/// A window may begin inside a character.
fn from_a_character(window: &[u8]) -> &[u8] {
    let rest = window.iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    &window[rest..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Tokenizer;

    const KINDS: [&str; 6] = [
        "The night shift began quietly, and nobody expected the phones to ring before morning. ",
        "    if let Some(found) = self.map.get(&key) {\n        return Ok(found.clone());\n    }\n",
        r#"{"id":4711,"state":"open","total":19.99,"tags":["a","b"]},"#,
        "夜班开始得很安静，谁也没想到天亮之前电话会响。",
        "aGVsbG8gd29ybGQh4oCmU29tZSBieXRlcyBoZXJl",
        "Ночная смена началась тихо, и никто не ждал звонков до утра. ",
    ];

    /// Of pieces of every kind, each as long as chance will have it.
    fn mixed(seed: u64, piece_max: u64) -> String {
        let (mut text, mut chance) = (String::new(), seed);
        while text.len() < HALF_FROM_BYTES {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let kind = KINDS[(chance >> 33) as usize % KINDS.len()];
            let length = (chance >> 40) % piece_max;
            text.extend(kind.chars().cycle().take(length as usize));
        }
        text
    }

    #[test]
    fn half_of_a_large_text_says_what_the_whole_does() {
        let texts = (1..=3).flat_map(|seed| [100, 512, 3_000, 20_000].map(|piece_max| mixed(seed, piece_max)));
        let plain = KINDS.map(|kind| kind.repeat(HALF_FROM_BYTES / kind.len() + 1));
        for text in texts.chain(plain) {
            assert_eq!(Reading::of(&text), Reading::Half);
            let [whole, half] = [Reading::Whole, Reading::Half]
                .map(|reading| reading.bounds(Tokenizer::O200k.estimate(&reading.text(&text))));
            let off = half.tokens.abs_diff(whole.tokens) * 100 / whole.tokens;
            assert!(off < OFF_PERCENT, "{off} % off: {whole:?} {half:?}");
            assert!(half.low <= whole.low && whole.high <= half.high, "{whole:?} {half:?}");
        }
    }

    #[test]
    fn a_small_text_is_read_whole() {
        let text = KINDS[0].repeat(20);
        assert_eq!(Reading::of(&text), Reading::Whole);
        assert_eq!(Reading::Half.text(&text), Reading::Whole.text(&text));
    }
}
