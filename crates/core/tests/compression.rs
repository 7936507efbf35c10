//! Compression over made-up histories of 1,000 to 500,000 tokens with tools, in both formats: it fits, no call or result
//! is left alone, system and last turn stay, and no more is left out than has to be.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::HashSet;

use proptest::prelude::*;
use redrive_core::json::Tape;
use redrive_core::models::Models;
use redrive_core::policy::PayloadShape;
use redrive_core::rewrite::{Room, measure, rewrite};
use redrive_core::verdict::Change;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    OpenAi,
    Anthropic,
}

/// One exchange: words asked, rounds of parallel calls with the words of their results, words answered.
#[derive(Debug, Clone)]
struct Turn {
    asked: usize,
    rounds: Vec<Vec<usize>>,
    answered: usize,
}

#[derive(Debug, Clone)]
struct History {
    format: Format,
    turns: Vec<Turn>,
    /// The last turn ends in tool results, as in the middle of an agent's work.
    open: bool,
    /// Of what lies between the floor and all of it.
    keep: f64,
}

fn turn(words: usize) -> impl Strategy<Value = Turn> {
    let rounds = prop::collection::vec(prop::collection::vec(1..words.max(2), 1..4), 0..4);
    (1..words.max(2), rounds, 1..words.max(2)).prop_map(|(asked, rounds, answered)| Turn { asked, rounds, answered })
}

fn history() -> impl Strategy<Value = History> {
    let format = prop_oneof![Just(Format::OpenAi), Just(Format::Anthropic)];
    // From a few hundred words in all to some hundred thousand, small ones as often as large ones.
    let size =
        prop_oneof![(10_usize..80, 3_usize..20), (100_usize..1_000, 3_usize..30), (2_000_usize..10_000, 4_usize..10)];
    (format, size.prop_flat_map(|(words, turns)| prop::collection::vec(turn(words), turns)), any::<bool>(), 0.1..0.95)
        .prop_map(|(format, turns, open, keep)| History { format, turns, open, keep })
}

fn words(n: usize, seed: usize) -> String {
    const WORDS: [&str; 12] = [
        "invoice",
        "the",
        "customer",
        "paid",
        "42",
        "records,",
        "not",
        "found\\n",
        "e\\u0301t\\u00e9",
        "\\ud83d\\ude00",
        "total:",
        "{\\\"id\\\":7}",
    ];
    let mut text = String::new();
    for at in 0..n {
        text.push_str(WORDS[(at * 7 + seed * 5 + at / 13) % WORDS.len()]);
        text.push(' ');
    }
    text
}

