//! A failed attempt with its reason. The user's rules speak first, then the caller, then what is built in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use redrive_core::classify::user_rules::{self, UserRules};
use redrive_core::classify::{self, Evidence};
use redrive_core::money::Spend;
use redrive_core::pattern::{Fingerprint, fingerprint};
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{ErrorReport, Severity};
use redrive_store::{AttemptBody, FailedAttempt};

use super::captured::{Captured, encoded};
use super::context::Context;
use super::cut::cut;
use super::known::{KnownFailures, Words};
use crate::problem::{Problem, Result};

pub(crate) struct Classified {
    captured: Captured,
    failure: Failure,
    fingerprint: Fingerprint,
    severity: Option<Severity>,
}

/// Who judges a failure.
#[derive(Clone, Copy, Default)]
pub(crate) struct Judges<'a> {
    pub(crate) rules: Option<&'a UserRules>,
    pub(crate) known: Option<&'a KnownFailures>,
}

impl Captured {
    pub(crate) fn classify(self, by: Judges<'_>, context: &Context<'_>, now: Timestamp) -> Result<Classified> {
        let Some(error) = &self.body.error else { return Err(Problem::internal("a failure without an error")) };
        let (mut failure, fingerprint, severity) = match by.rules {
            // They ask of the run and its payload as well, so no two failures are the same to them.
            Some(rules) => judge(error, &self.body, Some(rules), context, now),
            None => judge_or_remember(error, &self.body, by.known, context, now),
        };
        failure.spent = self.body.usage.as_ref().map(Spend::of).unwrap_or_default();
        Ok(Classified { captured: self, failure, fingerprint, severity })
    }
}

impl Classified {
    pub(crate) fn into_failed(self) -> Result<FailedAttempt> {
        let Captured { attempt, digest, mut body, steps } = self.captured;
        // After all of it was read: what is cut is still judged.
        cut(&mut body);
        Ok(FailedAttempt {
            attempt,
            digest,
            failure: self.failure,
            fingerprint: self.fingerprint,
            body: encoded(&body)?,
            model: body.model,
            provider: body.provider,
            tool: body.tool,
            step: body.step,
            took_ms: body.ended_at.as_ref().zip(body.started_at.as_ref()).and_then(|(end, start)| end.since(start)),
            versions: body.versions,
            severity: self.severity,
            steps,
            by: None,
        })
    }
}

type Judged = (Failure, Fingerprint, Option<Severity>);

fn judge_or_remember(
    error: &ErrorReport,
    body: &AttemptBody,
    known: Option<&KnownFailures>,
    context: &Context<'_>,
    now: Timestamp,
) -> Judged {
    let words = known.and_then(|known| Some((known, Words::of(context.run.tenant, error, body)?)));
    let Some((known, words)) = words else { return judge(error, body, None, context, now) };
    if let Some((failure, fingerprint)) = known.get(&words, now) {
        return (failure, fingerprint, None);
    }
    let (failure, fingerprint, severity) = judge(error, body, None, context, now);
    known.put(&words, &failure, &fingerprint);
    (failure, fingerprint, severity)
}

/// Whoever asks: a report on its way in, or somebody who tries one out.
pub(crate) fn judge(
    error: &ErrorReport,
    body: &AttemptBody,
    rules: Option<&UserRules>,
    context: &Context<'_>,
    now: Timestamp,
) -> Judged {
    let response = body.response.as_ref();
    let decoded = [Some(&error.headers), response.map(|r| &r.headers)].map(read_headers);
    let headers: Vec<(&str, &str)> = decoded.iter().flatten().map(|(name, value)| (*name, value.as_ref())).collect();
    let (message, detail, error_type) = (error.message.decode(), read(&error.detail), read(&error.error_type));
    let response_body = response.and_then(|r| read(&r.body));
    let evidence = Evidence {
        text: &message,
        detail: detail.as_deref(),
        error_type: error_type.as_deref(),
        http_status: error.http_status.or_else(|| response.and_then(|r| r.status)),
        headers: &headers,
        response_body: response_body.as_deref(),
        provider: body.provider.as_ref().map(Label::as_str),
        context: None,
        tool: body.tool.as_ref().map(Label::as_str),
        finish_reason: body.finish_reason.as_ref().map(Label::as_str),
        now_ms: Some(now.as_millis()),
    };
    let rule = rules.and_then(|rules| {
        let run = user_rules::RunFields {
            model: body.model.as_ref().map(Label::as_str).or(context.run.model),
            tool: evidence.tool,
            step: body.step.as_ref().map(Label::as_str),
            ..context.run
        };
        rules.first_match(&evidence, &run, context.payload)
    });
    let otherwise = without_rules(error, &evidence);
    let Some(rule) = rule else {
        let fingerprint = fingerprint(&evidence, &otherwise.reason);
        return (Failure::new(otherwise, error.terminal, fingerprint.hash), fingerprint, None);
    };
    let classified = rule.decide(otherwise);
    let fingerprint = rule.group().unwrap_or_else(|| fingerprint(&evidence, &classified.reason));
    let terminal = error.terminal || rule.dead_letter;
    (Failure::new(classified, terminal, fingerprint.hash), fingerprint, rule.severity)
}

