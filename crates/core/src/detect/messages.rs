//! Messages and their blocks, as OpenAI, Anthropic, Gemini, LangChain and Vercel write them.

use std::borrow::Cow;

use super::json::{Obj, list, text};
use super::transcript::{Answer, Transcript};

/// Whether a list holds messages rather than somebody's data.
pub(super) fn looks_like_messages(items: &[&str]) -> bool {
    const KINDS: &[&str] = &[
        "ai",
        "human",
        "tool",
        "function_call",
        "function_call_output",
        "message",
        "reasoning",
        "TextMessage",
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
    ];
    const ROLES: &[&str] = &["user", "assistant", "system", "developer", "tool", "function", "model"];
    !items.is_empty()
        && items.iter().all(|item| {
            let Some(item) = Obj::read(item) else { return false };
            let body = ["content", "parts", "tool_calls", "output", "arguments", "summary"];
            let role = item.text("role").is_some_and(|role| ROLES.contains(&role.as_ref()));
            let kind = item.text("type").is_some_and(|kind| KINDS.contains(&kind.as_ref()));
            (role || kind) && body.iter().any(|name| item.has(name))
        })
}

pub(super) fn walk<'a>(transcript: &mut Transcript<'a>, items: &[&'a str]) {
    for item in items {
        if let Some(item) = Obj::read(item) {
            message(transcript, &item);
        }
    }
}

fn message<'a>(transcript: &mut Transcript<'a>, item: &Obj<'a>) {
    let kind = item.text("type").unwrap_or_default();
    let role = item.text("role").unwrap_or_default();
    match (role.as_ref(), kind.as_ref()) {
        (_, "function_call") => {
            transcript.call(item.text("call_id"), item.text("name"), item.get("arguments"));
        }
        (_, "function_call_output") => {
            let failed = item.says("status", "failed") || item.says("status", "incomplete");
            transcript.result(item.text("call_id"), None, failed, item.get("output").unwrap_or("\"\""));
        }
        ("tool" | "function", _) | (_, "tool") => tool_message(transcript, item),
        (_, "ToolCallExecutionEvent") => autogen_results(transcript, item),
        (_, "ToolCallRequestEvent") => autogen_calls(transcript, item),
        ("assistant" | "model", _) | (_, "ai" | "message") => {
            // Each turn of the model has its own end; only the last one's tells how the work ended.
            transcript.endings.clear();
            transcript.refused = false;
            transcript.answer = Answer::Blank;
            assistant(transcript, item);
        }
        (_, "TextMessage") => transcript.answer = item.text("content").map_or(Answer::Data, Answer::of),
        // What people said, and the results that they carry back.
        _ => results_in(transcript, item),
    }
}

/// One turn of the model: its text, its calls, and how it ended.
pub(super) fn assistant<'a>(transcript: &mut Transcript<'a>, item: &Obj<'a>) {
    let calls_before = transcript.calls.len();
    transcript.answer = Answer::Blank;
    transcript.refused |= item.text("refusal").is_some_and(|refusal| !refusal.trim().is_empty());
    for place in [item.object("response_metadata").as_ref(), Some(item)].into_iter().flatten() {
        transcript.ended(place.text_of(&["stop_reason", "finish_reason", "done_reason"]));
    }
    let content = item.get("content");
    if let Some(said) = content.and_then(text) {
        transcript.answer = Answer::of(said);
    }
    let parts = content.and_then(list).or_else(|| item.list("parts"));
    blocks(transcript, parts.unwrap_or_default());
    for call in item.list("tool_calls").unwrap_or_default() {
        let Some(call) = Obj::read(call) else { continue };
        match call.object("function") {
            Some(function) => transcript.call(call.text("id"), function.text("name"), function.get("arguments")),
            None => transcript.call(call.text("id"), call.text("name"), call.get("args")),
        }
    }
    if let Some(call) = item.object("function_call") {
        transcript.call(None, call.text("name"), call.get("arguments"));
    }
    let asked = transcript.calls.len() > calls_before || item.has("audio") && item.get("audio").is_some();
    if asked && transcript.answer == Answer::Blank {
        transcript.answer = Answer::Data;
    }
}

