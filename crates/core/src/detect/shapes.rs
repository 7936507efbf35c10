//! Output shapes: plain text, a provider's response, a framework's result, a list of messages. A shape is recognised by
//! fields that only it has; anything else is data, and data is an answer.

use std::borrow::Cow;

use super::errors::is_cap;
use super::errors::{ErrorSource, is_error};
use super::json::{JsonObject, list, text};
use super::transcript::{FinalAnswer, ToolResult, Transcript, excerpt, tool_result};

pub(super) fn read(output: &str) -> Transcript<'_> {
    let output = output.trim();
    let mut transcript = Transcript::default();
    if let Some(said) = text(output) {
        transcript.answer = FinalAnswer::of(said);
    } else if let Some(items) = list(output).filter(|items| looks_like_messages(items)) {
        walk(&mut transcript, &items);
    } else if let Some(object) = JsonObject::read(output) {
        self::object(&mut transcript, &object);
    } else {
        transcript.answer = FinalAnswer::Data;
    }
    transcript
}

type ShapeReader = for<'a> fn(&mut Transcript<'a>, &JsonObject<'a>) -> bool;

/// Each says whether the object is its own; the first that does has read it.
const SHAPES: &[ShapeReader] = &[
    chat_completion,
    gemini,
    anthropic_message,
    responses,
    claude_agent,
    vercel,
    message_state,
    agents_sdk,
    agent_executor,
    crew,
    tool_result_itself,
];

fn object<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) {
    if SHAPES.iter().any(|read| read(transcript, object)) {
        return;
    }
    transcript.answer = FinalAnswer::Data;
    if is_error(object, ErrorSource::Agent) {
        let said = object.text_of(&["error", "message", "detail", "reason"]);
        let inner = || object.object("error").and_then(|error| error.text("message"));
        transcript.failure =
            Some(said.or_else(inner).map_or_else(|| "it says so itself".to_owned(), |said| excerpt(&said)));
    }
}

/// OpenAI and compatible providers.
fn chat_completion<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let Some(choices) = object.list("choices") else { return false };
    let is_completion = object.text("object").is_some_and(|kind| kind.ends_with("completion"));
    let Some(first) = choices.first() else {
        transcript.answer = FinalAnswer::Blank;
        return is_completion || object.has("usage");
    };
    let Some(choice) = JsonObject::read(first) else { return false };
    if !(choice.has("message") || is_completion || choice.has("finish_reason") && choice.has("text")) {
        return false;
    }
    transcript.one_response = true;
    let native = choice.object("provider_specific_fields").and_then(|own| own.text("native_finish_reason"));
    transcript.ended(native);
    transcript.ended(choice.text("finish_reason"));
    match choice.object("message") {
        Some(message) => assistant(transcript, &message),
        None => transcript.answer = choice.text("text").map_or(FinalAnswer::Blank, FinalAnswer::of),
    }
    true
}

fn gemini<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let feedback = object.object("promptFeedback");
    let candidates = object.list("candidates").unwrap_or_default();
    let Some(candidate) = candidates.first().and_then(|first| JsonObject::read(first)) else {
        let blocked = feedback.and_then(|feedback| feedback.text("blockReason"));
        transcript.refused = blocked.is_some();
        transcript.ended(blocked);
        transcript.answer = FinalAnswer::Blank;
        return transcript.refused || object.has("usageMetadata");
    };
    let known =
        candidate.has("finishReason") || candidate.object("content").is_some_and(|content| content.has("parts"));
    if !known {
        return false;
    }
    transcript.one_response = true;
    transcript.ended(candidate.text("finishReason"));
    transcript.answer = FinalAnswer::Blank;
    if let Some(content) = candidate.object("content") {
        blocks(transcript, content.list("parts").unwrap_or_default());
    }
    true
}

fn anthropic_message<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let is_message = object.says("type", "message") && object.says("role", "assistant");
    if !is_message || object.list("content").is_none() {
        return false;
    }
    transcript.one_response = true;
    assistant(transcript, object);
    true
}

/// OpenAI's Responses.
fn responses<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let items = object.list("output");
    let named = object.says("object", "response");
    let shaped = items.is_some() && object.has("incomplete_details");
    if !named && !shaped {
        return false;
    }
    transcript.one_response = true;
    transcript.answer = FinalAnswer::Blank;
    walk(transcript, &items.unwrap_or_default());
    transcript.ended(object.object("incomplete_details").and_then(|details| details.text("reason")));
    // What is in the last response is the whole answer: a call in it waits for nobody's result.
    if transcript.answer == FinalAnswer::Blank && !transcript.calls.is_empty() {
        transcript.answer = FinalAnswer::Data;
    }
    if object.says("status", "failed") {
        transcript.ended(Some("error".into()));
    }
    true
}

/// The result message of the Claude Agent SDK.
fn claude_agent<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let Some(subtype) = object.text("subtype").filter(|_| object.says("type", "result")) else { return false };
    transcript.answer = object.text("result").map_or(FinalAnswer::NotGiven, FinalAnswer::of);
    match subtype.as_ref() {
        "error_max_turns" => transcript.capped = Some(subtype.into_owned()),
        "error_max_structured_output_retries" => transcript.ended(Some("malformed_response".into())),
        "success" if object.is("is_error", "true") => {
            transcript.failure = object.text("result").map(|said| excerpt(&said));
        }
        "error_during_execution" => transcript.failure = Some(subtype.into_owned()),
        _ => {}
    }
    true
}

