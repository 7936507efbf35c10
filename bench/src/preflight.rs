//! Preflight and compression of a 2 MB request: what it adds to a start.

use std::hint::black_box;
use std::time::Instant;

use redrive_core::models::Models;
use redrive_core::policy::PayloadShape;
use redrive_core::preflight::{Asked, check};
use redrive_core::rewrite::rewrite;
use redrive_core::verdict::Change;

use crate::figures::{Figures, median};

const BYTES: usize = 2_000_000;
const ROUNDS: usize = 31;

pub fn measure(figures: &mut Figures) {
    println!("Preflight of 2 MB, one core");
    let models = Models::builtin();
    let shape = PayloadShape::default();
    let mut worst: f64 = 0.0;
    for (name, text) in texts() {
        let payload = conversation(&text);
        let ms = timed(|| {
            let asked = Asked { payload: &payload, shape: &shape, model: None, output_tokens: None, calibration: None };
            black_box(check(&asked, &models));
        });
        figures.note(format!("preflight of {:.1} MB of {name}", payload.len() as f64 / 1e6), ms, "ms");
        worst = worst.max(ms);
    }
    figures.at_most("preflight of 2 MB, at worst", worst, "ms", 5.0);
    let payload = conversation(&texts().swap_remove(0).1);
    let change = [Change::CompressContext { to_tokens: Some(100_000) }];
    let ms = timed(|| {
        black_box(rewrite(&payload, &shape, &change, None, &models));
    });
    figures.at_most("compressing 2 MB to 100,000 tokens", ms, "ms", 50.0);
}

fn timed(mut act: impl FnMut()) -> f64 {
    act();
    let each = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        act();
        began.elapsed().as_secs_f64() * 1e3
    });
    median(each.collect())
}

/// A long agent's conversation with tools, each message about 4 kB.
fn conversation(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut messages = vec![r#"{"role":"system","content":"Be kind."}"#.to_owned()];
    let mut bytes = 0;
    for n in 0.. {
        if bytes >= BYTES {
            break;
        }
        messages.push(format!(r#"{{"role":"user","content":{quoted}}}"#));
        messages.push(format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_{n}","type":"function","function":{{"name":"find","arguments":"{{}}"}}}}]}}"#
        ));
        messages.push(format!(r#"{{"role":"tool","tool_call_id":"call_{n}","content":{quoted}}}"#));
        bytes += 2 * quoted.len();
    }
    format!(r#"{{"model":"gpt-4.1","messages":[{}]}}"#, messages.join(","))
}

fn texts() -> Vec<(&'static str, String)> {
    let of = |piece: &str| piece.repeat(4_000 / piece.len());
    vec![
        ("English", of("The night shift began quietly, and nobody expected the phones to ring before morning. ")),
        ("code", of("    if let Some(found) = self.map.get(&key) {\n        return Ok(found.clone());\n    }\n")),
        ("JSON", of(r#"{"id":4711,"state":"open","total":19.99,"tags":["a","b"]},"#)),
        ("Chinese", of("夜班开始得很安静，谁也没想到天亮之前电话会响。")),
        ("base64", of("aGVsbG8gd29ybGQh4oCmU29tZSBieXRlcyBoZXJl")),
    ]
}
