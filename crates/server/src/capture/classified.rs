//! A failed attempt, captured from the wire, then classified: the user's rules first, then what the caller names, then
//! the built-in rules.

use std::borrow::Cow;
use std::collections::BTreeMap;

use redrive_core::classify::user_rules::{self, UserRules};
use redrive_core::classify::{self, Evidence};
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::money::Spend;
use redrive_core::pattern::{Fingerprint, fingerprint};
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::{ClientTime, Timestamp};
use redrive_core::wire::{
    ErrorReport, FailRequest, FailureReport, PayloadOmitted, RunDetail, RunFields, Severity, bounds,
};
use redrive_engine::{AttemptBody, Digest, FailedAttempt, NewStep, encode};
use serde::Serialize;

use super::cache::{CacheKey, ClassificationCache};
use super::payload::{digest, sha256_hex};
use super::run::{ENVIRONMENT_DEFAULT, new_steps};
use crate::limits::ATTEMPT_MAX;
use crate::problem::{HttpProblem, Result};

pub(crate) struct Captured {
    pub(super) attempt: Option<u32>,
    pub(super) digest: Digest,
    pub(super) body: AttemptBody,
    pub(super) steps: Vec<NewStep>,
}

impl Captured {
    /// From a report in one call, without the fields of the run.
    pub(crate) fn from_report(report: FailureReport, raw: &[u8]) -> Result<Self> {
        attempt_in_range(report.attempt)?;
        let body = AttemptBody {
            error: Some(report.error),
            response: report.response,
            partial_output: report.partial_output,
            finish_reason: report.finish_reason,
            usage: report.usage,
            model: report.model,
            provider: report.provider,
            tool: report.tool,
            step: report.step,
            versions: report.versions,
            started_at: report.started_at,
            ended_at: report.ended_at,
            ..AttemptBody::default()
        };
        Ok(Self { attempt: report.attempt, digest: digest(raw), body, steps: new_steps(report.steps)? })
    }

    /// From a report under a lease, which has the attempt's number.
    pub(crate) fn from_fail(fail: FailRequest, raw: &[u8]) -> Result<Self> {
        let body = AttemptBody {
            error: Some(fail.error),
            response: fail.response,
            partial_output: fail.partial_output,
            finish_reason: fail.finish_reason,
            usage: fail.usage,
            model: fail.model,
            tool: fail.tool,
            step: fail.step,
            ..AttemptBody::default()
        };
        Ok(Self { attempt: None, digest: digest(raw), body, steps: new_steps(fail.steps)? })
    }
}