/// The result of Vercel's `generateText`.
fn vercel<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let reason = object.object("finishReason");
    let word = object.text("finishReason").or_else(|| reason.as_ref().and_then(|reason| reason.text("unified")));
    if word.is_none() || !(object.has("text") || object.has("steps") || object.has("content")) {
        return false;
    }
    transcript.ended(reason.and_then(|reason| reason.text("raw")));
    transcript.ended(word);
    for step in object.list("steps").unwrap_or_default() {
        if let Some(step) = JsonObject::read(step) {
            blocks(transcript, step.list("content").unwrap_or_default());
        }
    }
    if transcript.calls.is_empty() {
        blocks(transcript, object.list("content").unwrap_or_default());
    }
    let structured = object.get("output").or_else(|| object.get("object")).is_some();
    transcript.answer = match object.text("text") {
        Some(text) if !structured => FinalAnswer::of(text),
        Some(_) | None => FinalAnswer::Data,
    };
    true
}

/// A graph's or a team's state: its messages, and perhaps why it stopped.
fn message_state<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let Some(items) = object.list("messages").filter(|items| looks_like_messages(items)) else { return false };
    walk(transcript, &items);
    if object.get("structured_response").is_some() {
        transcript.answer = FinalAnswer::Data;
    }
    if let Some(why) = object.text("stop_reason").filter(|why| is_cap(why)) {
        transcript.capped = Some(excerpt(&why));
    }
    true
}

fn agents_sdk<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    if !object.has("final_output") {
        return false;
    }
    let items = object.list("new_items").or_else(|| object.list("raw_responses")).unwrap_or_default();
    walk(transcript, &items);
    transcript.answer = match object.get("final_output") {
        Some(token) => text(token).map_or(FinalAnswer::Data, FinalAnswer::of),
        None => FinalAnswer::Blank,
    };
    true
}

/// LangChain's older executor gives its input back with its output.
fn agent_executor<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let known = ["input", "output", "chat_history", "intermediate_steps"];
    if !object.has("input") || !object.has("output") || object.keys().any(|key| !known.contains(&key)) {
        return false;
    }
    transcript.answer = match object.get("output") {
        Some(token) => text(token).map_or(FinalAnswer::Data, FinalAnswer::of),
        None => FinalAnswer::Blank,
    };
    true
}

fn crew<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    if !object.has("raw") || !object.has("tasks_output") {
        return false;
    }
    let structured = object.get("json_dict").or_else(|| object.get("pydantic")).is_some();
    transcript.answer = match object.text("raw") {
        Some(raw) if !structured => FinalAnswer::of(raw),
        Some(_) | None => FinalAnswer::Data,
    };
    true
}

const OF_A_TOOL_RESULT: &[&str] = &[
    "content",
    "isError",
    "is_error",
    "structuredContent",
    "_meta",
    "meta",
    "type",
    "role",
    "status",
    "id",
    "name",
    "tool_use_id",
    "tool_call_id",
];

/// A tool's own result, handed on as the output.
fn tool_result_itself<'a>(transcript: &mut Transcript<'a>, object: &JsonObject<'a>) -> bool {
    let failed = ["isError", "is_error"].iter().any(|flag| object.is(flag, "true"));
    let is_result = object.has("content") && (object.has("isError") || object.has("is_error"));
    // With other fields beside it, such as a confidence, it is a finding about another error.
    if !is_result || object.keys().any(|key| !OF_A_TOOL_RESULT.contains(&key)) {
        return false;
    }
    transcript.answer = FinalAnswer::Data;
    if failed && let ToolResult::Failed(said) = tool_result("", true, &said_in(object.get("content"))) {
        transcript.failure = Some(said);
    }
    true
}

/// Whether a list holds messages rather than data.
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
            let Some(item) = JsonObject::read(item) else { return false };
            let body = ["content", "parts", "tool_calls", "output", "arguments", "summary"];
            let role = item.text("role").is_some_and(|role| ROLES.contains(&role.as_ref()));
            let kind = item.text("type").is_some_and(|kind| KINDS.contains(&kind.as_ref()));
            (role || kind) && body.iter().any(|name| item.has(name))
        })
}

pub(super) fn walk<'a>(transcript: &mut Transcript<'a>, items: &[&'a str]) {
    for item in items {
        if let Some(item) = JsonObject::read(item) {
            message(transcript, &item);
        }
    }
}

fn message<'a>(transcript: &mut Transcript<'a>, item: &JsonObject<'a>) {
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
            transcript.answer = FinalAnswer::Blank;
            assistant(transcript, item);
        }
        (_, "TextMessage") => transcript.answer = item.text("content").map_or(FinalAnswer::Data, FinalAnswer::of),
        // What people said, and the results that they carry back.
        _ => results_in(transcript, item),
    }
}

