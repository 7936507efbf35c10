//! What an output shows of the work behind it: the final answer, how generation ended, and each tool call with its result.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::errors;
use super::errors::{ErrorSource, is_error};
use super::json::JsonObject;

/// The final answer of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum FinalAnswer<'a> {
    /// The output does not show one.
    #[default]
    NotGiven,
    Blank,
    Text(Cow<'a, str>),
    /// Data, or a tool call: whatever it is, it is there.
    Data,
}

impl<'a> FinalAnswer<'a> {
    pub(super) fn of(text: Cow<'a, str>) -> Self {
        if is_blank(&text) { Self::Blank } else { Self::Text(text) }
    }
}

/// Blank: spaces and invisible characters.
pub(super) fn is_blank(text: &str) -> bool {
    let unseen = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' | '\0');
    text.chars().all(|c| c.is_whitespace() || unseen(c))
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolCall<'a> {
    id: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    /// Of name, arguments and, once it is there, the result.
    pub(super) hash: u64,
    pub(super) result: Option<ToolResult>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolResult {
    Good,
    Failed(String),
}

/// Extracted from an output of any shape.
#[derive(Debug, Default)]
pub(super) struct Transcript<'a> {
    pub(super) answer: FinalAnswer<'a>,
    pub(super) endings: Vec<Cow<'a, str>>,
    /// A refusal in the provider's own field.
    pub(super) refused: bool,
    pub(super) calls: Vec<ToolCall<'a>>,
    /// The output is one answer of a model, so that a tool call in it may be all that was asked for.
    pub(super) one_response: bool,
    /// The framework says itself that its steps ran out.
    pub(super) capped: Option<String>,
    /// The output is a tool's failure.
    pub(super) failure: Option<String>,
}

/// As much of a text as a message may quote.
pub(super) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 200;
    let line = text.trim();
    if line.len() <= LONGEST {
        return line.to_owned();
    }
    format!("{}…", &line[..line.floor_char_boundary(LONGEST)])
}

impl<'a> Transcript<'a> {
    pub(super) fn ended(&mut self, word: Option<Cow<'a, str>>) {
        self.endings.extend(word);
    }

    pub(super) fn call(&mut self, id: Option<Cow<'a, str>>, name: Option<Cow<'a, str>>, arguments: Option<&str>) {
        let name = name.unwrap_or_default();
        let mut hash = DefaultHasher::new();
        name.hash(&mut hash);
        canonical(arguments.unwrap_or("null")).hash(&mut hash);
        self.calls.push(ToolCall { id, name, hash: hash.finish(), result: None });
    }

    /// The result of a call: of the one it names, otherwise of the first that waits for one.
    pub(super) fn result(&mut self, id: Option<Cow<'a, str>>, name: Option<Cow<'a, str>>, failed: bool, content: &str) {
        let waits = |call: &ToolCall<'_>| call.result.is_none();
        let found = match &id {
            Some(id) => self.calls.iter().rposition(|call| waits(call) && call.id.as_ref() == Some(id)),
            None => self.calls.iter().position(waits),
        };
        let at = found.unwrap_or_else(|| {
            self.call(id, name, None);
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        let mut hash = DefaultHasher::new();
        (call.hash, canonical(content)).hash(&mut hash);
        call.hash = hash.finish();
        call.result = Some(tool_result(&call.name, failed, content));
    }
}

/// A tool's result by its flag, by its words, or by what its JSON says of itself.
pub(super) fn tool_result(tool: &str, failed: bool, content: &str) -> ToolResult {
    let said = super::json::text(content).unwrap_or(Cow::Borrowed(content));
    let own_words = || {
        let inner = JsonObject::read(said.trim_start()).or_else(|| JsonObject::read(content));
        inner.as_ref().is_some_and(|inner| is_error(inner, ErrorSource::Tool(tool))) || errors::is_tool_error(&said)
    };
    if failed || own_words() { ToolResult::Failed(excerpt(&said)) } else { ToolResult::Good }
}

/// The same arguments in another order or spacing are the same.
fn canonical(token: &str) -> String {
    let text = super::json::text(token);
    let json = text.as_deref().unwrap_or(token);
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value.to_string(),
        Err(_) => json.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_arguments_compare_regardless_of_order_and_spacing() {
        assert_eq!(canonical(r#"{"a":1,"b":2}"#), canonical(r#" { "b": 2, "a": 1 }"#));
        assert_eq!(canonical(r#""{\"a\":1}""#), canonical(r#"{"a":1}"#));
        assert_ne!(canonical(r#"{"a":1}"#), canonical(r#"{"a":2}"#));
    }
}
