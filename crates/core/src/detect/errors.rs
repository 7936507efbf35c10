//! Errors in place of an answer: tells error objects from findings, and knows the sentences that frameworks return.

use std::borrow::Cow;

use super::json::{JsonObject, text};
use crate::classify::{Evidence, classify};
use crate::reason::Reason;

/// Whose object it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum ErrorSource<'a> {
    /// The output of the run itself. A checking agent's output may be about errors.
    Agent,
    /// The result of a tool of that name.
    Tool(&'a str),
}

/// Fields that may accompany an error. Any other field makes the object a finding.
const ENVELOPE: &[&str] = &[
    "attempts",
    "code",
    "detail",
    "details",
    "error",
    "errorCode",
    "errorMessage",
    "errorType",
    "error_code",
    "error_message",
    "error_type",
    "errors",
    "exception",
    "hint",
    "id",
    "isError",
    "is_error",
    "jsonrpc",
    "message",
    "ok",
    "path",
    "reason",
    "requestId",
    "request_id",
    "retries",
    "retryable",
    "retry_after",
    "stack",
    "status",
    "statusCode",
    "status_code",
    "success",
    "timestamp",
    "tool",
    "tool_name",
    "trace",
    "trace_id",
    "traceback",
    "type",
    "why",
];

/// Whether an object is an error and not a finding about one.
pub(super) fn is_error(object: &JsonObject<'_>, teller: ErrorSource<'_>) -> bool {
    let only_an_envelope = object.fields().all(|(key, token)| is_nothing(token) || ENVELOPE.contains(&key));
    if !only_an_envelope || claims_success(object) {
        return false;
    }
    let denies = ["ok", "success"].iter().any(|name| object.is(name, "false"))
        || ["error", "isError", "is_error"].iter().any(|name| object.is(name, "true"));
    let erred = object.says("status", "error");
    let checks = matches!(teller, ErrorSource::Tool(name) if is_a_check(name));
    // What a check says is its finding, unless it tells of a check that could not be made.
    let of_a_check = |said: &str| !checks || is_technical(said);
    if let Some(said) = error_in(object) {
        return of_a_check(&said);
    }
    let message = object.text_of(&["message", "detail", "error_message", "errorMessage"]);
    match (message.filter(|said| !said.trim().is_empty()), teller) {
        (Some(said), ErrorSource::Tool(_)) => (denies || erred) && of_a_check(&said),
        (Some(said), ErrorSource::Agent) => erred || denies && is_technical(&said),
        (None, ErrorSource::Tool(_)) => (denies || erred) && !checks && !object.has("errors"),
        (None, ErrorSource::Agent) => false,
    }
}

fn is_nothing(token: &str) -> bool {
    matches!(token, "null" | "\"\"" | "[]" | "{}")
}

fn claims_success(object: &JsonObject<'_>) -> bool {
    const GOOD: &[&str] = &["ok", "success", "succeeded", "completed", "done", "passed"];
    ["ok", "success"].iter().any(|name| object.is(name, "true"))
        || object.text("status").is_some_and(|status| GOOD.contains(&status.to_ascii_lowercase().as_str()))
}

/// What went wrong, in the words of the object. A number is a figure, and `none` is no error.
fn error_in<'a>(object: &JsonObject<'a>) -> Option<Cow<'a, str>> {
    let token = object.get("error").filter(|token| !is_nothing(token))?;
    if let Some(said) = text(token) {
        return Some(said).filter(|said| !says_none(said));
    }
    if let Some(error) = JsonObject::read(token) {
        return Some(error.text("message").unwrap_or(Cow::Borrowed(token)));
    }
    let listed_as_texts = super::json::list(token).is_some_and(|items| items.iter().all(|item| item.starts_with('"')));
    listed_as_texts.then_some(Cow::Borrowed(token))
}

fn says_none(said: &str) -> bool {
    const NONE: &[&str] = &["", "-", "0", "false", "n/a", "na", "nil", "no", "none", "null", "ok"];
    let said = said.trim().trim_end_matches('.').to_ascii_lowercase();
    NONE.contains(&said.as_str()) || said.starts_with("no error") || said.starts_with("0 error")
}

/// An infrastructure failure by the classifier, as opposed to a finding about the subject.
fn is_technical(said: &str) -> bool {
    matches!(
        classify(&Evidence::of(said)).reason,
        Reason::Timeout
            | Reason::RateLimited
            | Reason::QuotaExhausted
            | Reason::ProviderOverloaded
            | Reason::ProviderError
            | Reason::Network
            | Reason::DependencyUnavailable
            | Reason::AuthFailed
            | Reason::ToolNotFound
            | Reason::ResourceExhausted
            | Reason::Bug
    )
}

/// Whether a tool's name says that it looks at something rather than does something.
fn is_a_check(name: &str) -> bool {
    const CHECKS: &[&str] = &[
        "assert",
        "audit",
        "can",
        "check",
        "checker",
        "checks",
        "compare",
        "detect",
        "diff",
        "eval",
        "evaluate",
        "exists",
        "grade",
        "has",
        "health",
        "healthcheck",
        "inspect",
        "is",
        "judge",
        "lint",
        "match",
        "moderate",
        "monitor",
        "ping",
        "probe",
        "review",
        "scan",
        "score",
        "screen",
        "test",
        "tests",
        "typecheck",
        "valid",
        "validate",
        "validation",
        "validator",
        "verify",
        "verification",
        "verifier",
    ];
    let mut humps = String::with_capacity(name.len() + 8);
    for letter in name.chars().take(200) {
        if letter.is_ascii_uppercase() {
            humps.push(' ');
        }
        humps.push(letter.to_ascii_lowercase());
    }
    humps.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| CHECKS.contains(&word))
}

