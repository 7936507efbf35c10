//! What a payload is made of, by weight: which message, which tool, which member takes the room.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{At, Kind, Tape};
use crate::preflight::classes::Tally;
use crate::preflight::tokenizer::Tokenizer;
use crate::preflight::weigh::{is_seen, tally_of};

/// More than this are not listed.
const PARTS_MAX: usize = 20;

/// A piece of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// RFC 6901.
    pub pointer: String,
    /// Of a message: who speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub tokens: u64,
}

/// The tally of a whole payload, and its parts, the largest first. `lists` are shown item by item.
pub(super) fn parts(tape: &Tape<'_>, body: At, prefix: &str, lists: &[At], of: Tokenizer) -> (Tally, Vec<Part>) {
    let is_request = !lists.is_empty();
    let mut whole = Tally::default();
    let mut parts = Vec::new();
    let mut note = |pointer: String, at: At, role: Option<String>| {
        let tally = tally_of(tape, at);
        whole += tally;
        parts.push(Part { pointer, role, tokens: of.tokens(&tally) });
    };
    match tape.kind(body) {
        Kind::Object => {
            for (key, value) in tape.members(body) {
                let name = tape.string(key).unwrap_or_default().replace('~', "~0").replace('/', "~1");
                if lists.contains(&value) {
                    for (n, item) in tape.items(value).enumerate() {
                        let role =
                            tape.get(item, "role").and_then(|role| tape.string(role)).map(|role| role.into_owned());
                        note(format!("{prefix}/{name}/{n}"), item, role);
                    }
                } else if !is_request || is_seen(tape, key, value) {
                    note(format!("{prefix}/{name}"), value, None);
                }
            }
        }
        Kind::Array => tape.items(body).enumerate().for_each(|(n, item)| note(format!("{prefix}/{n}"), item, None)),
        Kind::String | Kind::Other => note(prefix.to_owned(), body, None),
    }
    parts.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.pointer.len().cmp(&b.pointer.len())));
    parts.truncate(PARTS_MAX);
    (whole, parts)
}
