//! Token weight of JSON values as a model receives them, sampled where a payload is large, and the largest parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tally::{Class, ClassTally, tally};
use super::tokenizer::{Estimate, MILLI, Tokenizer};
use crate::json::{At, JsonKind, Tape, escape_pointer};
use crate::policy::PayloadShape;
use crate::rewrite::{Message, Request};

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
        JsonKind::Object | JsonKind::Array => tape.raw(key) != "\"metadata\"",
        JsonKind::String => matches!(tape.raw(key).trim_matches('"'), "system" | "instructions" | "input" | "prompt"),
        JsonKind::Other => false,
    }
}

pub(crate) fn tally_of(tape: &Tape<'_>, at: At) -> ClassTally {
    tally_without(tape, at, &[])
}

/// The tally of a value without the strings `but`, in order, which are counted by themselves.
pub(crate) fn tally_without(tape: &Tape<'_>, at: At, but: &[At]) -> ClassTally {
    let mut sum = ClassTally::default();
    add(tape, at, but, &mut sum);
    sum
}

fn add(tape: &Tape<'_>, at: At, but: &[At], sum: &mut ClassTally) {
    match tape.kind(at) {
        JsonKind::String if but.binary_search(&at).is_ok() => {}
        JsonKind::String => *sum += string(tape, at),
        JsonKind::Other => {
            *sum += tally(tape.raw(at).as_bytes(), false);
            sum.add(Class::Marks, MILLI / 2);
        }
        JsonKind::Array => {
            for item in tape.items(at) {
                add(tape, item, but, sum);
                sum.add(Class::Marks, MILLI / 4);
            }
        }
        JsonKind::Object if is_media(tape, at) => sum.add(Class::Media, 1),
        JsonKind::Object => {
            for (key, value) in tape.members(at) {
                member(tape, key, value, but, sum);
            }
        }
    }
}

