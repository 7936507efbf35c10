//! Finding the request to the model in a payload: by the queue's pointers, otherwise by its structure.

use crate::json::{At, JsonKind, Tape};
use crate::policy::{PayloadFormat, PayloadShape};
use crate::preflight::{Reading, Tokenizer};

/// A request and the places in it that changes touch.
#[derive(Debug)]
pub(crate) struct Request<'t, 'a> {
    pub(crate) tape: &'t Tape<'a>,
    pub(crate) format: PayloadFormat,
    /// The object that holds it all; none where only pointers say where things are.
    pub(crate) body: Option<At>,
    /// The list of messages or items.
    pub(crate) messages: Option<At>,
    /// The system prompt beside the messages.
    pub(crate) system: Option<At>,
    /// A text that takes instructions, where the queue names one.
    pub(crate) instructions: Option<At>,
    pub(crate) model: Option<At>,
    pub(crate) output: Option<At>,
    /// Whose tokens are counted.
    pub(crate) tokenizer: Tokenizer,
    pub(crate) reading: Reading,
}

/// The request in a payload; none where nothing looks like one.
pub(crate) fn find<'t, 'a>(tape: &'t Tape<'a>, shape: &PayloadShape) -> Option<Request<'t, 'a>> {
    let named = |pointer: &Option<String>| pointer.as_ref().and_then(|pointer| tape.pointer(tape.root(), pointer));
    let body = match &shape.request {
        Some(pointer) => tape.pointer(tape.root(), pointer),
        None => by_structure(tape),
    };
    let member = |name: &str| body.and_then(|body| tape.get(body, name));
    let listed = match &shape.messages {
        Some(pointer) => tape.pointer(tape.root(), pointer),
        None => member("messages").or_else(|| member("input")),
    };
    let messages = listed.filter(|at| tape.kind(*at) == JsonKind::Array);
    if messages.is_none() && !is_responses(tape, body) && named(&shape.instructions).is_none() {
        return None;
    }
    let format = shape.format.unwrap_or_else(|| format(tape, body, messages));
    let system = named(&shape.system).or_else(|| match format {
        PayloadFormat::Anthropic => member("system"),
        PayloadFormat::OpenaiResponses => member("instructions"),
        PayloadFormat::OpenaiChat | PayloadFormat::Plain => None,
    });
    let model = named(&shape.model).or_else(|| member("model")).filter(|at| tape.kind(*at) == JsonKind::String);
    let name = model.and_then(|at| tape.string(at));
    Some(Request {
        tape,
        format,
        body,
        messages,
        system: system.filter(|at| !tape.is_null(*at)),
        instructions: named(&shape.instructions),
        model,
        output: named(&shape.output_tokens).or_else(|| output(format, &member)).filter(|at| !tape.is_null(*at)),
        tokenizer: Tokenizer::of(name.as_deref()),
        reading: Reading::Whole,
    })
}

/// Where each format says how long the answer may be.
fn output(format: PayloadFormat, member: &impl Fn(&str) -> Option<At>) -> Option<At> {
    match format {
        PayloadFormat::OpenaiChat => member("max_completion_tokens").or_else(|| member("max_tokens")),
        PayloadFormat::OpenaiResponses => member("max_output_tokens"),
        PayloadFormat::Anthropic => member("max_tokens"),
        PayloadFormat::Plain => None,
    }
}

/// The payload itself, or the one object right inside it that looks like a request.
fn by_structure(tape: &Tape<'_>) -> Option<At> {
    let root = tape.root();
    if looks_like_one(tape, root) {
        return Some(root);
    }
    let mut inside = tape.members(root).map(|(_, value)| value).filter(|value| looks_like_one(tape, *value));
    match (inside.next(), inside.next()) {
        (Some(only), None) => Some(only),
        // Two requests in one payload: nobody can say which is meant.
        (Some(_), Some(_)) | (None, _) => None,
    }
}

fn looks_like_one(tape: &Tape<'_>, body: At) -> bool {
    let chat = tape.get(body, "messages").and_then(|list| tape.items(list).next());
    chat.is_some_and(|first| speaks(tape, first)) || is_responses(tape, Some(body))
}

/// Whether a message's role is one of a conversation's: other lists of messages have roles too.
fn speaks(tape: &Tape<'_>, message: At) -> bool {
    let role = tape.get(message, "role").map_or("", |role| tape.raw(role));
    matches!(role, "\"system\"" | "\"developer\"" | "\"user\"" | "\"assistant\"" | "\"tool\"" | "\"function\"")
}

