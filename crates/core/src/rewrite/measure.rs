//! What a request weighs, and what it would weigh with everything left out that may be.

use crate::json::Tape;
use crate::policy::PayloadShape;
use crate::preflight::{is_seen, weigh};
use crate::rewrite::compress::{NOTE_TOKENS, last_texts};
use crate::rewrite::groups::plan;
use crate::rewrite::messages::{Message, messages};
use crate::rewrite::request::{Request, find};
use crate::rewrite::shorten::SHORTEST_TOKENS;

/// Estimated tokens of a request's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    pub tokens: u64,
    /// With all dropped and shortened that may be: compression can't go below it.
    pub floor_tokens: u64,
    /// The model that the request names.
    pub model: Option<String>,
    /// The output that the request allows.
    pub output_tokens: Option<u64>,
}

/// Measures the request in a payload; none when its shape is not known.
pub fn measure(payload: &str, shape: &PayloadShape) -> Option<Room> {
    let tape = Tape::of(payload)?;
    let request = find(&tape, shape)?;
    let messages = messages(&request);
    let fixed = fixed_tokens(&request);
    let tokens = fixed + messages.iter().map(|message| message.tokens).sum::<u64>();
    Some(Room {
        tokens,
        floor_tokens: floor(&messages, tokens),
        model: model(&request),
        output_tokens: request.output.and_then(|at| tape.whole(at)),
    })
}

/// The model that a payload's request names.
pub fn model_of(payload: &str, shape: &PayloadShape) -> Option<String> {
    let tape = Tape::of(payload)?;
    model(&find(&tape, shape)?)
}

pub(crate) fn model(request: &Request<'_, '_>) -> Option<String> {
    request.model.and_then(|at| request.tape.string(at)).map(|name| name.into_owned())
}

/// What stays whatever happens to the messages: system, tools, formats.
pub(crate) fn fixed_tokens(request: &Request<'_, '_>) -> u64 {
    let tape = request.tape;
    let beside: u64 = match request.body {
        Some(body) => tape
            .members(body)
            .filter(|(key, value)| Some(*value) != request.messages && is_seen(tape, *key, *value))
            .map(|(_, value)| weigh(tape, value, request.tokenizer))
            .sum(),
        None => request.system.iter().chain(&request.instructions).map(|at| weigh(tape, *at, request.tokenizer)).sum(),
    };
    beside + 3
}

/// What a request of `tokens` would weigh with everything left out that may be.
pub(crate) fn floor(messages: &[Message<'_>], tokens: u64) -> u64 {
    let plan = plan(messages);
    let droppable: u64 = plan.droppable.iter().flatten().map(|n| messages[*n].tokens).sum();
    let cuttable: u64 =
        last_texts(messages, &plan).iter().map(|(_, tokens)| tokens.saturating_sub(SHORTEST_TOKENS)).sum();
    (tokens.saturating_sub(droppable + cuttable) + NOTE_TOKENS).min(tokens)
}
