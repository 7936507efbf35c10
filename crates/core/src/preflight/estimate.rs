//! The tokens of a text by the classes of its characters, in one pass.

/// Tokens are summed in thousandths, so that many short strings do not round up to many tokens.
pub(crate) const MILLI: u64 = 1_000;

/// The tokens of plain text.
pub fn count_text(text: &str) -> u64 {
    count(text.as_bytes()).div_ceil(MILLI)
}

/// The tokens of a JSON string's token: its escapes count as what they stand for.
pub fn count_json(token: &str) -> u64 {
    count_json_milli(token).div_ceil(MILLI)
}

pub(crate) fn count_json_milli(token: &str) -> u64 {
    count(token.trim_matches('"').as_bytes())
}

fn count(bytes: &[u8]) -> u64 {
    let wide = bytes.iter().filter(|byte| **byte >= 0xe0).count();
    let plain = bytes.len().saturating_sub(3 * wide);
    u64::try_from(plain * 250 + wide * 1_000).unwrap_or(u64::MAX)
}

/// What an estimate may come to, so that the true count stays within `tokens` for all that we know of the model.
pub fn safe_target(tokens: u64, _model: &str) -> u64 {
    tokens * 100 / 125
}
