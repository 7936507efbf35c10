//! The tokens of a JSON value as a model gets it: texts in full, structure where it is shown to the model.

use crate::json::{At, Kind, Tape};
use crate::preflight::classes::{Class, Tally, tally};
use crate::preflight::tokenizer::{MILLI, Tokenizer};

/// Keys that the provider turns into structure of its own.
const ENVELOPE: &[&str] =
    &["role", "content", "type", "text", "tool_calls", "function", "messages", "input", "arguments", "image_url"];
/// Members that never reach the model.
const UNSEEN: &[&str] = &["id", "tool_call_id", "tool_use_id", "call_id", "signature", "cache_control"];

/// Tokens, rounded up.
pub(crate) fn weigh(tape: &Tape<'_>, at: At, tokenizer: Tokenizer) -> u64 {
    tokenizer.tokens(&tally_of(tape, at))
}

/// Whether a member of a request reaches the model: settings and names do not.
pub(crate) fn is_seen(tape: &Tape<'_>, key: At, value: At) -> bool {
    match tape.kind(value) {
        Kind::Object | Kind::Array => tape.raw(key) != "\"metadata\"",
        Kind::String => matches!(tape.raw(key).trim_matches('"'), "system" | "instructions" | "input" | "prompt"),
        Kind::Other => false,
    }
}

pub(crate) fn tally_of(tape: &Tape<'_>, at: At) -> Tally {
    tally_without(tape, at, &[])
}

/// The tally of a value without the strings `but`, in order, which are counted by themselves.
pub(crate) fn tally_without(tape: &Tape<'_>, at: At, but: &[At]) -> Tally {
    let mut sum = Tally::default();
    add(tape, at, but, &mut sum);
    sum
}

fn add(tape: &Tape<'_>, at: At, but: &[At], sum: &mut Tally) {
    match tape.kind(at) {
        Kind::String if but.binary_search(&at).is_ok() => {}
        Kind::String => *sum += string(tape, at),
        Kind::Other => {
            *sum += tally(tape.raw(at).as_bytes(), false);
            sum.add(Class::Marks, MILLI / 2);
        }
        Kind::Array => {
            for item in tape.items(at) {
                add(tape, item, but, sum);
                sum.add(Class::Marks, MILLI / 4);
            }
        }
        Kind::Object if is_media(tape, at) => sum.add(Class::Media, 1),
        Kind::Object => {
            for (key, value) in tape.members(at) {
                member(tape, key, value, but, sum);
            }
        }
    }
}

fn member(tape: &Tape<'_>, key: At, value: At, but: &[At], sum: &mut Tally) {
    let raw = tape.raw(key);
    let name = raw.get(1..raw.len() - 1).unwrap_or_default();
    if UNSEEN.contains(&name) {
        return;
    }
    if !ENVELOPE.contains(&name) {
        *sum += string(tape, key);
        // Quotes and colon, mostly in one token with what is beside them.
        sum.add(Class::Marks, MILLI);
    }
    add(tape, value, but, sum);
}

fn string(tape: &Tape<'_>, at: At) -> Tally {
    tally(inside(tape, at), true)
}

/// What stands between a string's quotes.
pub(super) fn inside<'a>(tape: &Tape<'a>, at: At) -> &'a [u8] {
    let raw = tape.raw(at);
    raw.get(1..raw.len() - 1).unwrap_or_default().as_bytes()
}

/// A block that holds an image, a sound or a file.
fn is_media(tape: &Tape<'_>, block: At) -> bool {
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
