//! Figures in an error: limit, actual amount, wait, reset time.

use super::evidence::Evidence;
use super::text;
use crate::reason::{Category, Reason};

/// Numbers are near the words that explain them, at the front of a message.
const SEARCHED_BYTES: usize = 4096;

/// What the numbers in an error say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// The most that is allowed: tokens, usually.
    pub limit: Option<u64>,
    /// The actual amount.
    pub actual: Option<u64>,
    /// How long the other side asks to wait.
    pub wait_ms: Option<u64>,
    /// When the limit is lifted, in unix milliseconds.
    pub reset_at_ms: Option<i64>,
}

impl Facts {
    /// The same facts as of another time: a wait that they name begins then.
    pub fn heard_at(self, now_ms: Option<i64>) -> Self {
        let reset_at_ms = now_ms.zip(self.wait_ms).and_then(|(now, wait)| now.checked_add_unsigned(wait));
        Self { reset_at_ms, ..self }
    }
}

/// Only what belongs to the reason: a port number is no token limit.
pub(super) fn extract(evidence: &Evidence<'_>, reason: &Reason) -> Facts {
    let mut facts = Facts::default();
    if names_amounts(reason) {
        let front = text::head(evidence.text, SEARCHED_BYTES);
        (facts.limit, facts.actual) = amounts(front);
    }
    if names_waits(reason) {
        facts.wait_ms = wait_from_headers(evidence).or_else(|| {
            let texts = [Some(evidence.text), evidence.response_body, evidence.detail];
            texts.into_iter().flatten().find_map(|t| wait_from_text(text::head(t, SEARCHED_BYTES)))
        });
        facts.reset_at_ms = reset_from_headers(evidence).or(facts.heard_at(evidence.now_ms).reset_at_ms);
    }
    facts
}

/// A request larger than the whole allowance of a minute never fits, however long one waits.
pub(super) fn adjust_category(reason: &Reason, category: Category, facts: &Facts) -> Category {
    let never_fits = matches!((facts.limit, facts.actual), (Some(limit), Some(actual)) if actual > limit);
    if *reason == Reason::RateLimited && never_fits { Category::Conditional } else { category }
}

fn names_amounts(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::ContextOverflow
            | Reason::RateLimited
            | Reason::TokenBudgetExceeded
            | Reason::OutputTruncated
            | Reason::MaxIterations
    )
}

fn names_waits(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::RateLimited
            | Reason::QuotaExhausted
            | Reason::ProviderOverloaded
            | Reason::ProviderError
            | Reason::DependencyUnavailable
            | Reason::Timeout
            | Reason::Network
    )
}

fn wait_from_headers(evidence: &Evidence<'_>) -> Option<u64> {
    if let Some(ms) = evidence.header("retry-after-ms").and_then(|v| v.parse::<f64>().ok()) {
        return parse_wait_ms(&format!("{ms}ms"));
    }
    if let Some(value) = evidence.header("retry-after") {
        return match date_ms(value) {
            Some(at_ms) => wait_until(evidence, at_ms),
            None => parse_wait_ms(value),
        };
    }
    let resets = ["x-ratelimit-reset-requests", "x-ratelimit-reset-tokens"].map(|name| evidence.header(name));
    let remaining_of = |name: &str| evidence.header(name).and_then(|v| v.parse::<u64>().ok());
    // Of the two windows only the one that is used up has to be waited for.
    match (remaining_of("x-ratelimit-remaining-requests"), remaining_of("x-ratelimit-remaining-tokens"), resets) {
        (Some(0), _, [Some(reset), _]) | (_, Some(0), [_, Some(reset)]) => parse_wait_ms(reset),
        (None, None, resets) => resets.into_iter().flatten().filter_map(parse_wait_ms).max(),
        _ => None,
    }
}

/// Anthropic gives the instant itself.
fn reset_from_headers(evidence: &Evidence<'_>) -> Option<i64> {
    let kinds = ["requests", "tokens", "input-tokens", "output-tokens"];
    kinds.into_iter().find_map(|kind| {
        let remaining = evidence.header(&format!("anthropic-ratelimit-{kind}-remaining"))?;
        let reset = evidence.header(&format!("anthropic-ratelimit-{kind}-reset"))?;
        let at: jiff::Timestamp = reset.parse().ok()?;
        (remaining == "0").then(|| at.as_millisecond())
    })
}

