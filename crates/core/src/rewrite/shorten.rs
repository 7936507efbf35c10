//! Shortening a text inside its JSON token: the middle goes, beginning and end stay, and a mark says how much is gone.
//! The cut never falls into an escape, a pair of surrogates or a character.

use crate::preflight::{Tokenizer, count_json};

/// A text is not cut below this.
pub(crate) const SHORTEST_TOKENS: u64 = 32;
/// What the mark itself costs at most.
const MARK_TOKENS: u64 = 16;

/// A string token of about `to` tokens, and never more; none when it is short enough or can't be that short.
pub(crate) fn shortened(token: &str, tokens: u64, to: u64, tokenizer: Tokenizer) -> Option<String> {
    let inner = token.strip_prefix('"')?.strip_suffix('"')?;
    if tokens <= to || to < SHORTEST_TOKENS {
        return None;
    }
    let mut best: Option<String> = None;
    let mut keep = share(inner.len(), to - MARK_TOKENS, tokens);
    // Text is uneven: the kept part may weigh more or less than its share of the bytes.
    for _ in 0..6 {
        let short = without_middle(inner, keep, tokens.saturating_sub(to));
        let weighs = count_json(&short, tokenizer);
        let fits = weighs <= to;
        if fits && best.as_ref().is_none_or(|best| best.len() < short.len()) {
            best = Some(short);
        }
        if fits && weighs + to / 50 >= to {
            break;
        }
        let aim = if fits { to - to / 100 } else { to - to / 50 };
        let next = share(keep, aim.saturating_sub(MARK_TOKENS), weighs.saturating_sub(MARK_TOKENS).max(1));
        keep = next.min(inner.len());
    }
    best
}

fn share(bytes: usize, part: u64, whole: u64) -> usize {
    usize::try_from(bytes as u128 * u128::from(part) / u128::from(whole.max(1))).unwrap_or(bytes)
}

/// Three quarters of the kept text are its beginning.
fn without_middle(inner: &str, keep: usize, gone: u64) -> String {
    let head = cut_at(inner, keep - keep / 4, false);
    let tail = cut_at(inner, inner.len() - keep / 4, true).max(head);
    format!("\"{}\\n[… about {gone} tokens left out …]\\n{}\"", &inner[..head], &inner[tail..])
}

/// The nearest place to `at` where a token may be cut: before it, or, for an end that is kept, after it.
fn cut_at(inner: &str, at: usize, forward: bool) -> usize {
    let mut at = at.min(inner.len());
    while !inner.is_char_boundary(at) {
        at = if forward { at + 1 } else { at - 1 };
    }
    // The longest escape is a pair of surrogates, twelve bytes: look back from well before it.
    let bytes = inner.as_bytes();
    let mut safe = run_start(bytes, at.saturating_sub(32));
    while safe < at {
        let width = escape_width(&bytes[safe..]);
        if safe + width > at {
            return if forward { (safe + width).min(inner.len()) } else { safe };
        }
        safe += width;
    }
    at
}

/// A place at or before `from` that is not inside an escape: right after an even run of backslashes, or with none before.
fn run_start(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        let slashes = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        let in_unicode = (1..=11)
            .filter(|back| at >= *back)
            .any(|back| bytes.get(at - back) == Some(&b'\\') && bytes.get(at - back + 1) == Some(&b'u'));
        if slashes % 2 == 0 && !in_unicode {
            return at;
        }
        if at == 0 {
            return 0;
        }
        at -= 1;
    }
}

/// How many bytes the character or escape at the start takes; a pair of surrogates is one.
fn escape_width(bytes: &[u8]) -> usize {
    match bytes {
        [b'\\', b'u', ..] => {
            let unit = |at: usize| {
                let hex = bytes.get(at..at + 4).and_then(|hex| std::str::from_utf8(hex).ok());
                hex.and_then(|hex| u16::from_str_radix(hex, 16).ok())
            };
            let leads = unit(2).is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
            let trails =
                bytes.get(6..8) == Some(b"\\u") && unit(8).is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
            if leads && trails { 12 } else { 6 }
        }
        [b'\\', ..] => 2,
        [first, ..] if *first >= 0xf0 => 4,
        [first, ..] if *first >= 0xe0 => 3,
        [first, ..] if *first >= 0xc0 => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shortened_texts_are_valid_tokens_that_fit(
            pieces in prop::collection::vec("[a-z ]{0,9}|[é漢😀]{1,4}|(\\\\\\\\|\\\\n|\\\\\"|\\\\ud83d|\\\\ud83d\\\\ude00|\\\\u0000){1,5}", 40..200),
            to in 32_u64..200,
        ) {
            let token = format!("\"{}\"", pieces.concat());
            let tokens = count_json(&token, Tokenizer::O200k);
            if let Some(short) = shortened(&token, tokens, to, Tokenizer::O200k) {
                prop_assert!(serde_json::from_str::<&serde_json::value::RawValue>(&short).is_ok(), "{short}");
                prop_assert!(count_json(&short, Tokenizer::O200k) <= to);
                // A pair of surrogates is kept whole or not at all.
                let halves = |text: &str| text.matches("\\ude00").count() - text.matches("\\ud83d\\ude00").count();
                prop_assert_eq!(halves(&short), 0, "{}", short);
            } else {
                prop_assert!(tokens <= to || to < 60, "{tokens} could have been {to}");
            }
        }
    }

    #[test]
    fn shortening_keeps_beginning_and_end() {
        let token = format!("\"begin {} end\"", "middle ".repeat(500));
        let short = shortened(&token, count_json(&token, Tokenizer::O200k), 100, Tokenizer::O200k).unwrap();
        assert!(short.starts_with("\"begin ") && short.ends_with(" end\"") && short.contains("tokens left out"));
    }
}
