//! The shapes that outputs arrive in: plain text, a provider's response, a framework's result, a list of messages.
//! A shape is known by the fields that only it has; whatever is none of them is data, and data is an answer.

use super::json::{Obj, list, text};
use super::messages::{self, blocks, looks_like_messages};
use super::phrases;
use super::transcript::{Answer, ToolResult, Transcript, excerpt, tool_result};
use super::verdict::{Teller, is_error};

pub(super) fn read(output: &str) -> Transcript<'_> {
    let output = output.trim();
    let mut transcript = Transcript::default();
    if let Some(said) = text(output) {
        transcript.answer = Answer::of(said);
    } else if let Some(items) = list(output).filter(|items| looks_like_messages(items)) {
        messages::walk(&mut transcript, &items);
    } else if let Some(object) = Obj::read(output) {
        self::object(&mut transcript, &object);
    } else {
        transcript.answer = Answer::Data;
    }
    transcript
}

type Reader = for<'a> fn(&mut Transcript<'a>, &Obj<'a>) -> bool;

/// Each says whether the object is its own; the first that does has read it.
const SHAPES: &[Reader] = &[
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

fn object<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) {
    if SHAPES.iter().any(|read| read(transcript, object)) {
        return;
    }
    transcript.answer = Answer::Data;
    if is_error(object, Teller::Agent) {
        let said = object.text_of(&["error", "message", "detail", "reason"]);
        let inner = || object.object("error").and_then(|error| error.text("message"));
        transcript.failure =
            Some(said.or_else(inner).map_or_else(|| "it says so itself".to_owned(), |said| excerpt(&said)));
    }
}

/// OpenAI and everybody who speaks like it.
fn chat_completion<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let Some(choices) = object.list("choices") else { return false };
    let is_completion = object.text("object").is_some_and(|kind| kind.ends_with("completion"));
    let Some(first) = choices.first() else {
        transcript.answer = Answer::Blank;
        return is_completion || object.has("usage");
    };
    let Some(choice) = Obj::read(first) else { return false };
    if !(choice.has("message") || is_completion || choice.has("finish_reason") && choice.has("text")) {
        return false;
    }
    transcript.one_response = true;
    let native = choice.object("provider_specific_fields").and_then(|own| own.text("native_finish_reason"));
    transcript.ended(native);
    transcript.ended(choice.text("finish_reason"));
    match choice.object("message") {
        Some(message) => messages::assistant(transcript, &message),
        None => transcript.answer = choice.text("text").map_or(Answer::Blank, Answer::of),
    }
    true
}

fn gemini<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let feedback = object.object("promptFeedback");
    let candidates = object.list("candidates").unwrap_or_default();
    let Some(candidate) = candidates.first().and_then(|first| Obj::read(first)) else {
        let blocked = feedback.and_then(|feedback| feedback.text("blockReason"));
        transcript.refused = blocked.is_some();
        transcript.ended(blocked);
        transcript.answer = Answer::Blank;
        return transcript.refused || object.has("usageMetadata");
    };
    let known =
        candidate.has("finishReason") || candidate.object("content").is_some_and(|content| content.has("parts"));
    if !known {
        return false;
    }
    transcript.one_response = true;
    transcript.ended(candidate.text("finishReason"));
    transcript.answer = Answer::Blank;
    if let Some(content) = candidate.object("content") {
        blocks(transcript, content.list("parts").unwrap_or_default());
    }
    true
}

fn anthropic_message<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let is_message = object.says("type", "message") && object.says("role", "assistant");
    if !is_message || object.list("content").is_none() {
        return false;
    }
    transcript.one_response = true;
    messages::assistant(transcript, object);
    true
}

