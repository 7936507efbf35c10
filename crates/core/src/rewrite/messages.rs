//! The messages of a request, each with what it is to the conversation, what it weighs and which of its texts may be
//! shortened.

use std::borrow::Cow;

use crate::json::{At, JsonKind, Tape};
use crate::policy::PayloadFormat;
use crate::preflight::{Class, ClassTally, MILLI, tally_without};
use crate::rewrite::request::Request;

/// What a message is to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageRole {
    /// From the operator of the agent: stays.
    System,
    /// From a person, or another requester.
    User,
    Assistant,
    /// Of an assistant that asks for tools.
    Call,
    /// What a tool gave.
    Result,
    /// Belongs to whatever comes next.
    Preface,
}

#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) at: At,
    pub(crate) part: MessageRole,
    pub(crate) tokens: u64,
    pub(crate) tally: ClassTally,
    /// Ids of the calls that it makes, and of those that it answers.
    pub(crate) calls: Vec<Cow<'a, str>>,
    pub(crate) answers: Vec<Cow<'a, str>>,
    /// Strings that may be shortened, with what they weigh.
    pub(crate) texts: Vec<(At, u64)>,
}

/// Around each message the provider puts a few tokens of its own.
const MESSAGE_OVERHEAD_TOKENS: u64 = 4;

pub(crate) fn messages<'a>(request: &Request<'_, 'a>) -> Vec<Message<'a>> {
    let Some(list) = request.messages else { return Vec::new() };
    let tape = request.tape;
    let read = |at: At| {
        let mut message = match request.format {
            PayloadFormat::OpenaiChat => openai_chat(tape, at),
            PayloadFormat::OpenaiResponses => openai_responses(tape, at),
            PayloadFormat::Anthropic => anthropic(tape, at),
            PayloadFormat::Plain => plain(tape, at),
        };
        weigh(request, &mut message);
        message
    };
    tape.items(list).map(read).collect()
}

/// Each text once: what a message weighs is what its texts do, and the rest.
fn weigh(request: &Request<'_, '_>, message: &mut Message<'_>) {
    let (tape, tokenizer) = (request.tape, request.tokenizer);
    message.texts.sort_by_key(|(at, _)| *at);
    let texts: Vec<At> = message.texts.iter().map(|(at, _)| *at).collect();
    let mut whole = tally_without(tape, message.at, &texts);
    for (at, tokens) in &mut message.texts {
        let tally = request.reading.tally(tape, *at);
        *tokens = tokenizer.tokens(&tally);
        whole += tally;
    }
    whole.add(Class::Marks, MESSAGE_OVERHEAD_TOKENS * MILLI);
    message.tokens = tokenizer.tokens(&whole);
    message.tally = whole;
}

fn message<'a>(at: At, part: MessageRole) -> Message<'a> {
    Message {
        at,
        part,
        tokens: 0,
        tally: ClassTally::default(),
        calls: Vec::new(),
        answers: Vec::new(),
        texts: Vec::new(),
    }
}

fn openai_chat<'a>(tape: &Tape<'a>, at: At) -> Message<'a> {
    let calls: Vec<At> = tape.get(at, "tool_calls").into_iter().flat_map(|calls| tape.items(calls)).collect();
    let part = match word(tape, at, "role") {
        "system" | "developer" => MessageRole::System,
        "user" => MessageRole::User,
        "tool" | "function" => MessageRole::Result,
        _ if !calls.is_empty() || tape.get(at, "function_call").is_some_and(|call| !tape.is_null(call)) => {
            MessageRole::Call
        }
        _ => MessageRole::Assistant,
    };
    let mut message = message(at, part);
    message.calls = calls.into_iter().filter_map(|call| tape.string(tape.get(call, "id")?)).collect();
    message.answers = tape.get(at, "tool_call_id").and_then(|id| tape.string(id)).into_iter().collect();
    if let Some(content) = tape.get(at, "content") {
        content_texts(tape, content, &mut message.texts);
    }
    message
}

