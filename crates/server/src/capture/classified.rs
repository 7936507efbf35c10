//! A failed attempt with its reason. The user's rules speak first, then the caller, then what is built in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use redrive_core::classify::{self, Evidence};
use redrive_core::pattern::{Fingerprint, fingerprint};
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::ErrorReport;
use redrive_store::{AttemptBody, FailedAttempt};

use super::captured::{Captured, encoded};
use crate::problem::{Problem, Result};

/// Rules of the deployment's own. None: they have nothing to say on this failure.
pub trait UserRules: Send + Sync + 'static {
    fn classify(&self, evidence: &Evidence<'_>) -> Option<classify::Classified>;
}

pub(crate) struct Classified {
    captured: Captured,
    failure: Failure,
    fingerprint: Fingerprint,
}

impl Captured {
    pub(crate) fn classify(self, rules: Option<&dyn UserRules>, now: Timestamp) -> Result<Classified> {
        let Some(error) = &self.body.error else { return Err(Problem::internal("a failure without an error")) };
        let (failure, fingerprint) = judge(error, &self.body, rules, now);
        Ok(Classified { captured: self, failure, fingerprint })
    }
}

impl Classified {
    pub(crate) fn into_failed(self) -> Result<FailedAttempt> {
        let Captured { attempt, digest, body, steps } = self.captured;
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
            took_ms: took_ms(body.started_at, body.ended_at),
            versions: body.versions,
            severity: None,
            steps,
        })
    }
}

fn judge(
    error: &ErrorReport,
    body: &AttemptBody,
    rules: Option<&dyn UserRules>,
    now: Timestamp,
) -> (Failure, Fingerprint) {
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
    let classified = by_precedence(error, &evidence, rules);
    let fingerprint = fingerprint(&evidence, &classified.reason);
    (Failure::new(classified, error.terminal, fingerprint.hash), fingerprint)
}

fn by_precedence(error: &ErrorReport, evidence: &Evidence<'_>, rules: Option<&dyn UserRules>) -> classify::Classified {
    if let Some(classified) = rules.and_then(|rules| rules.classify(evidence)) {
        return classified;
    }
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

/// By the client's own clock, which may be wrong about when and still knows how long.
fn took_ms(started_at: Option<Timestamp>, ended_at: Option<Timestamp>) -> Option<u64> {
    let (started_at, ended_at) = (started_at?, ended_at?);
    (started_at <= ended_at).then(|| ended_at.since(started_at))
}

fn read(text: &Option<Text>) -> Option<Cow<'_, str>> {
    text.as_ref().map(Text::decode)
}

fn read_headers(headers: Option<&BTreeMap<String, Text>>) -> Vec<(&str, Cow<'_, str>)> {
    headers.into_iter().flatten().map(|(name, value)| (name.as_str(), value.decode())).collect()
}

#[cfg(test)]
mod tests {
    use redrive_core::reason::{Category, Reason};

    use super::*;

    struct AlwaysBug;

    impl UserRules for AlwaysBug {
        fn classify(&self, _: &Evidence<'_>) -> Option<classify::Classified> {
            let facts = classify::Facts::default();
            Some(classify::Classified {
                reason: Reason::Bug,
                category: Category::Permanent,
                rule: "rule.mine".into(),
                facts,
            })
        }
    }

    fn failure(error: &str, rules: Option<&dyn UserRules>) -> (String, Category, String) {
        let report = format!(r#"{{"run_id":"a","error":{error}}}"#);
        let captured = Captured::from_report(serde_json::from_str(&report).unwrap(), report.as_bytes()).unwrap();
        let failed = captured.classify(rules, Timestamp::default()).unwrap().into_failed().unwrap().failure;
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
        assert_eq!(failure(both, Some(&AlwaysBug)), ("bug".into(), Category::Permanent, "rule.mine".into()));
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
