//! Redaction of what is reported, one function per class of text. Evidence, names and notes lose well-known secrets always,
//! before they are classified. Payloads, headers and outputs are changed only where the policy says so.

use std::collections::BTreeMap;

use redrive_core::redact::{PARTS_MAX, RedactedPart, Redactor, mark, mask, mask_headers, mask_label, mask_text};
use redrive_core::text::{Label, Text};
use redrive_core::time::ClientTime;
use redrive_core::wire::{ErrorReport, OperationRequest, PayloadOmitted, ReplayRequest, RunFields, Versions};
use redrive_engine::{About, AttemptBody, NewRun, NewStep, Payload, PayloadKind, Reconcile, decode, encode};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::classified::encoded;
use crate::problem::{HttpProblem, Result};

/// What a failed attempt left behind: error, response, partial output and the names beside them.
pub(crate) fn evidence(body: &mut AttemptBody) {
    if let Some(error) = &mut body.error {
        error_report(error);
    }
    if let Some(response) = &mut body.response {
        option(response.body.as_mut());
        mask_headers(&mut response.headers);
    }
    option(body.partial_output.as_mut());
    labels([&mut body.finish_reason, &mut body.model, &mut body.provider, &mut body.tool, &mut body.step]);
    versions(&mut body.versions);
    for time in [&mut body.started_at, &mut body.ended_at] {
        option(time.as_mut().map(ClientTime::text_mut));
    }
}

pub(crate) fn error_report(error: &mut ErrorReport) {
    text(&mut error.message);
    option(error.error_type.as_mut());
    option(error.detail.as_mut());
    mask_headers(&mut error.headers);
}

/// The names and links of a run.
pub(super) fn run_names(fields: &mut RunFields) {
    labels([
        &mut fields.agent,
        &mut fields.task_type,
        &mut fields.content_type,
        &mut fields.environment,
        &mut fields.customer,
        &mut fields.model,
        &mut fields.provider,
        &mut fields.destination,
    ]);
    versions(&mut fields.versions);
    fields.links.values_mut().for_each(text);
}

/// What a person types with a replay.
pub(super) fn replay(request: &mut ReplayRequest) {
    option(request.reason.as_mut());
    option(request.instruction.as_mut());
    labels([&mut request.model, &mut request.agent, &mut request.from_step]);
}

/// What a person types with an operation. A search cannot match a secret: what it searches has none.
pub(super) fn operation(request: &mut OperationRequest) {
    option(request.reason.as_mut());
    option(request.instruction.as_mut());
    labels([&mut request.model, &mut request.agent]);
    if let Some(q) = &mut request.filter.q {
        *q = mask(q).into_owned();
    }
}

pub(super) fn option(given: Option<&mut Text>) {
    if let Some(given) = given {
        text(given);
    }
}

pub(super) fn text(given: &mut Text) {
    if let Some(masked) = mask_text(given) {
        *given = masked;
    }
}

/// Names that a request gives.
fn labels<const N: usize>(all: [&mut Option<Label>; N]) {
    for label in all.into_iter().flatten() {
        name(label);
    }
}

pub(super) fn versions(all: &mut Versions) {
    all.values_mut().for_each(name);
}

pub(super) fn name(label: &mut Label) {
    if let Some(masked) = mask_label(label) {
        *label = masked;
    }
}

/// A run's payload and headers, where the policy redacts them. The digest stays that of the payload as it was sent, so a
/// resent run is recognised.
pub(crate) fn run(run: &mut NewRun, by: &Redactor) -> Result<()> {
    let mut parts = match run.payload.kind {
        PayloadKind::Json | PayloadKind::Bytes => payload(&mut run.payload, by)?,
        PayloadKind::None | PayloadKind::Omitted => Vec::new(),
    };
    let mut about: About = decoded(&run.about)?;
    parts.extend(
        headers(&mut about.headers, by)
            .into_iter()
            .map(|(name, kind)| RedactedPart { at: format!("header:{}", mask(&name)), kind }),
    );
    if parts.is_empty() {
        return Ok(());
    }
    parts.truncate(PARTS_MAX);
    about.redacted = parts;
    run.about = encoded(&about)?;
    run.masked = true;
    Ok(())
}

fn payload(payload: &mut Payload, by: &Redactor) -> Result<Vec<RedactedPart>> {
    let bytes = decode(&payload.encoded).map_err(|error| unreadable(&error))?;
    let Some((masked, parts)) = by.bytes(&bytes) else { return Ok(Vec::new()) };
    payload.encoded = encode(&masked);
    Ok(parts)
}

/// Names and kinds of the masked ones.
fn headers(headers: &mut BTreeMap<String, Text>, by: &Redactor) -> Vec<(String, String)> {
    let mut masked = if by.secrets { mask_headers(headers) } else { Vec::new() };
    let marked = |value: &Text| value.token().starts_with("\"[redacted:");
    for (name, value) in headers.iter_mut().filter(|(name, value)| by.is_key(name) && !marked(value)) {
        *value = Text::from(mark("key").as_str());
        masked.push((name.clone(), "key".to_owned()));
    }
    masked
}

