//! The rules against the texts that they bring along, and what a wrapper may not change.

use proptest::prelude::*;

use super::*;
use crate::reason::{Category, Reason};

/// A rule's own example, in the first place and with the first status it asks for.
fn example_of(rule: &'static Rule) -> Evidence<'static> {
    Evidence {
        context: rule.places.first().map(|p| p.as_str()),
        http_status: rule.statuses.first().copied(),
        ..Evidence::of(rule.example)
    }
}

#[test]
fn every_rule_decides_its_own_example() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let said = classify(&example_of(rule));
        if (said.rule.as_ref(), &said.reason) != (rule.name, &rule.reason) {
            wrong.push(format!("{}: {}", rule.name, explain(&example_of(rule))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_have_unique_names_notes_and_examples() {
    let mut names: Vec<_> = rules().iter().map(|r| r.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rules().len());
    for rule in rules() {
        assert!(rule.name.starts_with("builtin."), "{}", rule.name);
        assert!(!rule.note.is_empty() && !rule.example.is_empty(), "{}", rule.name);
    }
}

#[test]
fn every_textual_reason_has_a_rule() {
    let by_other_means = [Reason::Silent, Reason::Unclaimed, Reason::EmptyOutput, Reason::NoEffect];
    for reason in Reason::BUILT_IN.iter().filter(|r| !by_other_means.contains(r)) {
        assert!(rules().iter().any(|rule| rule.reason == *reason), "{reason}");
    }
}

#[track_caller]
fn says(evidence: &Evidence<'_>, reason: &Reason, category: Category) {
    let said = classify(evidence);
    assert_eq!((&said.reason, said.category), (reason, category), "{}", explain(evidence));
}

#[test]
fn quota_comes_before_rate_and_throttle_before_overflow() {
    let quota = Evidence { http_status: Some(429), ..Evidence::of("RateLimitError: insufficient_quota") };
    says(&quota, &Reason::QuotaExhausted, Category::Conditional);
    let credit =
        Evidence { http_status: Some(400), ..Evidence::of("invalid_request_error: Your credit balance is too low") };
    says(&credit, &Reason::QuotaExhausted, Category::Conditional);
    let throttle = Evidence {
        http_status: Some(429),
        context: Some("llm"),
        ..Evidence::of("Too many tokens, please wait before trying again.")
    };
    says(&throttle, &Reason::RateLimited, Category::Transient);
    let overflow = Evidence {
        http_status: Some(403),
        context: Some("llm"),
        ..Evidence::of("`inputs` tokens + `max_new_tokens` must be <= 4097")
    };
    says(&overflow, &Reason::ContextOverflow, Category::Conditional);
}

#[test]
fn the_status_decides_only_if_the_text_does_not() {
    let on = |status, context| Evidence { http_status: Some(status), context: Some(context), ..Evidence::of("nope") };
    says(&on(401, "tool"), &Reason::AuthFailed, Category::Permanent);
    says(&on(500, "llm"), &Reason::ProviderError, Category::Transient);
    says(&on(503, "tool"), &Reason::DependencyUnavailable, Category::Transient);
    says(&on(529, "llm"), &Reason::ProviderOverloaded, Category::Transient);
    let timeout = Evidence { http_status: Some(400), ..Evidence::of("HTTP Error 400: timed out") };
    says(&timeout, &Reason::Timeout, Category::Transient);
}

#[test]
fn the_root_cause_decides_not_the_wrapper() {
    let java = "java.lang.RuntimeException: step failed\n\tat com.acme.Step.run(Step.java:10)\nCaused by: java.net.ConnectException: Connection refused";
    says(&Evidence::of(java), &Reason::DependencyUnavailable, Category::Transient);
    let litellm =
        "litellm.BadRequestError: XException - {\"error\":{\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}";
    says(&Evidence::of(litellm), &Reason::ContextOverflow, Category::Conditional);
}

#[test]
fn source_lines_of_a_trace_are_ignored() {
    let trace = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in f\n    raise TimeoutError if rate_limit_exceeded else None\nKeyError: 'x'";
    says(&Evidence::of(trace), &Reason::Bug, Category::Permanent);
}

#[test]
fn certificates_and_tokens_have_their_own_categories() {
    says(&Evidence::of("SSL: CERTIFICATE_VERIFY_FAILED"), &Reason::Network, Category::Permanent);
    says(&Evidence::of("OAuth token has expired"), &Reason::AuthFailed, Category::Conditional);
    says(
        &Evidence::of("sqlite3.OperationalError: database is locked"),
        &Reason::ConflictDuplicate,
        Category::Transient,
    );
    says(&Evidence::of("Pod was evicted"), &Reason::ResourceExhausted, Category::Transient);
}

/// The ways in which the same error arrives from another program.
fn disguises(text: &str) -> Vec<(&'static str, String)> {
    let other_numbers: String =
        text.chars().map(|c| if c.is_ascii_digit() && !is_status_digit(text) { '7' } else { c }).collect();
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    vec![
        ("numbers", other_numbers),
        ("upper case", text.to_uppercase()),
        ("lower case", text.to_lowercase()),
        ("litellm", format!("litellm.APIError: AcmeException - {text}")),
        (
            "trace",
            format!(
                "Traceback (most recent call last):\n  File \"/app/worker.py\", line 18, in run\n    step()\n{text}"
            ),
        ),
        ("json", format!("{{\"error\":{{\"message\":\"{escaped}\",\"request_id\":\"req_8a7b6c5d4e\"}}}}")),
        ("dict", format!("{{'ok': False, 'detail': '{text}', 'id': 'a1b2c3d4e5'}}")),
        (
            "log",
            format!("2026-03-01T10:00:00.123Z INFO worker started\n2026-03-01T10:00:01.456Z ERROR [worker-3] {text}"),
        ),
    ]
}

/// Changing the digits of a status would change the error, not its spelling.
fn is_status_digit(text: &str) -> bool {
    text.contains("40")
        || text.contains("42")
        || text.contains("50")
        || text.contains("137")
        || text.contains("127")
        || text.contains("-32")
}

#[test]
fn classification_survives_wrapping() {
    let (mut kept, mut all, mut lost) = (0, 0, Vec::new());
    for rule in rules() {
        let plain = example_of(rule);
        let label = classify(&plain).reason;
        for (disguise, text) in disguises(rule.example) {
            all += 1;
            if classify(&Evidence { text: &text, ..plain }).reason == label {
                kept += 1;
            } else {
                lost.push(format!("{} as {disguise}", rule.name));
            }
        }
    }
    println!("{kept} of {all} labels kept");
    assert!(kept * 100 >= all * 97, "{kept} of {all}: {lost:#?}");
}

proptest! {
    #[test]
    fn classification_is_deterministic_for_any_text(text in "\\PC{0,400}", detail in proptest::option::of("(?s).{0,400}")) {
        let evidence = Evidence { detail: detail.as_deref(), ..Evidence::of(&text) };
        prop_assert_eq!(classify(&evidence), classify(&evidence));
        let _ = explain(&evidence).to_string();
        let reason = classify(&evidence).reason;
        prop_assert_eq!(crate::pattern::fingerprint(&evidence, &reason), crate::pattern::fingerprint(&evidence, &reason));
    }

    #[test]
    fn any_mix_of_words_and_punctuation_is_classified(parts in proptest::collection::vec(
        prop_oneof![
            Just("\n".to_owned()), Just("'".to_owned()), Just("\"".to_owned()), Just("=".to_owned()), Just(" user  ".to_owned()),
            Just("  File \"/a/b.py\", line 3, in f\n".to_owned()), Just("    at f (/x/y.js:1:2)\n".to_owned()), Just("http://".to_owned()),
            Just("input_value=".to_owned()), Just("\\u00e9\\".to_owned()), Just("\u{1b}[3".to_owned()), Just("é:8".to_owned()),
            "[a-zA-Z0-9_.:/@%-]{1,12}", "[ -~]{1,8}", "\\PC{1,3}",
        ], 0..60)) {
        let text = parts.concat();
        let evidence = Evidence::of(&text);
        let reason = classify(&evidence).reason;
        let print = crate::pattern::fingerprint(&evidence, &reason);
        prop_assert!(print.template.len() <= 340);
        let _ = crate::pattern::why_grouped(&evidence);
    }
}

#[test]
fn a_long_text_is_read_at_both_ends_only() {
    let filler = "lorem ipsum ".repeat(100_000);
    says(
        &Evidence::of(&format!("{filler}\nRateLimitError: rate limit exceeded")),
        &Reason::RateLimited,
        Category::Transient,
    );
    says(&Evidence::of(&format!("rate limit exceeded\n{filler}")), &Reason::RateLimited, Category::Transient);
}

#[test]
fn numbers_inside_identifiers_are_not_codes() {
    for text in [
        "KeyError: 'invoice_1006'",
        "KeyError: 'order-1006-b'",
        "KeyError: 1006",
        "KeyError: 'customer:1006'",
        "KeyError: 'INV-2024-1006'",
        "KeyError: 'close_code_1006'",
        "KeyError: 'status_503'",
        "KeyError: 'error.503'",
        "KeyError: 'exit_code_137_count'",
        "TypeError: unsupported operand for item 1006",
        "AssertionError: expected user_404 to equal user_405",
        "NameError: name 'signal_9' is not defined",
    ] {
        says(&Evidence::of(text), &Reason::Bug, Category::Permanent);
    }
    for (text, reason) in [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'report_1006.pdf'", Reason::NotFound),
        ("order 1006 was not found", Reason::NotFound),
    ] {
        assert_eq!(classify(&Evidence::of(text)).reason, reason, "{text}");
    }
    for text in [
        "missing translation for 'error.503'",
        "postal code 1006 is in Zurich",
        "row 1006",
        "see item_429",
        "batch job-137 ended",
    ] {
        let said = classify(&Evidence::of(text));
        assert!(!matches!(said.category, Category::Transient), "{text}: {}", said.rule);
    }
}

#[test]
fn close_and_exit_codes_need_their_words() {
    for text in [
        "websocket closed: 1006",
        "WebSocket closed with code 1006 (abnormal closure)",
        "ws closed 1006",
        "received 1006 (connection closed abnormally [internal])",
        "close code=1006, no reason",
        "{\"code\":1006,\"reason\":\"\"}",
        "Disconnected (1006)",
        "no close frame received or sent; close_code: 1006",
    ] {
        says(&Evidence::of(text), &Reason::Network, Category::Transient);
    }
    for text in ["exit_code=137", "container exited with code 137", "process ended: signal 9"] {
        assert_eq!(classify(&Evidence::of(text)).reason, Reason::ResourceExhausted, "{text}");
    }
}
