//! Adding text to a request: instructions where the system prompt is, quoted data as a user's words at the end.

use crate::json::{At, Kind, Splices, Tape};
use crate::policy::PayloadFormat;
use crate::rewrite::messages::{Part, messages, word};
use crate::rewrite::request::Request;

/// Adds to the system prompt, or makes one. None where there is no place for it.
pub(crate) fn add_system(request: &Request<'_, '_>, text: &str, splices: &mut Splices) -> Option<()> {
    let tape = request.tape;
    if let Some(at) = request.instructions.or(request.system) {
        return add_to_content(tape, at, text, splices);
    }
    let first = request
        .messages
        .and_then(|list| tape.items(list).find(|item| matches!(word(tape, *item, "role"), "system" | "developer")));
    if let Some(content) = first.and_then(|message| tape.get(message, "content")) {
        return add_to_content(tape, content, text, splices);
    }
    match request.format {
        PayloadFormat::OpenaiChat => {
            let message = format!(r#"{{"role":"system","content":{}}}"#, quoted(text));
            insert_first(tape, request.messages?, &message, splices)
        }
        PayloadFormat::OpenaiResponses => insert_member(tape, request.body?, "instructions", text, splices),
        PayloadFormat::Anthropic => insert_member(tape, request.body?, "system", text, splices),
        PayloadFormat::Plain => None,
    }
}

/// Adds a user's words at the end of the conversation. None where there is no place for them.
pub(crate) fn add_user(request: &Request<'_, '_>, text: &str, splices: &mut Splices) -> Option<()> {
    let tape = request.tape;
    let Some(list) = request.messages else {
        let input = request.body.and_then(|body| tape.get(body, "input"))?;
        let asked = format!(r#"[{{"role":"user","content":{}}},{}]"#, tape.raw(input), user(text));
        splices.replace(tape.span(input), asked);
        return Some(());
    };
    let all = messages(request);
    let last = all.last();
    // Between a call and its result nothing may stand.
    if request.format == PayloadFormat::Plain || last.is_some_and(|last| last.part == Part::Call) {
        return add_system(request, text, splices);
    }
    match (request.format, last) {
        (PayloadFormat::Anthropic, Some(last)) if word(tape, last.at, "role") == "user" => {
            add_block(tape, tape.get(last.at, "content")?, text, splices)
        }
        _ => insert_last(tape, list, &user(text), splices),
    }
}

fn user(text: &str) -> String {
    format!(r#"{{"role":"user","content":{}}}"#, quoted(text))
}

/// The text as a JSON token.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A string grows at its end; a list of blocks gets one more.
fn add_to_content(tape: &Tape<'_>, content: At, text: &str, splices: &mut Splices) -> Option<()> {
    let (_, end) = tape.span(content);
    match tape.kind(content) {
        Kind::String => {
            let token = quoted(text);
            let between = if tape.raw(content) == "\"\"" { "" } else { "\\n\\n" };
            splices.insert(end - 1, format!("{between}{}", &token[1..token.len() - 1]));
            Some(())
        }
        Kind::Array => insert_last(tape, content, &block(tape, content, text), splices),
        Kind::Object | Kind::Other => None,
    }
}

/// A string becomes a list of blocks with itself, token and all, as the first.
fn add_block(tape: &Tape<'_>, content: At, text: &str, splices: &mut Splices) -> Option<()> {
    match tape.kind(content) {
        Kind::String => {
            let first = format!(r#"{{"type":"text","text":{}}}"#, tape.raw(content));
            splices.replace(tape.span(content), format!("[{first},{}]", block(tape, content, text)));
            Some(())
        }
        Kind::Array => insert_last(tape, content, &block(tape, content, text), splices),
        Kind::Object | Kind::Other => None,
    }
}

/// A block of text as its neighbours are written.
fn block(tape: &Tape<'_>, content: At, text: &str) -> String {
    let kind = tape.items(content).map(|item| word(tape, item, "type")).find(|kind| *kind == "input_text");
    format!(r#"{{"type":"{}","text":{}}}"#, kind.unwrap_or("text"), quoted(text))
}

fn insert_first(tape: &Tape<'_>, list: At, element: &str, splices: &mut Splices) -> Option<()> {
    match tape.items(list).next() {
        Some(first) => splices.insert(tape.span(first).0, format!("{element},")),
        None => splices.insert(tape.span(list).0 + 1, element),
    }
    Some(())
}

fn insert_last(tape: &Tape<'_>, list: At, element: &str, splices: &mut Splices) -> Option<()> {
    match tape.items(list).last() {
        Some(last) => splices.insert(tape.span(last).1, format!(",{element}")),
        None => splices.insert(tape.span(list).0 + 1, element),
    }
    Some(())
}

fn insert_member(tape: &Tape<'_>, object: At, name: &str, text: &str, splices: &mut Splices) -> Option<()> {
    if tape.kind(object) != Kind::Object {
        return None;
    }
    // One that is there and null gives way: the same name twice is read differently by everybody.
    if let Some(null) = tape.get(object, name) {
        splices.replace(tape.span(null), quoted(text));
        return Some(());
    }
    let comma = if tape.members(object).next().is_some() { "," } else { "" };
    splices.insert(tape.span(object).0 + 1, format!("\"{name}\":{}{comma}", quoted(text)));
    Some(())
}
