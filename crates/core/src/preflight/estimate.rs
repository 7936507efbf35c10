//! Estimates of tokens, from the classes of a text and what each costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preflight::classes::{Tally, tally};
use crate::preflight::tokenizer::Tokenizer;

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
    let mut plain = Tally::default();
    plain.0[0] = 1_000_000;
    let Estimate { tokens: mid, high, .. } = Tokenizer::of(Some(model)).estimate(&plain);
    u64::try_from(u128::from(tokens) * u128::from(mid) / u128::from(high.max(1))).unwrap_or(tokens)
}
