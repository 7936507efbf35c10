//! Estimates against real tokenizers: the truth lies between the figures that we state, for every kind of text we know of.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use redrive_core::preflight::{Estimate, Tokenizer, estimate_text};
use tiktoken_rs::{CoreBPE, cl100k_base, o200k_base};

/// A text, and how far apart the stated bounds may be, in percent of the estimate.
type Sample = (&'static str, &'static str, u64);

const PROSE: &[Sample] = &[
    ("english", include_str!("tokens/english.txt"), 35),
    ("markdown", include_str!("tokens/markdown.txt"), 35),
    ("german", include_str!("tokens/german.txt"), 55),
    ("french", include_str!("tokens/french.txt"), 65),
    ("spanish", include_str!("tokens/spanish.txt"), 65),
    ("russian", include_str!("tokens/russian.txt"), 55),
    ("arabic", include_str!("tokens/arabic.txt"), 65),
    ("hindi", include_str!("tokens/hindi.txt"), 65),
];
const CODE: &[Sample] = &[
    ("python", include_str!("tokens/python.txt"), 40),
    ("typescript", include_str!("tokens/typescript.txt"), 40),
    ("rust", include_str!("tokens/rust.txt"), 40),
    ("more rust", include_str!("tokens/more_rust.txt"), 40),
    ("sql", include_str!("tokens/sql.txt"), 40),
    ("toml", include_str!("../../redrive/src/config/example.toml"), 40),
];
const DATA: &[Sample] = &[
    ("json", include_str!("tokens/agent.json"), 40),
    ("a schema", include_str!("../../../docs/openapi.json"), 40),
    ("a table", include_str!("../src/models/catalogue.json"), 40),
    ("logs", include_str!("tokens/logs.txt"), 40),
    ("a lock file", include_str!("../../../Cargo.lock"), 40),
    ("base64", include_str!("tokens/base64.txt"), 45),
];
const CJK: &[Sample] = &[
    ("chinese", include_str!("tokens/chinese.txt"), 50),
    ("japanese", include_str!("tokens/japanese.txt"), 52),
    ("korean", include_str!("tokens/korean.txt"), 52),
];

fn real(bpe: &CoreBPE, text: &str) -> u64 {
    bpe.encode_ordinary(text).len() as u64
}

fn assert_within(name: &str, Estimate { tokens, low, high }: Estimate, real: u64, apart: u64) {
    assert!((low..=high).contains(&real), "{name}: {real} is not from {low} to {high} (estimate {tokens})");
    assert!((high - low) * 100 <= tokens * apart, "{name}: {low} to {high} says too little about {tokens}");
}

fn hold(samples: &[Sample]) {
    let (o200k, cl100k) = (o200k_base().unwrap(), cl100k_base().unwrap());
    for (name, text, apart) in samples {
        let (newer, older) = (real(&o200k, text), real(&cl100k, text));
        assert_within(name, estimate_text(text, Tokenizer::O200k), newer, *apart);
        assert_within(name, estimate_text(text, Tokenizer::Cl100k), older, *apart);
        let any = estimate_text(text, Tokenizer::Unknown);
        assert!(any.low <= newer.min(older) && newer.max(older) <= any.high, "{name}: {any:?} {newer} {older}");
    }
}

#[test]
fn prose_is_within_its_bound() {
    hold(PROSE);
}

#[test]
fn code_is_within_its_bound() {
    hold(CODE);
}

#[test]
fn data_is_within_its_bound() {
    hold(DATA);
}

#[test]
fn chinese_japanese_and_korean_are_within_their_bound() {
    hold(CJK);
}

/// Printed with `--nocapture`: the figures that docs/preflight.md states.
#[test]
fn estimates_stay_within_the_documented_error() {
    let (o200k, cl100k) = (o200k_base().unwrap(), cl100k_base().unwrap());
    for (name, text, _) in [PROSE, CODE, DATA, CJK].concat() {
        let mut line = format!("{name:12}");
        for (bpe, tokenizer) in [(&o200k, Tokenizer::O200k), (&cl100k, Tokenizer::Cl100k)] {
            let (real, estimate) = (real(bpe, text), estimate_text(text, tokenizer).tokens);
            let off = (estimate as f64 / real as f64 - 1.0) * 100.0;
            line += &format!("  {tokenizer:?} {real:6} {estimate:6} {off:+5.1} %");
            let most = if name == "german" || name == "base64" { 25.0 } else { 12.0 };
            assert!(off.abs() <= most, "{line}");
        }
        eprintln!("{line}");
    }
}
