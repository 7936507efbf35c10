//! What a payload is made of, by weight: which message, which tool, which member takes the room.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::{At, Kind, Tape};
use crate::policy::PayloadShape;
use crate::preflight::classes::Tally;
use crate::preflight::tokenizer::Tokenizer;
use crate::preflight::weigh::{is_seen, tally_of};
use crate::rewrite::{Message, Request};

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

/// A part before it has its name: most are never listed.
enum Piece {
    Message(usize),
    Member(At),
    Item(usize),
}

/// A request's tally, and its largest parts, the largest first. Its messages have been weighed already.
pub(super) fn of_request(
    request: &Request<'_, '_>,
    messages: &[Message<'_>],
    shape: &PayloadShape,
) -> (Tally, Vec<Part>) {
    let (tape, of) = (request.tape, request.tokenizer);
    let mut whole = Tally::default();
    let mut pieces = Vec::with_capacity(messages.len());
    for (n, message) in messages.iter().enumerate() {
        whole += message.tally;
        pieces.push((message.tokens, Piece::Message(n)));
    }
    for (key, value) in request.body.into_iter().flat_map(|body| tape.members(body)) {
        if Some(value) != request.messages && is_seen(tape, key, value) {
            let tally = tally_of(tape, value);
            whole += tally;
            pieces.push((of.tokens(&tally), Piece::Member(key)));
        }
    }
    if request.body.is_none() {
        request.system.iter().chain(&request.instructions).for_each(|at| whole += tally_of(tape, *at));
    }
    let (body, list) = pointers(request, shape);
    let named = |(tokens, piece): (u64, Piece)| match piece {
        Piece::Message(n) => {
            let role = tape.get(messages[n].at, "role").and_then(|role| tape.string(role));
            Part { pointer: format!("{list}/{n}"), role: role.map(|role| role.into_owned()), tokens }
        }
        Piece::Member(key) => Part { pointer: format!("{body}/{}", name(tape, key)), role: None, tokens },
        Piece::Item(n) => Part { pointer: format!("{body}/{n}"), role: None, tokens },
    };
    (whole, largest(pieces).into_iter().map(named).collect())
}

/// The largest members or items of any JSON.
pub(super) fn of_any(tape: &Tape<'_>, of: Tokenizer) -> Vec<Part> {
    let root = tape.root();
    let weigh = |at: At| of.tokens(&tally_of(tape, at));
    let pieces = match tape.kind(root) {
        Kind::Object => tape.members(root).map(|(key, value)| (weigh(value), Piece::Member(key))).collect(),
        Kind::Array => tape.items(root).enumerate().map(|(n, item)| (weigh(item), Piece::Item(n))).collect(),
        Kind::String | Kind::Other => return vec![Part { pointer: String::new(), role: None, tokens: weigh(root) }],
    };
    let named = |(tokens, piece): (u64, Piece)| {
        let pointer = match piece {
            Piece::Member(key) => format!("/{}", name(tape, key)),
            Piece::Item(n) | Piece::Message(n) => format!("/{n}"),
        };
        Part { pointer, role: None, tokens }
    };
    largest(pieces).into_iter().map(named).collect()
}

/// The largest first; those that weigh the same in their order.
fn largest(mut pieces: Vec<(u64, Piece)>) -> Vec<(u64, Piece)> {
    pieces.retain(|(tokens, _)| *tokens > 0);
    pieces.sort_by_key(|(tokens, _)| std::cmp::Reverse(*tokens));
    pieces.truncate(PARTS_MAX);
    pieces
}

/// Where the request and its list of messages lie.
fn pointers(request: &Request<'_, '_>, shape: &PayloadShape) -> (String, String) {
    let tape = request.tape;
    let member =
        |of: At, wanted: At| tape.members(of).find(|(_, value)| *value == wanted).map(|(key, _)| name(tape, key));
    let body = match (&shape.request, request.body) {
        (Some(pointer), _) => pointer.clone(),
        (None, Some(body)) => member(tape.root(), body).map_or_else(String::new, |name| format!("/{name}")),
        (None, None) => String::new(),
    };
    let list = match (&shape.messages, request.body.zip(request.messages)) {
        (Some(pointer), _) => pointer.clone(),
        (None, Some((of, list))) => member(of, list).map_or_else(|| body.clone(), |name| format!("{body}/{name}")),
        (None, None) => body.clone(),
    };
    (body, list)
}

/// A key as a pointer writes it.
fn name(tape: &Tape<'_>, key: At) -> String {
    tape.string(key).unwrap_or_default().replace('~', "~0").replace('/', "~1")
}