pub(crate) fn attempt_in_range(attempt: Option<u32>) -> Result<()> {
    match attempt {
        Some(n) if !(1..=ATTEMPT_MAX).contains(&n) => {
            Err(HttpProblem::invalid_field("attempt", format_args!("must be from 1 to {ATTEMPT_MAX}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// The stored form of a document.
pub(crate) fn encoded(value: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value).map_err(|e| HttpProblem::internal(&e.to_string()))?;
    Ok(encode(&json))
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FailureContext<'a> {
    pub(super) run: user_rules::RunFacts<'a>,
    /// The payload, if it is JSON.
    pub(super) payload: Option<&'a str>,
}

impl<'a> FailureContext<'a> {
    /// For a failure reported in one call.
    pub(crate) fn of_report(fields: &'a RunFields, tenant: &'a Tenant) -> Self {
        let run = user_rules::RunFacts {
            tenant: tenant.as_str(),
            queue: fields.queue.as_ref().map_or(QueueName::DEFAULT, |queue| queue.as_str()),
            agent: word(&fields.agent),
            model: word(&fields.model),
            environment: word(&fields.environment).or(Some(ENVIRONMENT_DEFAULT)),
            task_type: word(&fields.task_type),
            customer: word(&fields.customer),
            ..user_rules::RunFacts::default()
        };
        Self { run, payload: fields.payload.as_ref().map(|payload| payload.get()) }
    }

    /// For a failure of which only the tenant matters.
    pub(crate) fn of_tenant(tenant: &'a Tenant) -> Self {
        Self { run: user_rules::RunFacts { tenant: tenant.as_str(), ..Default::default() }, payload: None }
    }

    /// For a failure under a lease, whose run is stored.
    pub(crate) fn of_run(run: &'a RunDetail) -> Self {
        let (summary, payload) = (&run.summary, run.body.payload.as_ref());
        let run = user_rules::RunFacts {
            tenant: summary.tenant.as_str(),
            queue: summary.queue.as_str(),
            agent: word(&summary.agent),
            model: word(&summary.model),
            environment: Some(summary.environment.as_str()),
            task_type: word(&summary.task_type),
            customer: word(&summary.customer),
            ..user_rules::RunFacts::default()
        };
        Self { run, payload: payload.map(|payload| payload.get()) }
    }
}

fn word(label: &Option<Label>) -> Option<&str> {
    label.as_ref().map(Label::as_str)
}

pub(crate) struct ClassifiedFailure {
    captured: Captured,
    failure: Failure,
    fingerprint: Fingerprint,
    severity: Option<Severity>,
}

/// What classifies a failure.
#[derive(Clone, Copy, Default)]
pub(crate) struct Classifiers<'a> {
    pub(crate) rules: Option<&'a UserRules>,
    pub(crate) cache: Option<&'a ClassificationCache>,
}

impl Captured {
    pub(crate) fn classify(
        self,
        by: Classifiers<'_>,
        context: &FailureContext<'_>,
        now: Timestamp,
    ) -> Result<ClassifiedFailure> {
        let Some(error) = &self.body.error else { return Err(HttpProblem::internal("a failure without an error")) };
        let (mut failure, fingerprint, severity) = match by.rules {
            // Rules also see the run and its payload, so their answers are not cached.
            Some(rules) => classify_error(error, &self.body, Some(rules), context, now),
            None => classify_cached(error, &self.body, by.cache, context, now),
        };
        failure.spent = self.body.usage.as_ref().map(Spend::of).unwrap_or_default();
        Ok(ClassifiedFailure { captured: self, failure, fingerprint, severity })
    }
}

impl ClassifiedFailure {
    pub(crate) fn into_failed(self) -> Result<FailedAttempt> {
        let Captured { attempt, digest, mut body, steps } = self.captured;
        // Cut after classification, which reads the whole texts.
        cut(&mut body);
        Ok(FailedAttempt {
            attempt,
            digest: Some(digest),
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

type Classification = (Failure, Fingerprint, Option<Severity>);

fn classify_cached(
    error: &ErrorReport,
    body: &AttemptBody,
    cache: Option<&ClassificationCache>,
    context: &FailureContext<'_>,
    now: Timestamp,
) -> Classification {
    let cached = cache.and_then(|cache| Some((cache, CacheKey::of(context.run.tenant, error, body)?)));
    let Some((cache, key)) = cached else { return classify_error(error, body, None, context, now) };
    if let Some((failure, fingerprint)) = cache.get(&key, now) {
        return (failure, fingerprint, None);
    }
    let (failure, fingerprint, severity) = classify_error(error, body, None, context, now);
    cache.put(&key, &failure, &fingerprint);
    (failure, fingerprint, severity)
}

/// Classifies one error without the cache, for a report or for a trial on the settings page.
pub(crate) fn classify_error(
    error: &ErrorReport,
    body: &AttemptBody,
    rules: Option<&UserRules>,
    context: &FailureContext<'_>,
    now: Timestamp,
) -> Classification {
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
        let run = user_rules::RunFacts {
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

/// What the caller names, otherwise the built-in rules.
fn without_rules(error: &ErrorReport, evidence: &Evidence<'_>) -> classify::Classified {
    // Limits and waits come from the evidence, even if the caller names the reason.
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

pub(super) fn cut(body: &mut AttemptBody) {
    let mut cutting = Cutting(BTreeMap::new());
    if let Some(error) = &mut body.error {
        cutting.text("error.type", error.error_type.as_mut(), bounds::ERROR_TYPE_CUT_BYTES);
        cutting.text("error.message", Some(&mut error.message), bounds::MESSAGE_CUT_BYTES);
        cutting.text("error.detail", error.detail.as_mut(), bounds::DETAIL_CUT_BYTES);
        cutting.headers("error.headers", &mut error.headers);
    }
    if let Some(response) = &mut body.response {
        cutting.text("response.body", response.body.as_mut(), bounds::RESPONSE_BODY_CUT_BYTES);
        cutting.headers("response.headers", &mut response.headers);
    }
    cutting.text("partial_output", body.partial_output.as_mut(), bounds::PARTIAL_OUTPUT_CUT_BYTES);
    for (field, time) in [("started_at", &mut body.started_at), ("ended_at", &mut body.ended_at)] {
        cutting.text(field, time.as_mut().map(ClientTime::text_mut), bounds::CLIENT_TIME_CUT_BYTES);
    }
    body.truncated = cutting.0;
}

/// The fields that were cut.
struct Cutting(BTreeMap<String, PayloadOmitted>);

impl Cutting {
    fn text(&mut self, field: &str, text: Option<&mut Text>, max_bytes: usize) {
        let Some(text) = text else { return };
        let Some(cut) = text.cut(max_bytes) else { return };
        let whole = std::mem::replace(text, cut);
        self.mark(field, whole.decode().as_bytes());
    }

    /// Drops headers beyond the bound, the last by name, and those with overlong names.
    fn headers(&mut self, field: &str, headers: &mut BTreeMap<String, Text>) {
        let fits = |name: &String| name.len() <= bounds::HEADER_NAME_MAX_BYTES;
        if headers.len() > bounds::HEADERS_MAX || !headers.keys().all(fits) {
            let all = serde_json::to_vec(headers).unwrap_or_default();
            let kept = std::mem::take(headers).into_iter().filter(|(name, _)| fits(name));
            headers.extend(kept.take(bounds::HEADERS_MAX));
            self.mark(field, &all);
        }
        for (name, value) in headers {
            self.text(&format!("{field}.{name}"), Some(value), bounds::HEADER_MAX_BYTES);
        }
    }

    fn mark(&mut self, field: &str, whole: &[u8]) {
        let omitted = PayloadOmitted { bytes: whole.len() as u64, sha256: sha256_hex(whole).as_str().into() };
        self.0.insert(field.to_owned(), omitted);
    }
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
            .classify(Classifiers { rules, cache: None }, &FailureContext::default(), Timestamp::default())
            .unwrap()
            .into_failed()
            .unwrap()
            .failure;
        (failed.reason.to_string(), failed.category, failed.rule)
    }

    #[test]
    fn user_rules_outrank_callers_and_callers_outrank_built_ins() {
        let plain = r#"{"message":"Request timed out"}"#;
        assert_eq!(failure(plain, None).0, "timeout");
        let named = r#"{"message":"Request timed out","reason":"x:mine"}"#;
        assert_eq!(failure(named, None), ("x:mine".into(), Category::Conditional, "caller.reason".into()));
        let both = r#"{"message":"Request timed out","reason":"x:mine","category":"transient"}"#;
        assert_eq!(failure(both, None), ("x:mine".into(), Category::Transient, "caller.reason".into()));
        let category = r#"{"message":"Request timed out","category":"permanent"}"#;
        assert_eq!(failure(category, None), ("timeout".into(), Category::Permanent, "caller.category".into()));
        let always_bug = rules(json!([{"name": "mine", "match": {"text": {"glob": "*"}}, "reason": "bug"}]));
        assert_eq!(failure(both, Some(&always_bug)), ("bug".into(), Category::Permanent, "user.mine".into()));
    }

    #[test]
    fn attempt_numbers_go_from_one_to_a_million() {
        for (attempt, fits) in [(0, false), (1, true), (1_000_000, true), (1_000_001, false)] {
            let report = format!(r#"{{"run_id":"a","attempt":{attempt},"error":{{"message":"m"}}}}"#);
            let captured = Captured::from_report(serde_json::from_str(&report).unwrap(), b"");
            assert_eq!(captured.is_ok(), fits, "{attempt}");
        }
    }
}