/// The caller's word, or ours.
fn without_rules(error: &ErrorReport, evidence: &Evidence<'_>) -> classify::Classified {
    // Limits and waits are read from the evidence whoever names the reason.
    let built_in = classify::classify(evidence);
    match (&error.reason, error.category) {
        (None, None) => built_in,
        (None, Some(category)) => classify::Classified { category, rule: "caller.category".into(), ..built_in },
        (Some(reason), category) => classify::Classified {
            reason: reason.clone(),
            category: category.unwrap_or_else(|| reason.category()),
            rule: "caller.reason".into(),
            facts: built_in.facts,
        },
    }
}

fn read(text: &Option<Text>) -> Option<Cow<'_, str>> {
    text.as_ref().map(Text::decode)
}

fn read_headers(headers: Option<&BTreeMap<String, Text>>) -> Vec<(&str, Cow<'_, str>)> {
    headers.into_iter().flatten().map(|(name, value)| (name.as_str(), value.decode())).collect()
}

#[cfg(test)]
mod tests {
    use redrive_core::reason::Category;
    use serde_json::json;

    use super::*;

    fn rules(rules: serde_json::Value) -> UserRules {
        user_rules::compile(serde_json::from_value(rules).unwrap()).unwrap()
    }

    fn failure(error: &str, rules: Option<&UserRules>) -> (String, Category, String) {
        let report = format!(r#"{{"run_id":"a","error":{error}}}"#);
        let captured = Captured::from_report(serde_json::from_str(&report).unwrap(), report.as_bytes()).unwrap();
        let failed = captured
            .classify(Judges { rules, known: None }, &Context::default(), Timestamp::default())
            .unwrap()
            .into_failed()
            .unwrap()
            .failure;
        (failed.reason.to_string(), failed.category, failed.rule)
    }

    #[test]
    fn the_users_rules_outrank_the_caller_and_the_caller_outranks_ours() {
        let plain = r#"{"message":"Request timed out"}"#;
        assert_eq!(failure(plain, None).0, "timeout");
        let said = r#"{"message":"Request timed out","reason":"x:mine"}"#;
        assert_eq!(failure(said, None), ("x:mine".into(), Category::Conditional, "caller.reason".into()));
        let both = r#"{"message":"Request timed out","reason":"x:mine","category":"transient"}"#;
        assert_eq!(failure(both, None), ("x:mine".into(), Category::Transient, "caller.reason".into()));
        let category = r#"{"message":"Request timed out","category":"permanent"}"#;
        assert_eq!(failure(category, None), ("timeout".into(), Category::Permanent, "caller.category".into()));
        let always_bug = rules(json!([{"name": "mine", "match": {"text": {"glob": "*"}}, "reason": "bug"}]));
        assert_eq!(failure(both, Some(&always_bug)), ("bug".into(), Category::Permanent, "user.mine".into()));
    }

    #[test]
    fn an_attempt_has_a_number_from_one_to_a_million() {
        for (attempt, fits) in [(0, false), (1, true), (1_000_000, true), (1_000_001, false)] {
            let report = format!(r#"{{"run_id":"a","attempt":{attempt},"error":{{"message":"m"}}}}"#);
            let captured = Captured::from_report(serde_json::from_str(&report).unwrap(), b"");
            assert_eq!(captured.is_ok(), fits, "{attempt}");
        }
    }
}