/// An agent's step cap, given back as its answer.
const CAPS: &[&str] = &[
    // LangGraph, LangChain
    "Sorry, need more steps to process this request.",
    "Agent stopped due to iteration limit or time limit.",
    "Agent stopped due to max iterations.",
    "Model call limits exceeded: * limit (*)",
    "Model call limits exceeded: * limit (*), * limit (*)",
    "Tool call limit exceeded. Do not call '*' again.",
    "Tool call limit reached: * limit exceeded (* calls).",
    "'*' tool call limit reached: * limit exceeded (* calls).",
    // CrewAI
    "Maximum iterations reached. Requesting final answer.",
    // AutoGen, OpenAI Agents, Pydantic AI
    "Maximum number of turns * reached.",
    "Max turns (*) exceeded",
    "The next request would exceed the request_limit of *",
];

/// An agent that noticed its own loop.
const LOOPS: &[&str] = &["I tried reusing the same input, I must stop using this action input.*"];

/// A generation that could not be parsed.
const UNREADABLE: &[&str] = &["Invalid or incomplete response"];

/// A tool's error, passed on as text.
const TOOL_ERRORS: &[&str] = &[
    // LangChain, LangGraph
    "Error: * is not a valid tool, try one of [*",
    "Error: *\n Please fix your mistakes.",
    "Error executing tool '*' with kwargs *",
    "Error invoking tool '*' with kwargs *",
    "Tool '*' failed after * attempts with *",
    "Model call failed after * attempts with *",
    "Tool execution error",
    "Tool input validation error",
    // CrewAI
    "I encountered an error: *",
    "I encountered an error while trying to use the tool. This was the error: *",
    "Error executing tool. *",
    "You tried to use the tool *, but it doesn't exist.*",
    // OpenAI Agents
    "An error occurred while running the tool. Please try again.*",
    "Tool '*' timed out after * seconds.",
    "Tool '*' timed out after *ms.",
    // AutoGen, Agent Framework
    "Error: tool '*' not found in any workbench",
    "Error: Function failed.*",
    "Error: Argument parsing failed.*",
    "Error: Requested function \"*\" not found.*",
    "API request failed",
    "API request failed: *",
    "API request failed with *",
];

pub(super) fn is_cap(text: &str) -> bool {
    any(CAPS, text)
}

pub(super) fn is_loop(text: &str) -> bool {
    any(LOOPS, text)
}

pub(super) fn is_unreadable(text: &str) -> bool {
    any(UNREADABLE, text)
}

pub(super) fn is_tool_error(text: &str) -> bool {
    any(TOOL_ERRORS, text)
}

fn any(phrases: &[&str], text: &str) -> bool {
    let text = text.trim();
    phrases.iter().any(|phrase| fits(phrase, text))
}

/// `*` stands for anything; both ends are anchored.
fn fits(phrase: &str, text: &str) -> bool {
    let mut pieces = phrase.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(between) = last.replace(piece) {
            match rest.find(between) {
                Some(at) => rest = &rest[at + between.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(end) => rest.ends_with(end),
        None => rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_envelopes_and_findings_are_not() {
        let errs = |token, teller| is_error(&JsonObject::read(token).unwrap(), teller);
        for (token, agent, tool, check) in [
            (r#"{"ok":false}"#, false, true, false),
            (r#"{"status":"error"}"#, false, true, false),
            (r#"{"ok":false,"why":"late"}"#, false, true, false),
            (r#"{"success":false,"violations":["R1"]}"#, false, false, false),
            (r#"{"success":false,"errors":["line 1"]}"#, false, false, false),
            (r#"{"status":"error","tests":12}"#, false, false, false),
            (r#"{"status":"error","message":"no such invoice"}"#, true, true, false),
            (r#"{"ok":false,"message":"too late"}"#, false, true, false),
            (r#"{"ok":false,"message":"connection reset by peer"}"#, true, true, true),
            (r#"{"ok":false,"error":"too late"}"#, true, true, false),
            (r#"{"ok":false,"error":"connection refused","data":null}"#, true, true, true),
            (r#"{"ok":false,"error":"connection refused","region":"eu"}"#, false, false, false),
            (r#"{"error":"no route","code":42}"#, true, true, false),
            (r#"{"error":null,"ok":true}"#, false, false, false),
            (r#"{"error":"","value":1}"#, false, false, false),
            (r#"{"error":0.2}"#, false, false, false),
            (r#"{"errors":[]}"#, false, false, false),
            (r#"{}"#, false, false, false),
        ] {
            let told =
                [ErrorSource::Agent, ErrorSource::Tool("send"), ErrorSource::Tool("checkVat")].map(|t| errs(token, t));
            assert_eq!(told, [agent, tool, check], "{token}");
        }
    }

    #[test]
    fn phrases_match_whole_messages_only() {
        assert!(is_cap("Sorry, need more steps to process this request."));
        assert!(is_cap(" Agent stopped due to max iterations.\n"));
        assert!(!is_cap("The log says: Agent stopped due to max iterations."));
        assert!(!is_cap("Agent stopped due to max iterations. I then raised the limit and it worked."));
        assert!(is_cap("Model call limits exceeded: run limit (5/5)"));
        assert!(is_cap("Tool call limit reached: run limit exceeded (4/3 calls)."));
        assert!(is_tool_error("Error: web_search is not a valid tool, try one of [fetch, sum]."));
        assert!(is_tool_error("Error: ValueError('x')\n Please fix your mistakes."));
        assert!(!is_tool_error("Error: the third column holds text, so I left it out."));
        assert!(!is_tool_error("Two tools were used. Error executing tool 'x' with kwargs {} came up once."));
    }
}