fn wait_until(evidence: &Evidence<'_>, at_ms: i64) -> Option<u64> {
    let wait_ms = u64::try_from(at_ms.saturating_sub(evidence.now_ms?).max(0)).ok()?;
    Some(wait_ms.min(WAIT_MAX_MS))
}

/// A date as HTTP writes it, in its old spelling too, or as RFC 3339 does. A wrong weekday changes nothing, and a year
/// beyond the calendar is the far future.
fn date_ms(value: &str) -> Option<i64> {
    let parser = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true);
    let http = |text: &str| parser.parse_timestamp(text).ok();
    let old = || {
        let (day, rest) = value.split_once(", ")?;
        http(&format!("{}, {}", day.get(..3)?, rest.replace('-', " ")))
    };
    let at = http(value).or_else(old).or_else(|| value.parse::<jiff::Timestamp>().ok());
    let at_ms = at.map(jiff::Timestamp::as_millisecond);
    at_ms.or_else(|| is_beyond_the_calendar(value).then_some(i64::MAX))
}

/// `Fri, 31 Dec 9999 23:59:59 GMT`: a date whose year no clock here counts to.
fn is_beyond_the_calendar(value: &str) -> bool {
    const LAST_YEAR: u64 = 9999;
    let year = |word: &str| word.len() >= 4 && word.parse::<u64>().is_ok_and(|year| year >= LAST_YEAR);
    value.contains(':') && value.split([' ', '-', ',']).any(year)
}

/// `Please try again in 6m0s`, `retry after 20 seconds`, `"retryDelay": "35s"`.
fn wait_from_text(front: &str) -> Option<u64> {
    const INTRODUCED_BY: [&str; 11] = [
        "try again in",
        "retry in",
        "retry after",
        "retry-after",
        "retrydelay",
        "retry_after",
        "wait",
        "wait for",
        "available in",
        "resets in",
        "reset after",
    ];
    // Most texts speak of no wait at all.
    if !["etry", "again", "wait", "Wait", "reset", "vailable in"].iter().any(|w| front.contains(w)) {
        return None;
    }
    numbers(front).find_map(|at| introduced_by(front, at, &INTRODUCED_BY).and_then(|_| wait_at(&front[at..])))
}

/// A number of more than ten years in a text is an instant or an id, not a wait.
fn wait_at(text: &str) -> Option<u64> {
    parse_wait_ms(text).filter(|wait_ms| *wait_ms < WAIT_MAX_MS)
}

/// Which number follows which word. Words that stand earlier in a list are the more exact.
fn amounts(front: &str) -> (Option<u64>, Option<u64>) {
    const LIMIT_AFTER: [&str; 20] = [
        "maximum context length is only",
        "maximum context length is",
        "maximum context length of",
        "context length is only",
        "maximum prompt length is",
        "maximum number of tokens allowed",
        "available context size",
        "exceeds the limit of",
        "rate limit of",
        "model token limit",
        "must be <=",
        "while limit is",
        "limit of",
        "limit",
        "maximum",
        "max turns",
        "maximum number of turns",
        "max_completion_tokens",
        "max_tokens",
        "max budget",
    ];
    const ACTUAL_AFTER: [&str; 16] = [
        "resulted in",
        "you requested",
        "input token count",
        "prompt token count of",
        "request contains",
        "requested",
        "current length is",
        "prompt is too long",
        "input_tokens",
        "total_tokens",
        "prompt contains",
        "request",
        "usage.cost",
        "current cost",
        "actual",
        "used",
    ];
    if let Some(pair) = compared(front) {
        return pair;
    }
    (best_number(front, &LIMIT_AFTER), best_number(front, &ACTUAL_AFTER))
}

/// Of the numbers that one of the words introduces, the one with the most exact word.
fn best_number(front: &str, words: &[&str]) -> Option<u64> {
    let found =
        numbers(front).filter_map(|at| Some((introduced_by(front, at, words)?, leading_integer(&front[at..])?)));
    found.min_by_key(|(exactness, _)| *exactness).map(|(_, number)| number)
}

