//! Token estimates: what each class of characters costs per tokenizer, and the error bounds of that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tally::{CLASSES, ClassTally, tally};

/// Tokens are summed in thousandths, so that many short strings do not round up to many tokens.
pub(crate) const MILLI: u64 = 1_000;

/// Whose tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tokenizer {
    /// OpenAI's from GPT-4o on.
    O200k,
    /// OpenAI's of GPT-4 and GPT-3.5.
    Cl100k,
    /// A proprietary tokenizer.
    #[default]
    Unknown,
}

/// An image or a file is billed by its size in pixels or pages, which its bytes do not tell: a middling one.
const MEDIA: Cost = (1_100_000, 92, 100);

/// A class's cost in thousandths: what is likely, and the percentages below and above it that may be true.
type Cost = (u64, u64, u64);

impl Tokenizer {
    /// The tokenizer of a model, by its name.
    pub fn of(model: Option<&str>) -> Self {
        let Some(model) = model else { return Self::Unknown };
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        let begins = |with: &[&str]| with.iter().any(|start| name.starts_with(start));
        if begins(&["gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "chatgpt-4o", "o1", "o3", "o4"]) {
            Self::O200k
        } else if begins(&["gpt-4", "gpt-3.5"]) {
            Self::Cl100k
        } else {
            Self::Unknown
        }
    }

    /// In the order of the classes.
    fn costs(self) -> [Cost; CLASSES] {
        match self {
            Self::O200k => [
                (1_000, 12, 14),
                (1_000, 20, 20),
                (700, 20, 20),
                (700, 60, 90),
                (275, 25, 25),
                (375, 30, 30),
                (720, 20, 25),
                (760, 25, 25),
                (730, 25, 25),
                (380, 30, 30),
                (1_800, 60, 60),
                MEDIA,
            ],
            Self::Cl100k => [
                (1_000, 12, 14),
                (1_000, 20, 20),
                (730, 20, 20),
                (1_900, 60, 140),
                (500, 25, 25),
                (890, 30, 30),
                (1_080, 20, 25),
                (1_030, 25, 25),
                (1_300, 25, 25),
                (1_290, 30, 30),
                (2_400, 60, 60),
                MEDIA,
            ],
            Self::Unknown => [
                (1_100, 22, 30),
                (1_050, 25, 30),
                (760, 30, 35),
                (1_400, 70, 130),
                (400, 45, 60),
                (600, 50, 70),
                (900, 35, 45),
                (880, 35, 45),
                (950, 40, 55),
                (750, 60, 90),
                (2_200, 70, 70),
                MEDIA,
            ],
        }
    }

    /// What is likely, rounded up.
    pub(crate) fn tokens(self, tally: &ClassTally) -> u64 {
        let likely = |(class, (amount, (cost, ..))): (usize, (u64, Cost))| milli(class, amount, cost);
        tally.0.into_iter().zip(self.costs()).enumerate().map(likely).sum::<u64>().div_ceil(MILLI)
    }

    pub(crate) fn estimate(self, tally: &ClassTally) -> Estimate {
        let (mut low, mut high) = (0, 0);
        for (class, (amount, (cost, below, above))) in tally.0.into_iter().zip(self.costs()).enumerate() {
            let likely = milli(class, amount, cost);
            low += likely * (100 - below) / 100;
            high += likely * (100 + above) / 100;
        }
        Estimate { tokens: self.tokens(tally), low: low / MILLI, high: high.div_ceil(MILLI) }
    }
}

/// The first two classes are counted in thousandths already.
fn milli(class: usize, amount: u64, cost: u64) -> u64 {
    if class < 2 { amount * cost / MILLI } else { amount * cost }
}

/// How many tokens there are likely to be, and between what figures they are for all that can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    pub tokens: u64,
    pub low: u64,
    pub high: u64,
}

/// Estimates plain text.
pub fn estimate_text(text: &str, tokenizer: Tokenizer) -> Estimate {
    tokenizer.estimate(&tally(text.as_bytes(), false))
}

/// The tokens of plain text.
pub fn count_text(text: &str, tokenizer: Tokenizer) -> u64 {
    tokenizer.tokens(&tally(text.as_bytes(), false))
}

/// The tokens of a JSON string's token: its escapes count as what they stand for.
pub fn count_json(token: &str, tokenizer: Tokenizer) -> u64 {
    let inner = token.strip_prefix('"').and_then(|token| token.strip_suffix('"')).unwrap_or(token);
    tokenizer.tokens(&tally(inner.as_bytes(), true))
}

/// What an estimate may come to, so that the true count stays within `tokens` for ordinary text.
pub fn safe_target(tokens: u64, model: &str) -> u64 {
    let mut plain = ClassTally::default();
    plain.0[0] = 1_000_000;
    let Estimate { tokens: mid, high, .. } = Tokenizer::of(Some(model)).estimate(&plain);
    u64::try_from(u128::from(tokens) * u128::from(mid) / u128::from(high.max(1))).unwrap_or(tokens)
}