/// OpenAI's Responses.
fn responses<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let items = object.list("output");
    let named = object.says("object", "response");
    let shaped = items.is_some() && object.has("incomplete_details");
    if !named && !shaped {
        return false;
    }
    transcript.one_response = true;
    transcript.answer = Answer::Blank;
    messages::walk(transcript, &items.unwrap_or_default());
    transcript.ended(object.object("incomplete_details").and_then(|details| details.text("reason")));
    // What is in the last response is the whole answer: a call in it waits for nobody's result.
    if transcript.answer == Answer::Blank && !transcript.calls.is_empty() {
        transcript.answer = Answer::Data;
    }
    if object.says("status", "failed") {
        transcript.ended(Some("error".into()));
    }
    true
}

/// The result message of the Claude Agent SDK.
fn claude_agent<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let Some(subtype) = object.text("subtype").filter(|_| object.says("type", "result")) else { return false };
    transcript.answer = object.text("result").map_or(Answer::NotGiven, Answer::of);
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
fn vercel<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let reason = object.object("finishReason");
    let word = object.text("finishReason").or_else(|| reason.as_ref().and_then(|reason| reason.text("unified")));
    if word.is_none() || !(object.has("text") || object.has("steps") || object.has("content")) {
        return false;
    }
    transcript.ended(reason.and_then(|reason| reason.text("raw")));
    transcript.ended(word);
    for step in object.list("steps").unwrap_or_default() {
        if let Some(step) = Obj::read(step) {
            blocks(transcript, step.list("content").unwrap_or_default());
        }
    }
    if transcript.calls.is_empty() {
        blocks(transcript, object.list("content").unwrap_or_default());
    }
    let structured = object.get("output").or_else(|| object.get("object")).is_some();
    transcript.answer = match object.text("text") {
        Some(text) if !structured => Answer::of(text),
        Some(_) | None => Answer::Data,
    };
    true
}

/// A graph's or a team's state: its messages, and perhaps why it stopped.
fn message_state<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let Some(items) = object.list("messages").filter(|items| looks_like_messages(items)) else { return false };
    messages::walk(transcript, &items);
    if object.get("structured_response").is_some() {
        transcript.answer = Answer::Data;
    }
    if let Some(why) = object.text("stop_reason").filter(|why| phrases::is_cap(why)) {
        transcript.capped = Some(excerpt(&why));
    }
    true
}

fn agents_sdk<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    if !object.has("final_output") {
        return false;
    }
    let items = object.list("new_items").or_else(|| object.list("raw_responses")).unwrap_or_default();
    messages::walk(transcript, &items);
    transcript.answer = match object.get("final_output") {
        Some(token) => text(token).map_or(Answer::Data, Answer::of),
        None => Answer::Blank,
    };
    true
}

/// LangChain's older executor gives its input back with its output.
fn agent_executor<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let known = ["input", "output", "chat_history", "intermediate_steps"];
    if !object.has("input") || !object.has("output") || object.keys().any(|key| !known.contains(&key)) {
        return false;
    }
    transcript.answer = match object.get("output") {
        Some(token) => text(token).map_or(Answer::Data, Answer::of),
        None => Answer::Blank,
    };
    true
}

fn crew<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    if !object.has("raw") || !object.has("tasks_output") {
        return false;
    }
    let structured = object.get("json_dict").or_else(|| object.get("pydantic")).is_some();
    transcript.answer = match object.text("raw") {
        Some(raw) if !structured => Answer::of(raw),
        Some(_) | None => Answer::Data,
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
fn tool_result_itself<'a>(transcript: &mut Transcript<'a>, object: &Obj<'a>) -> bool {
    let failed = ["isError", "is_error"].iter().any(|flag| object.is(flag, "true"));
    let is_result = object.has("content") && (object.has("isError") || object.has("is_error"));
    // With anything beside it, such as a confidence, it is a finding about somebody else's error.
    if !is_result || object.keys().any(|key| !OF_A_TOOL_RESULT.contains(&key)) {
        return false;
    }
    transcript.answer = Answer::Data;
    if failed && let ToolResult::Failed(said) = tool_result("", true, &messages::said_in(object.get("content"))) {
        transcript.failure = Some(said);
    }
    true
}