/// Where numbers begin. A text full of them says nothing with any.
fn numbers(front: &str) -> impl Iterator<Item = usize> + '_ {
    const MOST_NUMBERS: usize = 48;
    let bytes = front.as_bytes();
    let begins =
        move |at: usize| bytes[at].is_ascii_digit() && (at == 0 || !matches!(bytes[at - 1], b'0'..=b'9' | b'.' | b','));
    (0..bytes.len()).filter(move |at| begins(*at)).take(MOST_NUMBERS)
}

/// Which of the words stands right before a number, but for brackets, quotes and signs. They are given in lower case.
fn introduced_by(front: &str, at: usize, words: &[&str]) -> Option<usize> {
    let before = front.as_bytes()[..at].trim_ascii_end();
    let sign = |b: &u8| matches!(b, b' ' | b':' | b'=' | b'(' | b'~' | b'`' | b'"' | b'\'' | b'\\');
    let before = &before[..before.iter().rposition(|b| !sign(b))? + 1];
    let last = before.last()?.to_ascii_lowercase();
    let ends_in =
        |w: &str| before.len() >= w.len() && before[before.len() - w.len()..].eq_ignore_ascii_case(w.as_bytes());
    words.iter().position(|w| w.as_bytes().last() == Some(&last) && ends_in(w))
}

/// `213462 tokens > 200000 maximum`, `A + B > C`.
fn compared(front: &str) -> Option<(Option<u64>, Option<u64>)> {
    let at = memchr::memmem::find(front.as_bytes(), b" > ")?;
    let limit = leading_integer(&front[at + 3..])?;
    let before = &front[front.floor_char_boundary(at.saturating_sub(60))..at];
    let digits = |text: &str| {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    let numbers = digits(before);
    let actual = if before.contains(" + ") { numbers.iter().rev().take(2).sum() } else { *numbers.last()? };
    Some((Some(limit), Some(actual)))
}

/// `128,000` and `128000`; a decimal fraction is left out.
fn leading_integer(text: &str) -> Option<u64> {
    const MOST_BYTES: usize = 24;
    let len = text.bytes().take(MOST_BYTES).take_while(|b| b.is_ascii_digit() || *b == b',').count();
    text[..len].replace(',', "").parse().ok()
}

/// Ten years: a longer wait counts as this.
pub(super) const WAIT_MAX_MS: u64 = 315_360_000_000;

/// Milliseconds of a wait, a bare number being seconds. `None` if it is no duration.
pub(super) fn parse_wait_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0.0;
    let mut parts = 0;
    while parts < 6 {
        let Some((number, after)) = leading_number(rest) else { break };
        let after = after.trim_start_matches(' ');
        let word_len = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let Some(unit) = unit_ms(&after[..word_len]) else {
            // `12 requests` is no wait, but `20` is: the unit is the header's.
            return (parts == 0 && word_len == 0).then(|| bounded(number * 1000.0)).flatten();
        };
        total += number * unit;
        parts += 1;
        rest = after[word_len..].trim_start_matches([' ', ',']);
    }
    if parts == 0 { None } else { bounded(total) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and it is not negative"
)]
fn bounded(ms: f64) -> Option<u64> {
    (ms >= 0.0).then(|| (ms.ceil() as u64).min(WAIT_MAX_MS))
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    const MOST_DIGITS: usize = 24;
    let len = text.bytes().take(MOST_DIGITS).take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (digits, after) = text.split_at(len);
    // "in 20 s." ends in a full stop that is no decimal point.
    let number = digits.trim_end_matches('.').parse().ok()?;
    Some((number, after))
}

fn unit_ms(word: &str) -> Option<f64> {
    const UNITS: [(&[&str], f64); 5] = [
        (&["ms", "msec", "msecs", "millisecond", "milliseconds"], 1.0),
        (&["s", "sec", "secs", "second", "seconds"], 1000.0),
        (&["m", "min", "mins", "minute", "minutes"], 60_000.0),
        (&["h", "hr", "hrs", "hour", "hours"], 3_600_000.0),
        (&["d", "day", "days"], 86_400_000.0),
    ];
    UNITS.iter().find(|(words, _)| words.iter().any(|w| word.eq_ignore_ascii_case(w))).map(|(_, ms)| *ms)
}

