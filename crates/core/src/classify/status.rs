//! What an HTTP status says when the text says nothing, and where a text carries one.

use super::evidence::FailurePlace;
use super::rules::{BY_STATUS, HINT, Rank};
use super::text;
use crate::reason::Reason;

/// Only the front is searched: a status further down belongs to something else.
const SEARCHED_BYTES: usize = 600;

/// The reason a status stands for by itself, and how much that weighs. 400 and 500 say next to nothing.
pub(super) fn meaning(status: u16, place: Option<FailurePlace>) -> Option<(Reason, Rank, &'static str)> {
    let from_model = matches!(place, Some(FailurePlace::Llm));
    let by_model = |model, other| if from_model { model } else { other };
    Some(match status {
        401 => (Reason::AuthFailed, BY_STATUS, "builtin.status.unauthorized"),
        402 => (Reason::QuotaExhausted, BY_STATUS + 25, "builtin.status.payment_required"),
        403 => (Reason::PermissionDenied, BY_STATUS, "builtin.status.forbidden"),
        404 | 410 => (Reason::NotFound, BY_STATUS, "builtin.status.not_found"),
        408 | 504 | 522 | 524 => (Reason::Timeout, BY_STATUS, "builtin.status.timeout"),
        409 => (Reason::ConflictDuplicate, BY_STATUS, "builtin.status.conflict"),
        412 => (Reason::ConflictDuplicate, HINT + 5, "builtin.status.precondition"),
        413 => (by_model(Reason::ContextOverflow, Reason::InvalidRequest), BY_STATUS, "builtin.status.too_large"),
        423 => (Reason::ConflictDuplicate, HINT + 5, "builtin.status.locked"),
        424 => (
            by_model(Reason::ProviderError, Reason::DependencyUnavailable),
            HINT + 5,
            "builtin.status.failed_dependency",
        ),
        425 => (by_model(Reason::ProviderError, Reason::DependencyUnavailable), HINT + 5, "builtin.status.too_early"),
        429 => (Reason::RateLimited, BY_STATUS, "builtin.status.too_many_requests"),
        451 => (Reason::PermissionDenied, HINT + 5, "builtin.status.legal"),
        498 => (by_model(Reason::ProviderOverloaded, Reason::AuthFailed), HINT + 5, "builtin.status.498"),
        499 => (Reason::Cancelled, BY_STATUS, "builtin.status.client_closed"),
        500 | 502 | 520 | 521 | 523 | 530 => {
            (by_model(Reason::ProviderError, Reason::DependencyUnavailable), HINT + 5, "builtin.status.server_error")
        }
        503 => {
            (by_model(Reason::ProviderError, Reason::DependencyUnavailable), BY_STATUS, "builtin.status.unavailable")
        }
        507 => (Reason::ResourceExhausted, HINT + 5, "builtin.status.storage"),
        525 | 526 => (Reason::Network, HINT + 5, "builtin.status.tls"),
        529 => (Reason::ProviderOverloaded, BY_STATUS, "builtin.status.overloaded"),
        400 | 405 | 406 | 411 | 414 | 415 | 416 | 421 | 422 | 426 | 428 | 431 | 501 | 505 => {
            (Reason::InvalidRequest, HINT + 5, "builtin.status.bad_request")
        }
        _ => return None,
    })
}

/// A status that the text names: `Error code: 429`, `HTTP/1.1 503`, `"status": 404`, `402 Insufficient Balance`.
pub(super) fn in_text(all: &str) -> Option<u16> {
    let front = text::head(all, SEARCHED_BYTES);
    let bytes = front.as_bytes();
    memchr::memchr2_iter(b'4', b'5', bytes).filter(|at| is_apart(bytes, *at)).find_map(|at| {
        let (before, after) = (&front[..at], &front[at + 3..]);
        (is_introduced(before) || is_leading(before, after)).then(|| front[at..at + 3].parse().ok()).flatten()
    })
}

/// Three digits with nothing else of a word or number around them.
fn is_apart(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1..at + 3).is_some_and(|rest| rest.iter().all(u8::is_ascii_digit))
        && (at == 0 || stands_apart(bytes[at - 1]) && !is_dotted(bytes, at))
        && bytes.get(at + 3).is_none_or(|b| stands_apart(*b) && !is_decimal(bytes, at + 3))
}

fn stands_apart(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-' | b'/' | b'#')
}

/// `error.503`: a part of a dotted name.
fn is_dotted(bytes: &[u8], at: usize) -> bool {
    bytes[at - 1] == b'.' && at.checked_sub(2).is_some_and(|before| bytes[before].is_ascii_alphanumeric())
}

fn is_decimal(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'.' | b',') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
}

/// Is the word before a number one that introduces a status?
fn is_introduced(before: &str) -> bool {
    let trimmed = before.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '\n');
    // `HTTP/1.1 503`
    let trimmed =
        trimmed.strip_suffix("HTTP/1.1").or_else(|| trimmed.strip_suffix("HTTP/2")).map_or(trimmed, |_| "http");
    let letters = trimmed.bytes().rev().take_while(u8::is_ascii_alphabetic).count();
    let word = &trimmed[trimmed.len() - letters..];
    const WORDS: [&str; 7] = ["code", "status", "http", "statuscode", "errorcode", "httperror", "response"];
    let apart = before.len() - trimmed.len();
    (WORDS.iter().any(|w| word.eq_ignore_ascii_case(w)) || word.eq_ignore_ascii_case("error")) && apart <= 6
}

/// A number at the front of the text, or after a short prefix and before a capital: `API Error: 529 Overloaded`.
fn is_leading(before: &str, after: &str) -> bool {
    let words_follow =
        after.trim_start_matches([' ', ':', '-', '"', '\'', '{']).starts_with(|c: char| c.is_ascii_uppercase());
    let at_front =
        before.trim().is_empty() || before.ends_with(": ") || before.ends_with('\'') || before.ends_with('>');
    words_follow && at_front || (before.trim().is_empty() && after.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::in_text;

    #[test]
    fn statuses_parse_where_a_text_introduces_them() {
        for (text, status) in [
            ("Error code: 429 - {'error': 1}", Some(429)),
            ("HTTP/1.1 503 Service Unavailable", Some(503)),
            ("{\"status\": 404}", Some(404)),
            ("402 Insufficient Balance", Some(402)),
            ("Request failed with status code 500", Some(500)),
            ("Client error '403 Forbidden' for url", Some(403)),
            ("copied 404 files", None),
            ("port 5432, 500 rows", None),
            ("took 429.5 ms", None),
        ] {
            assert_eq!(in_text(text), status, "{text}");
        }
    }
}
