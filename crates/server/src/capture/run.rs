//! Reported runs and steps, validated and with their defaults.

use redrive_core::ids::{CallId, QueueName, StepKey, Tenant};
use redrive_core::ledger::may_be_given;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{PayloadOmitted, RawJson, RunFields, Severity, StepReport, StepRequest, StepStatus};
use redrive_engine::{About, NewRun, NewStep, encode};

use super::classified::encoded;
use super::payload::{payload, sha256_hex};
use crate::limits::{STEP_CHECK_MAX_BYTES, STEP_OUTPUT_MAX_BYTES};
use crate::problem::{HttpProblem, Result};

pub(super) const ENVIRONMENT_DEFAULT: &str = "production";

pub(crate) fn new_run(fields: RunFields, tenant: Tenant) -> Result<NewRun> {
    let payload = payload(fields.payload.as_ref(), fields.payload_base64.as_deref(), fields.payload_omitted.as_ref())?;
    let about = About {
        content_type: fields.content_type,
        headers: fields.headers,
        versions: fields.versions,
        links: fields.links,
        destination: fields.destination,
        payload_omitted: fields.payload_omitted,
    };
    Ok(NewRun {
        tenant,
        run_id: fields.run_id,
        queue: fields.queue.unwrap_or_else(QueueName::default_queue),
        agent: fields.agent,
        task_type: fields.task_type,
        customer: fields.customer,
        model: fields.model,
        provider: fields.provider,
        environment: fields.environment.unwrap_or_else(|| ENVIRONMENT_DEFAULT.into()),
        severity: fields.severity.unwrap_or(Severity::Normal),
        idempotency_key: fields.idempotency_key,
        order_key: fields.order_key,
        resumable: fields.resumable,
        payload,
        about: encoded(&about)?,
        by: None,
    })
}

/// A reported step, from either kind of call.
pub(crate) struct ReportedStep {
    name: Label,
    key: Option<StepKey>,
    effect: Option<bool>,
    status: StepStatus,
    output: Option<RawJson>,
    check: Option<Text>,
    checked: bool,
    call_id: Option<CallId>,
}

impl From<StepReport> for ReportedStep {
    fn from(step: StepReport) -> Self {
        let StepReport { name, key, effect, status, output, check } = step;
        Self { name, key, effect, status, output, check, checked: false, call_id: None }
    }
}

impl From<StepRequest> for ReportedStep {
    fn from(step: StepRequest) -> Self {
        let StepRequest { tenant: _, lease: _, name, key, effect, status, output, check, checked, call_id } = step;
        Self { name, key, effect, status, output, check, checked, call_id }
    }
}

pub(crate) fn new_steps(steps: Vec<StepReport>) -> Result<Vec<NewStep>> {
    let one = |(i, step): (usize, StepReport)| new_step(step.into(), &format!("steps[{i}]."));
    steps.into_iter().enumerate().map(one).collect()
}

/// Validates a step; `within` is the path of its fields.
pub(crate) fn new_step(step: ReportedStep, within: &str) -> Result<NewStep> {
    let bad = |field: &str, must: &str| Err(HttpProblem::invalid_field(&format!("{within}{field}"), must));
    let status = match step.status {
        StepStatus::Started if step.checked => return bad("checked", "applies only to committed or failed"),
        StepStatus::Started | StepStatus::Committed | StepStatus::Failed => step.status,
        StepStatus::Unknown | StepStatus::Reconciled => return bad("status", "must be started, committed or failed"),
    };
    if step.check.as_ref().is_some_and(|check| check.token().len() > STEP_CHECK_MAX_BYTES) {
        return bad("check", &format!("must be at most {STEP_CHECK_MAX_BYTES} bytes"));
    }
    if step.key.as_ref().is_some_and(|key| !may_be_given(key.as_str(), step.name.as_str())) {
        return bad("key", "may begin with `step:` only if it is the default key of a step with this name");
    }
    let (output, output_omitted) = kept_output(step.output.as_ref());
    let check = step.check.as_ref().map(|check| encode(check.token().as_bytes()));
    let ReportedStep { name, key, effect, checked, call_id, .. } = step;
    Ok(NewStep { name, key, effect, status, output, output_omitted, check, checked, call_id })
}

/// An encoded output; above the limit only its size and hash.
pub(crate) fn kept_output(output: Option<&RawJson>) -> (Option<Vec<u8>>, Option<PayloadOmitted>) {
    match output.map(|raw| raw.get().as_bytes()) {
        Some(bytes) if bytes.len() > STEP_OUTPUT_MAX_BYTES => (None, Some(omitted(bytes))),
        Some(bytes) => (Some(encode(bytes)), None),
        None => (None, None),
    }
}

fn omitted(bytes: &[u8]) -> PayloadOmitted {
    PayloadOmitted { bytes: bytes.len() as u64, sha256: sha256_hex(bytes).as_str().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Result<NewStep> {
        new_step(serde_json::from_str::<StepReport>(text).unwrap().into(), "")
    }

    #[test]
    fn a_large_step_output_is_kept_by_size_and_hash() {
        let big = format!(r#"{{"name":"a","status":"committed","output":"{}"}}"#, "x".repeat(STEP_OUTPUT_MAX_BYTES));
        let kept = step(&big).unwrap();
        assert_eq!((kept.output, kept.output_omitted.unwrap().bytes), (None, STEP_OUTPUT_MAX_BYTES as u64 + 2));
    }

    #[test]
    fn a_key_made_of_a_name_belongs_to_that_name() {
        let given = |name: &str, key: &str| step(&format!(r#"{{"name":"{name}","key":"{key}","status":"started"}}"#));
        for (name, key) in [("mail", "step:mail"), ("send mail", "step:send@20mail:2"), ("mail", "mine:step:x")] {
            assert!(given(name, key).is_ok(), "{name} {key}");
        }
        for (name, key) in [
            ("mail", "step:other"),
            ("mail", "step:mail:1"),
            ("mail", "step:mail:02"),
            ("mail", "step:mail:4294967296"),
            ("mail", "step:"),
            ("send mail", "step:send_mail"),
        ] {
            assert!(given(name, key).is_err(), "{name} {key}");
        }
    }

    #[test]
    fn only_the_server_calls_a_step_unknown_or_reconciled() {
        for status in ["unknown", "reconciled"] {
            assert!(step(&format!(r#"{{"name":"a","status":"{status}"}}"#)).is_err());
        }
    }
}