#[cfg(test)]
mod tests {
    use super::{WAIT_MAX_MS, parse_wait_ms};

    use super::*;

    fn of(text: &str, reason: &Reason) -> Facts {
        extract(&Evidence { now_ms: Some(1_000_000), ..Evidence::of(text) }, reason)
    }

    #[test]
    fn limit_and_actual_parse_from_overflow_messages() {
        for (text, limit, actual) in [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
                8192,
                9001,
            ),
            ("prompt is too long: 213462 tokens > 200000 maximum", 200_000, 213_462),
            ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200_000, 210_000),
            (
                "The input token count (1,200,000) exceeds the maximum number of tokens allowed (1,048,576).",
                1_048_576,
                1_200_000,
            ),
        ] {
            let facts = of(text, &Reason::ContextOverflow);
            assert_eq!((facts.limit, facts.actual), (Some(limit), Some(actual)), "{text}");
        }
    }

    #[test]
    fn header_waits_come_first_and_become_an_instant() {
        let headers = [("Retry-After", "20")];
        let evidence = Evidence { headers: &headers, now_ms: Some(5_000), ..Evidence::of("try again in 6m0s") };
        let facts = extract(&evidence, &Reason::RateLimited);
        assert_eq!((facts.wait_ms, facts.reset_at_ms), (Some(20_000), Some(25_000)));
        assert_eq!(of("Please try again in 6m0s", &Reason::RateLimited).wait_ms, Some(360_000));
        assert_eq!(of("{'retryDelay': '35s'}", &Reason::RateLimited).wait_ms, Some(35_000));
    }

    #[test]
    fn http_dates_need_the_current_time() {
        let headers = [("retry-after", "Thu, 01 Jan 1970 00:00:30 GMT")];
        let at = |now_ms| Evidence { headers: &headers, now_ms, ..Evidence::of("slow down") };
        assert_eq!(extract(&at(Some(10_000)), &Reason::RateLimited).wait_ms, Some(20_000));
        assert_eq!(extract(&at(None), &Reason::RateLimited).wait_ms, None);
    }

    #[test]
    fn huge_retry_after_is_a_bounded_wait() {
        const DAY_MS: u64 = 86_400_000;
        for (value, days) in [
            ("172800", 2),
            ("99999999999", 3650),
            ("18446744073709551616", 3650),
            ("Sat, 03 Jan 1970 00:00:00 GMT", 2),
            ("Mon, 03 Jan 1970 00:00:00 GMT", 2),
            ("Saturday, 03-Jan-70 00:00:00 GMT", 2),
            ("1970-01-03T00:00:00Z", 2),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 3650),
            ("Fri, 31 Dec 29999 23:59:59 GMT", 3650),
        ] {
            let headers = [("Retry-After", value)];
            let evidence = Evidence { headers: &headers, now_ms: Some(0), ..Evidence::of("slow down") };
            let facts = extract(&evidence, &Reason::RateLimited);
            assert_eq!(facts.wait_ms, Some(days * DAY_MS), "{value}");
            assert!(facts.reset_at_ms.is_some(), "{value}");
        }
        assert_eq!(of("retry after 1763400000", &Reason::RateLimited).wait_ms, None);
    }

    #[test]
    fn requests_that_never_fit_are_conditional() {
        let facts = Facts { limit: Some(7_000), actual: Some(12_000), ..Facts::default() };
        assert_eq!(adjust_category(&Reason::RateLimited, Category::Transient, &facts), Category::Conditional);
    }

    #[test]
    fn waits_parse_in_every_spelling() {
        for (text, ms) in [
            ("6m0s", Some(360_000)),
            ("1.5s", Some(1_500)),
            ("350ms", Some(350)),
            ("20 seconds", Some(20_000)),
            ("1h 2m", Some(3_720_000)),
            ("30", Some(30_000)),
            ("20s.", Some(20_000)),
            ("99999999999", Some(WAIT_MAX_MS)),
            ("999999999999999999999999999999", Some(WAIT_MAX_MS)),
            ("4000 days", Some(WAIT_MAX_MS)),
            ("12 requests", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(parse_wait_ms(text), ms, "{text}");
        }
    }
}
