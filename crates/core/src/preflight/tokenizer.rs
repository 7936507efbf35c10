//! What a class of text costs in each tokenizer, and how far off that may be.

use crate::preflight::classes::{CLASSES, Tally};
use crate::preflight::estimate::Estimate;

/// Tokens are summed in thousandths, so that many short strings do not round up to many tokens.
pub(crate) const MILLI: u64 = 1_000;

/// Whose tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tokenizer {
    /// OpenAI's from GPT-4o on.
    O200k,
    /// OpenAI's of GPT-4 and GPT-3.5.
    Cl100k,
    /// One that nobody outside can look into.
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
    pub(crate) fn tokens(self, tally: &Tally) -> u64 {
        let likely = |(class, (amount, (cost, ..))): (usize, (u64, Cost))| milli(class, amount, cost);
        tally.0.into_iter().zip(self.costs()).enumerate().map(likely).sum::<u64>().div_ceil(MILLI)
    }

    pub(crate) fn estimate(self, tally: &Tally) -> Estimate {
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