/// The payload, written by hand so that escapes are as they would come.
fn payload(history: &History) -> String {
    let mut messages = Vec::new();
    let mut id = 0;
    let open_from = history.turns.len() - 1;
    for (n, turn) in history.turns.iter().enumerate() {
        messages.push(format!(r#"{{"role":"user","content":"{n}: {}"}}"#, words(turn.asked, n)));
        let rounds =
            if n == open_from && history.open && turn.rounds.is_empty() { &vec![vec![3]] } else { &turn.rounds };
        for round in rounds {
            let ids: Vec<String> = round
                .iter()
                .map(|_| {
                    id += 1;
                    format!("call_{id}")
                })
                .collect();
            round_of(history.format, &ids, round, &mut messages);
        }
        if n != open_from || !(history.open || turn.rounds.is_empty()) {
            messages.push(format!(r#"{{"role":"assistant","content":"{}"}}"#, words(turn.answered, n + 1)));
        }
    }
    let list = messages.join(", ");
    match history.format {
        Format::OpenAi => format!(
            r#"{{"model":"gpt-4o","messages":[{{"role":"system","content":"Be kind."}},{list}],"temperature":0.70}}"#
        ),
        Format::Anthropic => format!(
            r#"{{"model":"claude-sonnet-4-5","max_tokens":1000,"system":"Be kind.","messages":[{list}],"temperature":0.70}}"#
        ),
    }
}

fn round_of(format: Format, ids: &[String], results: &[usize], messages: &mut Vec<String>) {
    match format {
        Format::OpenAi => {
            let calls: Vec<String> = ids
                .iter()
                .map(|id| {
                    format!(r#"{{"id":"{id}","type":"function","function":{{"name":"find","arguments":"{{}}"}}}}"#)
                })
                .collect();
            messages.push(format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(",")));
            for (id, n) in ids.iter().zip(results) {
                messages.push(format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{}"}}"#, words(*n, *n)));
            }
        }
        Format::Anthropic => {
            let calls: Vec<String> = ids
                .iter()
                .map(|id| format!(r#"{{"type":"tool_use","id":"{id}","name":"find","input":{{}}}}"#))
                .collect();
            messages.push(format!(r#"{{"role":"assistant","content":[{}]}}"#, calls.join(",")));
            let given: Vec<String> = ids
                .iter()
                .zip(results)
                .map(|(id, n)| {
                    format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"{}"}}"#, words(*n, *n))
                })
                .collect();
            messages.push(format!(r#"{{"role":"user","content":[{}]}}"#, given.join(",")));
        }
    }
}

fn room(payload: &str) -> Room {
    measure(payload, &PayloadShape::default()).unwrap()
}

fn raw_messages(payload: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Request {
        messages: Vec<Box<RawValue>>,
    }
    serde_json::from_str::<Request>(payload).unwrap().messages.iter().map(|raw| raw.get().to_owned()).collect()
}

fn ids(value: &Value, calls: &mut Vec<String>, results: &mut Vec<String>) {
    for call in value["tool_calls"].as_array().into_iter().flatten() {
        calls.push(call["id"].as_str().unwrap().into());
    }
    results.extend(value["tool_call_id"].as_str().map(Into::into));
    for block in value["content"].as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_use") => calls.push(block["id"].as_str().unwrap().into()),
            Some("tool_result") => results.push(block["tool_use_id"].as_str().unwrap().into()),
            _ => {}
        }
    }
}

/// Calls are answered at once and answers were asked for; Anthropic's roles alternate and begin with the user.
fn assert_valid(format: Format, messages: &[Value]) {
    let mut open: HashSet<String> = HashSet::new();
    for message in messages {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        ids(message, &mut calls, &mut results);
        for id in &results {
            assert!(open.remove(id), "a result without its call: {id}");
        }
        assert!(results.is_empty() || calls.is_empty());
        assert!(!results.is_empty() || open.is_empty(), "a call without its result: {open:?}");
        open.extend(calls);
    }
    assert!(open.is_empty(), "a call without its result: {open:?}");
    if format == Format::Anthropic {
        let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles.first(), Some(&"user"));
        assert!(roles.windows(2).all(|two| two[0] != two[1]), "{roles:?}");
    }
}

fn check(history: &History) -> Result<(), TestCaseError> {
    let before = payload(history);
    let Room { tokens, floor_tokens, .. } = room(&before);
    let between = tokens.saturating_sub(floor_tokens);
    if between < 200 {
        return Ok(());
    }
    let target = floor_tokens + (between as f64 * history.keep) as u64;
    let change = Change::CompressContext { to_tokens: Some(target) };
    let rewritten = rewrite(&before, &PayloadShape::default(), &[change], None, &Models::builtin());
    prop_assert_eq!(rewritten.not_applied().count(), 0, "{:?}", rewritten.changes);
    let after = rewritten.payload;
    prop_assert!(Tape::of(&after).is_some());
    let now = room(&after).tokens;
    prop_assert!(now <= target, "{now} tokens do not fit {target}");

    let (old, new) = (raw_messages(&before), raw_messages(&after));
    let values: Vec<Value> = new.iter().map(|raw| serde_json::from_str(raw).unwrap()).collect();
    assert_valid(history.format, &values);
    let known: HashSet<&String> = old.iter().collect();
    for raw in new.iter().filter(|raw| !known.contains(raw)) {
        prop_assert!(raw.contains("tokens left out") || raw.contains("left out to fit"), "changed: {raw}");
    }
    // The requester's last message, its ids, and everything around the messages.
    let asked = old.iter().rfind(|raw| raw.starts_with(r#"{"role":"user","content":""#)).unwrap();
    prop_assert!(new.contains(asked), "the last ask is gone");
    prop_assert_eq!(new.last().unwrap()[..20].to_owned(), old.last().unwrap()[..20].to_owned());
    let around = after.contains("Be kind.") && after.ends_with(r#""temperature":0.70}"#);
    prop_assert!(around, "what is around the messages has changed");
    // No more than 5 % under; in small requests no more than one round of short results, which goes whole or not at all.
    let waste = target - now;
    prop_assert!(waste <= (target / 20).max(200), "{now} tokens waste the room of {target}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn compressed_histories_fit_and_stay_valid(history in history()) {
        check(&history)?;
    }
}

#[test]
fn half_a_million_tokens_compress_to_any_size() {
    for format in [Format::OpenAi, Format::Anthropic] {
        let turns =
            (0..40).map(|n| Turn { asked: 900, rounds: vec![vec![1_500, 2_000], vec![900 + n]], answered: 500 });
        let history = History { format, turns: turns.collect(), open: true, keep: 0.25 };
        assert!(room(&payload(&history)).tokens > 400_000, "{}", room(&payload(&history)).tokens);
        check(&history).unwrap();
    }
}

#[test]
fn a_giant_last_result_is_shortened_but_not_the_question() {
    for format in [Format::OpenAi, Format::Anthropic] {
        let turns = vec![Turn { asked: 50, rounds: vec![vec![60_000]], answered: 1 }];
        let history = History { format, turns, open: true, keep: 0.1 };
        check(&history).unwrap();
    }
}