/// One turn of the model: its text, its calls, and how it ended.
pub(super) fn assistant<'a>(transcript: &mut Transcript<'a>, item: &JsonObject<'a>) {
    let calls_before = transcript.calls.len();
    transcript.answer = FinalAnswer::Blank;
    transcript.refused |= item.text("refusal").is_some_and(|refusal| !refusal.trim().is_empty());
    for place in [item.object("response_metadata").as_ref(), Some(item)].into_iter().flatten() {
        transcript.ended(place.text_of(&["stop_reason", "finish_reason", "done_reason"]));
    }
    let content = item.get("content");
    if let Some(said) = content.and_then(text) {
        transcript.answer = FinalAnswer::of(said);
    }
    let parts = content.and_then(list).or_else(|| item.list("parts"));
    blocks(transcript, parts.unwrap_or_default());
    for call in item.list("tool_calls").unwrap_or_default() {
        let Some(call) = JsonObject::read(call) else { continue };
        match call.object("function") {
            Some(function) => transcript.call(call.text("id"), function.text("name"), function.get("arguments")),
            None => transcript.call(call.text("id"), call.text("name"), call.get("args")),
        }
    }
    if let Some(call) = item.object("function_call") {
        transcript.call(None, call.text("name"), call.get("arguments"));
    }
    let asked = transcript.calls.len() > calls_before || item.has("audio") && item.get("audio").is_some();
    if asked && transcript.answer == FinalAnswer::Blank {
        transcript.answer = FinalAnswer::Data;
    }
}

/// The blocks of a turn. Thinking is not an answer; pictures and files are.
pub(super) fn blocks<'a>(transcript: &mut Transcript<'a>, parts: Vec<&'a str>) {
    for part in parts {
        let Some(part) = JsonObject::read(part) else { continue };
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
                let failed = JsonObject::read(output)
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

fn data_unless_text<'a>(transcript: &mut Transcript<'a>) -> FinalAnswer<'a> {
    match std::mem::take(&mut transcript.answer) {
        text @ FinalAnswer::Text(_) => text,
        FinalAnswer::NotGiven | FinalAnswer::Blank | FinalAnswer::Data => FinalAnswer::Data,
    }
}

fn add_text<'a>(transcript: &mut Transcript<'a>, more: Option<Cow<'a, str>>) {
    let Some(more) = more else { return };
    transcript.answer = match std::mem::take(&mut transcript.answer) {
        FinalAnswer::Text(said) => FinalAnswer::Text(Cow::Owned(format!("{said}{more}"))),
        FinalAnswer::Data if super::transcript::is_blank(&more) => FinalAnswer::Data,
        FinalAnswer::NotGiven | FinalAnswer::Blank | FinalAnswer::Data => FinalAnswer::of(more),
    };
}

fn tool_message<'a>(transcript: &mut Transcript<'a>, item: &JsonObject<'a>) {
    let parts = item.list("content").unwrap_or_default();
    if parts.iter().any(|part| JsonObject::read(part).is_some_and(|part| part.has("toolCallId"))) {
        return blocks(transcript, parts);
    }
    let failed = item.says("status", "error") || item.is("is_error", "true") || item.is("isError", "true");
    let said = said_in(item.get("content"));
    transcript.result(item.text("tool_call_id"), item.text("name"), failed, &said);
}

/// Results that come back in the user's turn: Anthropic's blocks, Gemini's parts, Vercel's parts.
fn results_in<'a>(transcript: &mut Transcript<'a>, item: &JsonObject<'a>) {
    let parts = item.list("content").or_else(|| item.list("parts")).unwrap_or_default();
    for part in parts.into_iter().filter_map(JsonObject::read) {
        if part.says("type", "tool_result") {
            let said = said_in(part.get("content"));
            transcript.result(part.text("tool_use_id"), None, part.is("is_error", "true"), &said);
        } else if let Some(response) = part.object("functionResponse") {
            let said = response.get("response").unwrap_or("null");
            transcript.result(response.text("id"), response.text("name"), false, said);
        }
    }
}

fn autogen_calls<'a>(transcript: &mut Transcript<'a>, item: &JsonObject<'a>) {
    for call in item.list("content").unwrap_or_default().into_iter().filter_map(JsonObject::read) {
        transcript.call(call.text("id"), call.text("name"), call.get("arguments"));
    }
}

fn autogen_results<'a>(transcript: &mut Transcript<'a>, item: &JsonObject<'a>) {
    for result in item.list("content").unwrap_or_default().into_iter().filter_map(JsonObject::read) {
        let said = result.get("content").unwrap_or("\"\"");
        transcript.result(result.text("call_id"), result.text("name"), result.is("is_error", "true"), said);
    }
}

/// A content as one text: itself, or its text blocks together.
pub(super) fn said_in(content: Option<&str>) -> String {
    let Some(content) = content else { return String::new() };
    let Some(parts) = list(content) else { return content.to_owned() };
    let texts =
        parts.into_iter().filter_map(JsonObject::read).filter_map(|part| part.text("text").map(Cow::into_owned));
    texts.collect::<Vec<_>>().join("\n")
}