/// Outputs of steps. One that would change is kept by size and hash alone: a replay must not get another output back than
/// the step gave.
pub(crate) fn steps(steps: &mut [NewStep], by: &Redactor) -> Result<()> {
    let by = by.without_pointers();
    for step in steps {
        (step.output, step.output_omitted) = output(step.output.take(), step.output_omitted.take(), &by)?;
    }
    Ok(())
}

type KeptOutput = (Option<Vec<u8>>, Option<PayloadOmitted>);

fn output(output: Option<Vec<u8>>, omitted: Option<PayloadOmitted>, by: &Redactor) -> Result<KeptOutput> {
    let Some(encoded) = output else { return Ok((None, omitted)) };
    let bytes = decode(&encoded).map_err(|error| unreadable(&error))?;
    Ok(match by.bytes(&bytes) {
        Some(_) => (None, Some(super::run::omitted(&bytes))),
        None => (Some(encoded), omitted),
    })
}

/// The output that a person gives for a step.
pub(crate) fn reconciled(act: &mut Reconcile, by: &Redactor) -> Result<()> {
    let by = by.without_pointers();
    (act.output, act.output_omitted) = output(act.output.take(), act.output_omitted.take(), &by)?;
    Ok(())
}

/// The rest of an attempt: its output, and evidence that is JSON.
pub(crate) fn attempt(body: &mut Vec<u8>, by: &Redactor) -> Result<()> {
    let by = by.without_pointers();
    let mut attempt: AttemptBody = decoded(body)?;
    if let Some((masked, _)) = attempt.output.as_ref().and_then(|output| by.json(output.get())) {
        attempt.output = Some(RawValue::from_string(masked).map_err(|e| HttpProblem::internal(&e.to_string()))?);
    }
    if let Some(error) = &mut attempt.error {
        headers(&mut error.headers, &by);
    }
    if let Some(response) = &mut attempt.response {
        headers(&mut response.headers, &by);
        json_text(response.body.as_mut(), &by);
    }
    json_text(attempt.partial_output.as_mut(), &by);
    *body = encoded(&attempt)?;
    Ok(())
}

fn json_text(text: Option<&mut Text>, by: &Redactor) {
    let Some(text) = text else { return };
    let masked = by.bytes(text.decode().as_bytes()).and_then(|(masked, _)| String::from_utf8(masked).ok());
    if let Some(masked) = masked {
        *text = Text::from(masked.as_str());
    }
}

fn decoded<T: DeserializeOwned>(stored: &[u8]) -> Result<T> {
    let bytes = decode(stored).map_err(|error| unreadable(&error))?;
    serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))
}

fn unreadable(error: &dyn std::fmt::Display) -> HttpProblem {
    HttpProblem::internal(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{new_run, new_step};

    const TOKEN: &str = concat!("ghp", "_4fT9kQ2mZ8xW1vB7nC3aS5dF6gH0jK2lP4oI");

    fn by() -> Redactor {
        Redactor { secrets: true, keys: vec!["ssn".into()], pointers: vec!["/customer/email".into()] }
    }

    #[test]
    fn a_masked_payload_keeps_its_digest_and_lists_its_masks() {
        let report = format!(
            r#"{{"run_id":"r","error":{{"message":"m"}},"headers":{{"authorization":"x","trace":"t"}},
                "payload":{{"customer":{{"email":"a@b.c"}},"ssn":1,"note":"{TOKEN}","n":1.50}}}}"#
        );
        let mut report: redrive_core::wire::FailureReport = serde_json::from_str(&report).unwrap();
        let mut made = new_run(report.take_run_fields(), "acme".parse().unwrap()).unwrap();
        let digest = made.payload.digest;
        run(&mut made, &by()).unwrap();
        assert_eq!((made.payload.digest, made.masked), (digest, true));
        assert_eq!(
            String::from_utf8(decode(&made.payload.encoded).unwrap()).unwrap(),
            r#"{"customer":{"email":"[redacted:pointer]"},"ssn":"[redacted:key]","note":"[redacted:github_token]","n":1.50}"#
        );
        let about: About = decoded(&made.about).unwrap();
        let listed: Vec<&str> = about.redacted.iter().map(|part| part.at.as_str()).collect();
        assert_eq!(listed, ["/customer/email", "/ssn", "/note", "header:authorization"]);
        assert_eq!(about.headers["trace"].decode(), "t");
    }

    #[test]
    fn a_step_output_with_a_secret_is_kept_by_hash_alone() {
        let step = |output: &str| {
            let text = format!(r#"{{"name":"a","status":"committed","output":{output}}}"#);
            let step: redrive_core::wire::StepReport = serde_json::from_str(&text).unwrap();
            let mut made = [new_step(step.into(), "").unwrap()];
            steps(&mut made, &by()).unwrap();
            let [made] = made;
            (made.output.is_some(), made.output_omitted.map(|omitted| omitted.bytes))
        };
        assert_eq!(step(r#"{"id":7}"#), (true, None));
        assert_eq!(step(r#"{"ssn":7}"#), (false, Some(9)));
    }
}