/// The blocks of a turn. Thinking is not an answer; pictures and files are.
pub(super) fn blocks<'a>(transcript: &mut Transcript<'a>, parts: Vec<&'a str>) {
    for part in parts {
        let Some(part) = Obj::read(part) else { continue };
        if part.is("thought", "true") {
            continue;
        }
        if let Some(call) = part.object("functionCall") {
            transcript.call(call.text("id"), call.text("name"), call.get("args"));
            transcript.answer = data_unless_text(transcript);
            continue;
        }
        match part.text("type").unwrap_or(Cow::Borrowed("text")).as_ref() {
            "text" | "output_text" => add_text(transcript, part.text("text")),
            "refusal" => transcript.refused = true,
            "tool_use" | "server_tool_use" => {
                transcript.call(part.text("id"), part.text("name"), part.get("input"));
                transcript.answer = data_unless_text(transcript);
            }
            "tool-call" => {
                let arguments = part.get("input").or_else(|| part.get("args"));
                transcript.call(part.text("toolCallId"), part.text("toolName"), arguments);
                transcript.answer = data_unless_text(transcript);
            }
            "tool-result" => {
                let output = part.get("output").or_else(|| part.get("result")).unwrap_or("null");
                let failed = Obj::read(output)
                    .is_some_and(|output| output.text("type").is_some_and(|kind| kind.starts_with("error-")));
                transcript.result(part.text("toolCallId"), part.text("toolName"), failed, output);
            }
            "tool-error" => {
                let error = part.get("error").unwrap_or("\"\"");
                transcript.result(part.text("toolCallId"), part.text("toolName"), true, error);
            }
            "thinking" | "redacted_thinking" | "reasoning" | "step-start" => {}
            _ => transcript.answer = data_unless_text(transcript),
        }
    }
}

fn data_unless_text<'a>(transcript: &mut Transcript<'a>) -> Answer<'a> {
    match std::mem::take(&mut transcript.answer) {
        text @ Answer::Text(_) => text,
        Answer::NotGiven | Answer::Blank | Answer::Data => Answer::Data,
    }
}

fn add_text<'a>(transcript: &mut Transcript<'a>, more: Option<Cow<'a, str>>) {
    let Some(more) = more else { return };
    transcript.answer = match std::mem::take(&mut transcript.answer) {
        Answer::Text(said) => Answer::Text(Cow::Owned(format!("{said}{more}"))),
        Answer::Data if super::transcript::is_blank(&more) => Answer::Data,
        Answer::NotGiven | Answer::Blank | Answer::Data => Answer::of(more),
    };
}

fn tool_message<'a>(transcript: &mut Transcript<'a>, item: &Obj<'a>) {
    let parts = item.list("content").unwrap_or_default();
    if parts.iter().any(|part| Obj::read(part).is_some_and(|part| part.has("toolCallId"))) {
        return blocks(transcript, parts);
    }
    let failed = item.says("status", "error") || item.is("is_error", "true") || item.is("isError", "true");
    let said = said_in(item.get("content"));
    transcript.result(item.text("tool_call_id"), item.text("name"), failed, &said);
}

/// Results that come back in the user's turn: Anthropic's blocks, Gemini's parts, Vercel's parts.
fn results_in<'a>(transcript: &mut Transcript<'a>, item: &Obj<'a>) {
    let parts = item.list("content").or_else(|| item.list("parts")).unwrap_or_default();
    for part in parts.into_iter().filter_map(Obj::read) {
        if part.says("type", "tool_result") {
            let said = said_in(part.get("content"));
            transcript.result(part.text("tool_use_id"), None, part.is("is_error", "true"), &said);
        } else if let Some(response) = part.object("functionResponse") {
            let said = response.get("response").unwrap_or("null");
            transcript.result(response.text("id"), response.text("name"), false, said);
        }
    }
}

fn autogen_calls<'a>(transcript: &mut Transcript<'a>, item: &Obj<'a>) {
    for call in item.list("content").unwrap_or_default().into_iter().filter_map(Obj::read) {
        transcript.call(call.text("id"), call.text("name"), call.get("arguments"));
    }
}

fn autogen_results<'a>(transcript: &mut Transcript<'a>, item: &Obj<'a>) {
    for result in item.list("content").unwrap_or_default().into_iter().filter_map(Obj::read) {
        let said = result.get("content").unwrap_or("\"\"");
        transcript.result(result.text("call_id"), result.text("name"), result.is("is_error", "true"), said);
    }
}

/// A content as one text: itself, or its text blocks together.
pub(super) fn said_in(content: Option<&str>) -> String {
    let Some(content) = content else { return String::new() };
    let Some(parts) = list(content) else { return content.to_owned() };
    let texts = parts.into_iter().filter_map(Obj::read).filter_map(|part| part.text("text").map(Cow::into_owned));
    texts.collect::<Vec<_>>().join("\n")
}