/// OpenAI responses: `model` beside `input`, a text or a list of items.
fn is_responses(tape: &Tape<'_>, body: Option<At>) -> bool {
    let Some(body) = body else { return false };
    let Some(input) = tape.get(body, "input").filter(|_| tape.get(body, "model").is_some()) else { return false };
    match tape.kind(input) {
        JsonKind::String => ["instructions", "max_output_tokens", "previous_response_id", "reasoning", "store"]
            .iter()
            .any(|name| tape.get(body, name).is_some()),
        JsonKind::Array => tape
            .items(input)
            .next()
            .is_some_and(|first| tape.get(first, "role").is_some() || tape.get(first, "type").is_some()),
        JsonKind::Object | JsonKind::Other => false,
    }
}

/// Whose format it is, by what only one of them has.
fn format(tape: &Tape<'_>, body: Option<At>, messages: Option<At>) -> PayloadFormat {
    let has = |name: &str| body.is_some_and(|body| tape.get(body, name).is_some());
    if !has("messages") && is_responses(tape, body) {
        return PayloadFormat::OpenaiResponses;
    }
    let items = || messages.into_iter().flat_map(|list| tape.items(list));
    if items().any(|item| tape.get(item, "role").is_none()) {
        return PayloadFormat::Plain;
    }
    let only_openai = |item: At| {
        let role = tape.get(item, "role").map_or("", |role| tape.raw(role));
        matches!(role, "\"system\"" | "\"developer\"" | "\"tool\"" | "\"function\"")
            || tape.get(item, "tool_calls").is_some()
    };
    if items().any(only_openai) || has("max_completion_tokens") || has("response_format") {
        return PayloadFormat::OpenaiChat;
    }
    let model = body.and_then(|body| tape.string(tape.get(body, "model")?));
    let claude = model.is_some_and(|model| model.contains("claude") && !model.contains('/'));
    let blocks = |item: At| {
        let content = tape.get(item, "content").into_iter().flat_map(|content| tape.items(content));
        content.into_iter().any(|block| {
            let kind = tape.get(block, "type").map_or("", |kind| tape.raw(kind));
            matches!(kind, "\"tool_use\"" | "\"tool_result\"" | "\"thinking\"" | "\"redacted_thinking\"")
        })
    };
    if has("system") || has("anthropic_version") || has("stop_sequences") || claude || items().any(blocks) {
        return PayloadFormat::Anthropic;
    }
    PayloadFormat::OpenaiChat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_of(payload: &str) -> Option<PayloadFormat> {
        find(&Tape::of(payload)?, &PayloadShape::default()).map(|request| request.format)
    }

    #[test]
    fn formats_are_recognised_by_structure() {
        use PayloadFormat::{Anthropic, OpenaiChat, OpenaiResponses};
        for (payload, is) in [
            (r#"{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}"#, Some(OpenaiChat)),
            (
                r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"system":"x"}"#,
                Some(OpenaiChat),
            ),
            (
                r#"{"model":"claude-opus-4-1","messages":[{"role":"user","content":"hi"}],"max_tokens":9}"#,
                Some(Anthropic),
            ),
            (r#"{"system":"s","messages":[{"role":"user","content":"hi"}]}"#, Some(Anthropic)),
            (r#"{"model":"gpt-5","input":"hi","instructions":"s"}"#, Some(OpenaiResponses)),
            (r#"{"model":"gpt-5","input":[{"role":"user","content":"hi"}]}"#, Some(OpenaiResponses)),
            (r#"{"id":7,"request":{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}}"#, Some(OpenaiChat)),
            (r#"{"a":{"messages":[{"role":"user"}]},"b":{"messages":[{"role":"user"}]}}"#, None),
            (r#"{"messages":["hello"],"amount":3}"#, None),
            (r#"{"messages":[{"role":"sender","content":"a mail"}]}"#, None),
            (r#"{"model":"text-embedding-3","input":["a","b"]}"#, None),
            (r#"{"invoice":9}"#, None),
            ("[1,2]", None),
        ] {
            assert_eq!(format_of(payload), is, "{payload}");
        }
    }

    #[test]
    fn pointers_find_requests_without_known_structure() {
        let payload = r#"{"job":{"history":["a","b"],"llm":"gpt-5","cap":100,"prompt":"p"}}"#;
        let shape = PayloadShape {
            messages: Some("/job/history".into()),
            model: Some("/job/llm".into()),
            output_tokens: Some("/job/cap".into()),
            instructions: Some("/job/prompt".into()),
            ..Default::default()
        };
        let tape = Tape::of(payload).unwrap();
        let request = find(&tape, &shape).unwrap();
        assert_eq!(request.format, PayloadFormat::Plain);
        assert_eq!(tape.raw(request.model.unwrap()), "\"gpt-5\"");
        assert_eq!((tape.whole(request.output.unwrap()), request.instructions.is_some()), (Some(100), true));
    }
}