fn member(tape: &Tape<'_>, key: At, value: At, but: &[At], sum: &mut ClassTally) {
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

fn string(tape: &Tape<'_>, at: At) -> ClassTally {
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

const HALF_FROM_BYTES: usize = 1 << 20;
const WINDOW_BYTES: usize = 512;
/// A text with fewer pairs than these is read whole.
const PAIRS_MIN: usize = 2;
/// How far off the half may be from the whole, in percent.
const OFF_PERCENT: u64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reading {
    #[default]
    Whole,
    Half,
}

impl Reading {
    pub(super) fn of(payload: &str) -> Self {
        if payload.len() < HALF_FROM_BYTES { Self::Whole } else { Self::Half }
    }

    /// Of a text as it is.
    pub(super) fn text(self, text: &str) -> ClassTally {
        match self {
            Self::Whole => tally(text.as_bytes(), false),
            Self::Half => half(text.as_bytes(), false),
        }
    }

    /// Of one text in a request.
    pub(crate) fn tally(self, tape: &Tape<'_>, at: At) -> ClassTally {
        match (self, tape.kind(at)) {
            (Self::Half, JsonKind::String) => half(inside(tape, at), true),
            (Self::Half, JsonKind::Object | JsonKind::Array | JsonKind::Other) | (Self::Whole, _) => tally_of(tape, at),
        }
    }

    /// The bounds that an estimate has by this reading.
    pub(super) fn bounds(self, of: Estimate) -> Estimate {
        match self {
            Self::Whole => of,
            Self::Half => Estimate {
                low: of.low * (100 - OFF_PERCENT) / 100,
                high: (of.high * (100 + OFF_PERCENT)).div_ceil(100),
                ..of
            },
        }
    }
}

fn half(text: &[u8], escapes: bool) -> ClassTally {
    if text.len() < PAIRS_MIN * 2 * WINDOW_BYTES {
        return tally(text, escapes);
    }
    let (mut sum, mut read) = (ClassTally::default(), 0);
    for (n, pair) in text.chunks(2 * WINDOW_BYTES).enumerate() {
        let (first, second) = pair.split_at(WINDOW_BYTES.min(pair.len()));
        // By the bits of the pair's number: no text goes up and down in that rhythm.
        let window = if n.count_ones() % 2 == 0 || second.is_empty() { first } else { second };
        let window = from_a_character(window);
        sum += tally(window, escapes);
        read += window.len() as u64;
    }
    ClassTally(sum.0.map(|amount| amount * text.len() as u64 / read.max(1)))
}

/// A window may begin inside a character.
fn from_a_character(window: &[u8]) -> &[u8] {
    let rest = window.iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    &window[rest..]
}

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
enum UnnamedPart {
    Message(usize),
    Member(At),
    Item(usize),
}

/// A request's tally, and its largest parts, the largest first. Its messages have been weighed already.
pub(super) fn of_request(
    request: &Request<'_, '_>,
    messages: &[Message<'_>],
    shape: &PayloadShape,
) -> (ClassTally, Vec<Part>) {
    let (tape, of) = (request.tape, request.tokenizer);
    let mut whole = ClassTally::default();
    let mut pieces = Vec::with_capacity(messages.len());
    for (n, message) in messages.iter().enumerate() {
        whole += message.tally;
        pieces.push((message.tokens, UnnamedPart::Message(n)));
    }
    for (key, value) in request.body.into_iter().flat_map(|body| tape.members(body)) {
        if Some(value) != request.messages && is_seen(tape, key, value) {
            let tally = tally_of(tape, value);
            whole += tally;
            pieces.push((of.tokens(&tally), UnnamedPart::Member(key)));
        }
    }
    if request.body.is_none() {
        request.system.iter().chain(&request.instructions).for_each(|at| whole += tally_of(tape, *at));
    }
    let (body, list) = pointers(request, shape);
    let named = |(tokens, piece): (u64, UnnamedPart)| match piece {
        UnnamedPart::Message(n) => {
            let role = tape.get(messages[n].at, "role").and_then(|role| tape.string(role));
            Part { pointer: format!("{list}/{n}"), role: role.map(|role| role.into_owned()), tokens }
        }
        UnnamedPart::Member(key) => Part { pointer: format!("{body}/{}", name(tape, key)), role: None, tokens },
        UnnamedPart::Item(n) => Part { pointer: format!("{body}/{n}"), role: None, tokens },
    };
    (whole, largest(pieces).into_iter().map(named).collect())
}

/// The largest members or items of any JSON.
pub(super) fn of_any(tape: &Tape<'_>, of: Tokenizer) -> Vec<Part> {
    let root = tape.root();
    let weigh = |at: At| of.tokens(&tally_of(tape, at));
    let pieces = match tape.kind(root) {
        JsonKind::Object => tape.members(root).map(|(key, value)| (weigh(value), UnnamedPart::Member(key))).collect(),
        JsonKind::Array => tape.items(root).enumerate().map(|(n, item)| (weigh(item), UnnamedPart::Item(n))).collect(),
        JsonKind::String | JsonKind::Other => {
            return vec![Part { pointer: String::new(), role: None, tokens: weigh(root) }];
        }
    };
    let named = |(tokens, piece): (u64, UnnamedPart)| {
        let pointer = match piece {
            UnnamedPart::Member(key) => format!("/{}", name(tape, key)),
            UnnamedPart::Item(n) | UnnamedPart::Message(n) => format!("/{n}"),
        };
        Part { pointer, role: None, tokens }
    };
    largest(pieces).into_iter().map(named).collect()
}

/// The largest first; those that weigh the same in their order.
fn largest(mut pieces: Vec<(u64, UnnamedPart)>) -> Vec<(u64, UnnamedPart)> {
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
    escape_pointer(&tape.string(key).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use crate::preflight::Tokenizer;

    use super::*;

    const KINDS: [&str; 6] = [
        "The night shift began quietly, and nobody expected the phones to ring before morning. ",
        "    if let Some(found) = self.map.get(&key) {\n        return Ok(found.clone());\n    }\n",
        r#"{"id":4711,"state":"open","total":19.99,"tags":["a","b"]},"#,
        "夜班开始得很安静，谁也没想到天亮之前电话会响。",
        "aGVsbG8gd29ybGQh4oCmU29tZSBieXRlcyBoZXJl",
        "Ночная смена началась тихо, и никто не ждал звонков до утра. ",
    ];

    /// Of pieces of every kind, each as long as chance will have it.
    fn mixed(seed: u64, piece_max: u64) -> String {
        let (mut text, mut chance) = (String::new(), seed);
        while text.len() < HALF_FROM_BYTES {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let kind = KINDS[(chance >> 33) as usize % KINDS.len()];
            let length = (chance >> 40) % piece_max;
            text.extend(kind.chars().cycle().take(length as usize));
        }
        text
    }

    #[test]
    fn sampling_half_stays_within_its_bounds() {
        let texts = (1..=3).flat_map(|seed| [100, 512, 3_000, 20_000].map(|piece_max| mixed(seed, piece_max)));
        let plain = KINDS.map(|kind| kind.repeat(HALF_FROM_BYTES / kind.len() + 1));
        for text in texts.chain(plain) {
            assert_eq!(Reading::of(&text), Reading::Half);
            let [whole, half] = [Reading::Whole, Reading::Half]
                .map(|reading| reading.bounds(Tokenizer::O200k.estimate(&reading.text(&text))));
            let off = half.tokens.abs_diff(whole.tokens) * 100 / whole.tokens;
            assert!(off < OFF_PERCENT, "{off} % off: {whole:?} {half:?}");
            assert!(half.low <= whole.low && whole.high <= half.high, "{whole:?} {half:?}");
        }
    }

    #[test]
    fn small_texts_are_read_whole() {
        let text = KINDS[0].repeat(20);
        assert_eq!(Reading::of(&text), Reading::Whole);
        assert_eq!(Reading::Half.text(&text), Reading::Whole.text(&text));
    }
}