fn openai_responses<'a>(tape: &Tape<'a>, at: At) -> Message<'a> {
    let call_id = || tape.get(at, "call_id").and_then(|id| tape.string(id)).into_iter().collect::<Vec<_>>();
    let kind = word(tape, at, "type");
    if kind.ends_with("_call_output") {
        let mut message = message(at, MessageRole::Result);
        message.answers = call_id();
        if let Some(output) = tape.get(at, "output") {
            content_texts(tape, output, &mut message.texts);
        }
        return message;
    }
    if kind.ends_with("_call") {
        let mut message = message(at, MessageRole::Call);
        message.calls = call_id();
        return message;
    }
    let part = match word(tape, at, "role") {
        "system" | "developer" => MessageRole::System,
        "user" => MessageRole::User,
        "assistant" => MessageRole::Assistant,
        // Reasoning belongs to the item that it led to.
        _ if kind == "reasoning" => MessageRole::Preface,
        _ => MessageRole::Assistant,
    };
    let mut message = message(at, part);
    if let Some(content) = tape.get(at, "content").filter(|_| part != MessageRole::Preface) {
        content_texts(tape, content, &mut message.texts);
    }
    message
}

fn anthropic<'a>(tape: &Tape<'a>, at: At) -> Message<'a> {
    let user = word(tape, at, "role") == "user";
    let mut found = message(at, if user { MessageRole::User } else { MessageRole::Assistant });
    let Some(content) = tape.get(at, "content") else { return found };
    let mut given = Vec::new();
    for block in tape.items(content) {
        match word(tape, block, "type") {
            "tool_use" => {
                found.part = MessageRole::Call;
                found.calls.extend(tape.get(block, "id").and_then(|id| tape.string(id)));
            }
            "tool_result" => {
                found.part = MessageRole::Result;
                found.answers.extend(tape.get(block, "tool_use_id").and_then(|id| tape.string(id)));
                if let Some(inner) = tape.get(block, "content") {
                    content_texts(tape, inner, &mut given);
                }
            }
            _ => {}
        }
    }
    // Beside results a person may have said something: that is not a tool's to shorten.
    match found.part {
        MessageRole::Result => found.texts = given,
        MessageRole::System | MessageRole::User | MessageRole::Assistant | MessageRole::Call | MessageRole::Preface => {
            content_texts(tape, content, &mut found.texts);
        }
    }
    found
}

fn plain<'a>(tape: &Tape<'a>, at: At) -> Message<'a> {
    let mut message = message(at, MessageRole::Assistant);
    match tape.kind(at) {
        JsonKind::String => text(tape, at, &mut message.texts),
        JsonKind::Object => tape.members(at).for_each(|(_, value)| {
            if tape.kind(value) == JsonKind::String {
                text(tape, value, &mut message.texts);
            }
        }),
        JsonKind::Array | JsonKind::Other => {}
    }
    message
}

/// A string, or the texts of a list of blocks. Thinking is signed and media is no text: both stay as they are.
fn content_texts(tape: &Tape<'_>, content: At, texts: &mut Vec<(At, u64)>) {
    match tape.kind(content) {
        JsonKind::String => text(tape, content, texts),
        JsonKind::Array => {
            for block in tape.items(content) {
                let plain = matches!(word(tape, block, "type"), "text" | "input_text" | "output_text");
                if let Some(at) = tape.get(block, "text").filter(|_| plain) {
                    text(tape, at, texts);
                }
            }
        }
        JsonKind::Object | JsonKind::Other => {}
    }
}

fn text(tape: &Tape<'_>, at: At, texts: &mut Vec<(At, u64)>) {
    if tape.kind(at) == JsonKind::String {
        texts.push((at, 0));
    }
}

/// A member that is one of a few plain words.
pub(crate) fn word<'a>(tape: &Tape<'a>, at: At, name: &str) -> &'a str {
    tape.get(at, name).map_or("", |value| tape.raw(value).trim_matches('"'))
}
