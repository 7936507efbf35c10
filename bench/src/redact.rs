//! Redacting on one core: the texts of typical reports, and what a hostile text costs per byte.

use std::hint::black_box;
use std::time::Instant;

use redrive_core::redact::{Redactor, mask_text};
use redrive_core::text::Text;

use crate::classify::typical;
use crate::figures::{Figures, median};

const REPORTS: usize = 200_000;
const ROUNDS: usize = 5;
const HOSTILE_BYTES: usize = 1 << 20;
const PAYLOAD: &str = r#"{"task":"invoice","customer":{"id":"c-4711","name":"Example GmbH"},"amount":129.90,
"messages":[{"role":"system","content":"You write invoices."},{"role":"user","content":"Write the invoice of May for c-4711."}]}"#;

pub fn measure(figures: &mut Figures) {
    println!("Redacting, one core");
    let texts: Vec<Text> = typical().iter().map(|text| Text::from(text.as_str())).collect();
    let with_secret: Vec<Text> = typical()
        .iter()
        .map(|text| Text::from(format!("{text}\nAuthorization: Bearer 4fT9kQ2mZ8xW1vB7nC3aS5dF").as_str()))
        .collect();
    let rate = median((0..ROUNDS).map(|_| rate(&texts)).collect());
    figures.at_least("reports redacted, none with a secret", rate, "/s", 100_000.0);
    let bytes = texts.iter().map(|text| text.token().len()).sum::<usize>() as f64 / texts.len() as f64;
    let typical_ns = 1e9 / rate / bytes;
    let masked = median((0..ROUNDS).map(|_| self::rate(&with_secret)).collect());
    figures.note("reports redacted, each with a secret", masked, "/s");
    let by =
        Redactor { secrets: true, keys: vec!["ssn".into(), "iban".into()], pointers: vec!["/customer/email".into()] };
    let began = Instant::now();
    for _ in 0..REPORTS {
        black_box(by.json(black_box(PAYLOAD)));
    }
    figures.note("payloads of 250 B redacted by policy", REPORTS as f64 / began.elapsed().as_secs_f64(), "/s");
    let mut worst: f64 = 0.0;
    for piece in [
        "a",
        "sk-",
        "sk-sk_",
        "eyJ-",
        "api_key=",
        "://a:",
        "authorization=",
        "bearer ",
        "password='",
        "-----BEGIN PRIVATE KEY-----",
    ] {
        let text = Text::from(piece.repeat(HOSTILE_BYTES / piece.len()).as_str());
        let began = Instant::now();
        black_box(mask_text(&text));
        let ns = began.elapsed().as_nanos() as f64 / HOSTILE_BYTES as f64;
        worst = worst.max(ns / typical_ns);
    }
    figures.at_most("hostile text, a byte to a typical one's, at worst", worst, "x", 50.0);
}

/// A message and a detail each, as most reports have.
fn rate(texts: &[Text]) -> f64 {
    let name = Text::from("openai.APITimeoutError");
    let began = Instant::now();
    for text in texts.iter().cycle().take(REPORTS) {
        black_box(mask_text(black_box(&name)));
        black_box(mask_text(black_box(text)));
    }
    REPORTS as f64 / began.elapsed().as_secs_f64()
}
