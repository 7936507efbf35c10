//! Payloads: where their values lie, patches, changes, schemas, how much they weigh. Whatever is done to well-formed JSON
//! is well-formed JSON.

use redrive_core::detect::{OutputSchema, ReportedSuccess, observe};
use redrive_core::json::{JsonKind, Tape, diff};
use redrive_core::models::Models;
use redrive_core::patch::{PatchOperation, apply, differences};
use redrive_core::policy::PayloadShape;
use redrive_core::preflight::{Asked, check};
use redrive_core::rewrite::{measure, rewrite};
use redrive_core::verdict::Change;
use serde_json::value::RawValue;

use super::{Ask, Target, halves, told};

const ROOM: usize = 1 << 20;

pub const TAPE: Target =
    Target { name: "json tape", corpus: &["payloads"], words: &["{\"a\":", "[1,", "\"", "\\\""], make: tape };
pub const PATCH: Target = Target {
    name: "json patch",
    corpus: &["patches"],
    words: &[
        "\"op\":\"add\"",
        "\"op\":\"move\"",
        "\"op\":\"test\"",
        "\"path\":\"/",
        "\"from\":\"/",
        "\"value\":",
        "/-",
        "\n---\n",
    ],
    make: patch,
};
pub const REWRITE: Target = Target {
    name: "rewrite",
    corpus: &["payloads"],
    words: &[
        "\"role\":",
        "\"content\":",
        "\"messages\":[",
        "\"tool_calls\":",
        "\"system\":",
        "\"max_tokens\":",
        "\"input\":",
        "\"tool\"",
        "\"assistant\"",
    ],
    make: rewritten,
};
pub const SCHEMA: Target = Target {
    name: "output schema",
    corpus: &["schemas"],
    words: &[
        "\"$ref\":\"#\"",
        "\"pattern\":\"(a*)*b\"",
        "\"allOf\":[",
        "\"not\":",
        "\"items\":",
        "\"properties\":{",
        "\"type\":",
        "\"enum\":",
        "\"$defs\":",
        "\n---\n",
    ],
    make: schema,
};
pub const PREFLIGHT: Target = Target {
    name: "preflight",
    corpus: &["payloads"],
    words: &["\"model\":\"gpt-4o\"", "\"content\":"],
    make: preflight,
};

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok_and(|raw| raw.get().len() == text.len())
}

fn tape() -> Ask {
    Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
        let Some(tape) = Tape::of(text) else {
            if is_json(text) && text.len() < 256 {
                return Err(format!("JSON that the tape does not read: {text}"));
            }
            return Ok(1);
        };
        if !is_json(text.trim()) {
            // Numbers and escapes are validated by their readers.
            return Ok(2);
        }
        let mut todo = vec![tape.root()];
        let mut kinds = 0_u64;
        while let Some(at) = todo.pop() {
            let raw = tape.raw(at);
            if !is_json(raw) {
                return Err(format!("a value that is none: {raw:?}"));
            }
            match tape.kind(at) {
                JsonKind::Array => todo.extend(tape.items(at)),
                JsonKind::Object => todo.extend(tape.members(at).flat_map(|(name, value)| [name, value])),
                JsonKind::String if tape.string(at).is_none() => return Err(format!("no string: {raw}")),
                JsonKind::String | JsonKind::Other => {}
            }
            kinds |= 1 << (tape.kind(at) as u64);
        }
        let (operations, _) = diff(&tape, &tape);
        if !operations.is_empty() {
            return Err(format!("it differs from itself: {operations:?}"));
        }
        Ok(told(kinds))
    })
}

fn patch() -> Ask {
    Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
        let (payload, operations) = halves(text);
        let (Ok(payload), Ok(operations)) =
            (serde_json::from_str::<&RawValue>(payload), serde_json::from_str::<Vec<PatchOperation>>(operations))
        else {
            return Ok(1);
        };
        match apply(payload.get(), &operations, ROOM) {
            Ok(done) if !is_json(&done) => Err(format!("a patch made {done:?}")),
            Ok(done) if done.len() > ROOM => Err("larger than it may be".into()),
            Ok(done) => Ok(told(("done", differences(payload.get(), &done, 4).len()))),
            Err(bad) => Ok(told(bad.why.to_string())),
        }
    })
}

fn changes() -> Vec<Change> {
    vec![
        Change::CompressContext { to_tokens: Some(64) },
        Change::CompressContext { to_tokens: None },
        Change::AddInstruction { text: "Say \"less\".\u{0}".into() },
        Change::AddConstraint { text: "Be exact.".into() },
        Change::AddLastError { text: Some("KeyError: 'x'\n\\".into()) },
        Change::ScaleOutputBudget { factor: 2.0 },
        Change::SetModel { model: "gpt-4o".into() },
    ]
}

fn rewritten() -> Ask {
    let models = Models::builtin();
    let changes = changes();
    Box::new(move |input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
        if !is_json(text) {
            return Ok(1);
        }
        let shape = PayloadShape::default();
        let _ = measure(text, &shape);
        let mut happened = Vec::new();
        for change in &changes {
            let done = rewrite(text, &shape, std::slice::from_ref(change), None, &models);
            let made = done.applied().count();
            if !is_json(&done.payload) {
                return Err(format!("{} made {:?}", change.as_str(), done.payload));
            }
            if made == 0 && done.payload != text {
                return Err(format!("{} was not made, and the payload is another", change.as_str()));
            }
            happened.push(done.changes.iter().map(|(_, how)| how.err().map(|why| why.to_string())).collect::<Vec<_>>());
        }
        let all = rewrite(text, &shape, &changes, Some("gpt-5"), &models);
        if !is_json(&all.payload) {
            return Err(format!("all changes made {:?}", all.payload));
        }
        Ok(told(happened))
    })
}

fn schema() -> Ask {
    Box::new(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return Ok(0) };
        let (schema, output) = halves(text);
        let Ok(source) = serde_json::from_str(schema) else { return Ok(1) };
        match OutputSchema::new(source) {
            Ok(schema) => {
                let told_of =
                    ReportedSuccess { output: Some(output), schema: Some(&schema), ..ReportedSuccess::default() };
                let breach = observe(&told_of).breach.map(|breach| breach.chars().take(20).collect::<String>());
                Ok(told(("schema", breach)))
            }
            Err(bad) => Ok(told(bad.to_string().chars().take(24).collect::<String>())),
        }
    })
}

fn preflight() -> Ask {
    let models = Models::builtin();
    Box::new(move |input| {
        let Ok(payload) = std::str::from_utf8(input) else { return Ok(0) };
        let shape = PayloadShape::default();
        let mut tokens = Vec::new();
        for model in [None, Some("gpt-4o"), Some("claude-sonnet-4-5"), Some("nobody")] {
            let asked = Asked { payload, shape: &shape, model, output_tokens: None, calibration: None };
            let found = check(&asked, &models);
            if found != check(&asked, &models) {
                return Err("the same was weighed twice, and differently".into());
            }
            if found.estimate.tokens > payload.len() as u64 * 8 + 4_096 {
                return Err(format!("{} bytes weigh {} tokens", payload.len(), found.estimate.tokens));
            }
            tokens.push((format!("{:?}", found.verdict), found.parts.len().min(6)));
        }
        Ok(told(tokens))
    })
}
