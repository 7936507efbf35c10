//! The tokens of a JSON value as a model gets it: texts in full, structure where it is shown to the model.

use crate::json::{At, Kind, Tape};
use crate::preflight::estimate::{MILLI, count_json_milli};

/// An image or a file is billed by its size in pixels or pages, which its bytes do not tell: a middling one.
pub(crate) const MEDIA_TOKENS: u64 = 1_100;

/// Keys that the provider turns into structure of its own.
const ENVELOPE: &[&str] = &[
    "\"role\"",
    "\"content\"",
    "\"type\"",
    "\"text\"",
    "\"tool_calls\"",
    "\"function\"",
    "\"id\"",
    "\"tool_call_id\"",
    "\"tool_use_id\"",
    "\"call_id\"",
    "\"messages\"",
    "\"input\"",
    "\"arguments\"",
    "\"cache_control\"",
    "\"signature\"",
];
/// Strings that never reach the model.
const UNSEEN: &[&str] =
    &["\"id\"", "\"tool_call_id\"", "\"tool_use_id\"", "\"call_id\"", "\"signature\"", "\"cache_control\""];

/// Tokens, rounded up.
pub(crate) fn weigh(tape: &Tape<'_>, at: At) -> u64 {
    milli(tape, at).div_ceil(MILLI)
}

fn milli(tape: &Tape<'_>, at: At) -> u64 {
    match tape.kind(at) {
        Kind::String => count_json_milli(tape.raw(at)),
        Kind::Other => count_json_milli(tape.raw(at)) + MILLI / 2,
        Kind::Array => tape.items(at).map(|item| milli(tape, item) + MILLI / 4).sum(),
        Kind::Object if is_media(tape, at) => MEDIA_TOKENS * MILLI,
        Kind::Object => tape.members(at).map(|(key, value)| member(tape, key, value)).sum(),
    }
}

fn member(tape: &Tape<'_>, key: At, value: At) -> u64 {
    let name = tape.raw(key);
    if UNSEEN.contains(&name) {
        return MILLI;
    }
    let own = if ENVELOPE.contains(&name) { 0 } else { count_json_milli(name) + MILLI };
    own + milli(tape, value)
}

/// A block that holds an image, a sound or a file.
pub(crate) fn is_media(tape: &Tape<'_>, block: At) -> bool {
    let Some(kind) = tape.get(block, "type") else { return false };
    match tape.raw(kind).trim_matches('"') {
        "image" | "image_url" | "input_image" | "input_audio" | "input_file" | "file" => true,
        // A document may be plain text, which counts as text.
        "document" => {
            let source = tape.get(block, "source");
            source.and_then(|source| tape.get(source, "type")).is_some_and(|kind| tape.raw(kind) == "\"base64\"")
        }
        _ => false,
    }
}
