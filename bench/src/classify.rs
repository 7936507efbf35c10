//! Classifying and fingerprinting on one core: typical errors of 500 B, and what a hostile text costs per byte.

use std::hint::black_box;
use std::time::Instant;

use redrive_core::classify::{Evidence, classify};
use redrive_core::pattern::fingerprint;

use crate::figures::{Figures, median};

const TYPICAL: usize = 200_000;
const ROUNDS: usize = 5;
const HOSTILE_BYTES: usize = 1 << 20;

pub fn measure(figures: &mut Figures) {
    println!("Classifying and fingerprinting, one core");
    let texts = typical();
    let bytes = texts.iter().map(String::len).sum::<usize>() as f64 / texts.len() as f64;
    let rate = median((0..ROUNDS).map(|_| rate(&texts, TYPICAL)).collect());
    figures.note("typical error", bytes, "B");
    figures.at_least("classified and fingerprinted", rate, "/s", 100_000.0);
    let typical_ns = 1e9 / rate / bytes;
    let mut worst: f64 = 0.0;
    for (name, text) in hostile() {
        let each = median((0..ROUNDS).map(|_| rate_of(&text, 20)).collect());
        let ns = 1e9 / each / text.len() as f64;
        figures.note(format!("1 MiB of {name}, a byte to a typical one's"), ns / typical_ns, "x");
        worst = worst.max(ns / typical_ns);
    }
    figures.at_most("hostile text, a byte to a typical one's, at worst", worst, "x", 2.0);
}

fn both(text: &str) {
    let evidence = Evidence { text, ..Evidence::default() };
    let classified = classify(black_box(&evidence));
    black_box(fingerprint(&evidence, &classified.reason));
}

fn rate(texts: &[String], count: usize) -> f64 {
    let began = Instant::now();
    for text in texts.iter().cycle().take(count) {
        both(text);
    }
    count as f64 / began.elapsed().as_secs_f64()
}

fn rate_of(text: &str, count: usize) -> f64 {
    let began = Instant::now();
    for _ in 0..count {
        both(text);
    }
    count as f64 / began.elapsed().as_secs_f64()
}

/// Errors as agents leave them, about 500 B each.
fn typical() -> Vec<String> {
    let trace = "Traceback (most recent call last):\n  File \"/app/agents/biller.py\", line 118, in charge\n    answer = client.chat(messages)\n  File \"/usr/lib/python3.12/site-packages/openai/_client.py\", line 1047, in request\n    raise self._make_status_error(err.response)\n  File \"/app/agents/retry.py\", line 52, in attempt\n    return await self.call(messages, timeout=self.timeout_s)\n";
    [
        "openai.APITimeoutError: Request timed out after 60.0 seconds (request id req_8f3a91bc77d24e0f9a1b)",
        "openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29120. Please try again in 2.4s.', 'code': 'rate_limit_exceeded'}}",
        "anthropic.BadRequestError: Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', 'message': 'prompt is too long: 210412 tokens > 200000 maximum'}}",
        "KeyError: 'invoice_4711'",
        "psycopg.errors.UniqueViolation: duplicate key value violates unique constraint \"orders_pkey\" DETAIL: Key (id)=(99182) already exists.",
        "ConnectionRefusedError: [Errno 111] Connection refused: ('10.0.12.7', 5432)",
    ]
    .iter()
    .map(|last| format!("{trace}{last}"))
    .collect()
}

fn hostile() -> Vec<(&'static str, String)> {
    let of = |piece: &str| piece.repeat(HOSTILE_BYTES / piece.len());
    vec![
        ("one letter", of("a")),
        ("digits", of("7")),
        ("quotes", of("\"'`")),
        ("braces", of("{[(")),
        ("rule words", of("timeout rate limit quota ")),
        ("half words", of("rate limi rate limi")),
        ("stack frames", of("  File \"/a/b.py\", line 1, in f\n")),
        ("ids", of("req_8f3a91bc-77d2 ")),
    ]
}
