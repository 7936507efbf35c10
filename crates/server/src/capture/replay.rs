//! Replays: the request validated, its fix applied and encoded.

use redrive_core::patch::{self, BadPatch, Why};
use redrive_core::text::Label;
use redrive_core::wire::{Fix, ReplayRequest, RevisionView};
use redrive_engine::{FixedPayload, Replay, encode};

use super::classified::encoded;
use super::payload::payload;
use crate::limits::INSTRUCTION_MAX_BYTES;
use crate::problem::{Code, HttpProblem, Result, quoted};

/// Checks that need no look-up.
pub(crate) fn check_replay(request: &ReplayRequest) -> Result<()> {
    if request.instruction.as_ref().is_some_and(|text| text.token().len() > INSTRUCTION_MAX_BYTES) {
        return Err(HttpProblem::invalid_field(
            "instruction",
            format_args!("must be at most {INSTRUCTION_MAX_BYTES} bytes"),
        ));
    }
    if request.instruction.as_ref().is_some_and(|text| text.decode().trim().is_empty()) {
        return Err(HttpProblem::invalid_field("instruction", "must not be empty"));
    }
    let names = [("model", &request.model), ("agent", &request.agent), ("from_step", &request.from_step)];
    for (field, name) in names {
        not_blank(field, name.as_ref())?;
    }
    match &request.fix {
        Some(Fix { json_patch: Some(operations), payload: None }) if operations.is_empty() => {
            Err(HttpProblem::invalid_field("fix.json_patch", "must have an operation"))
        }
        Some(Fix { json_patch: Some(_), payload: Some(_) } | Fix { json_patch: None, payload: None }) => {
            Err(HttpProblem::invalid_field("fix", "must have either json_patch or payload"))
        }
        Some(Fix { json_patch: Some(_), payload: None } | Fix { json_patch: None, payload: Some(_) }) | None => Ok(()),
    }
}

pub(crate) fn not_blank(field: &str, name: Option<&Label>) -> Result<()> {
    match name {
        Some(name) if name.as_str().trim().is_empty() => Err(HttpProblem::invalid_field(field, "must not be empty")),
        Some(_) | None => Ok(()),
    }
}

/// `current` is the current payload; needed for a patch.
pub(crate) fn replay(request: &ReplayRequest, current: Option<&RevisionView>, max_bytes: usize) -> Result<Replay> {
    let fix = match (&request.fix, current) {
        (Some(fix), Some(current)) => Some(fixed(fix, current, max_bytes)?),
        (Some(_), None) | (None, _) => None,
    };
    let kept = ReplayRequest { tenant: None, plan_hash: None, ..request.clone() };
    Ok(Replay {
        force: request.force,
        plan_hash: request.plan_hash.clone(),
        fix,
        instruction: request.instruction.clone(),
        model: request.model.clone(),
        agent: request.agent.clone(),
        queue: request.queue.clone(),
        from_step: request.from_step.clone(),
        request: encoded(&kept)?,
    })
}

fn fixed(fix: &Fix, current: &RevisionView, max_bytes: usize) -> Result<FixedPayload> {
    let from_revision = current.revision;
    let Some(operations) = &fix.json_patch else {
        return Ok(FixedPayload { from_revision, payload: payload(fix.payload.as_ref(), None, None)?, patch: None });
    };
    let Some(before) = &current.payload else {
        return Err(HttpProblem::invalid_field("fix.json_patch", "needs a JSON payload: send a whole payload instead"));
    };
    let after = patch::apply(before.get(), operations, max_bytes).map_err(|bad| refused(&bad))?;
    let after = serde_json::value::RawValue::from_string(after).map_err(|e| HttpProblem::internal(&e.to_string()))?;
    let patch = serde_json::to_vec(operations).map_err(|e| HttpProblem::internal(&e.to_string()))?;
    Ok(FixedPayload { from_revision, payload: payload(Some(&after), None, None)?, patch: Some(encode(&patch)) })
}

fn refused(bad: &BadPatch) -> HttpProblem {
    let code = match bad.why {
        Why::TestFailed => Code::PatchTestFailed,
        Why::TooCostly => Code::PatchTooCostly,
        Why::BadPointer
        | Why::BadFrom
        | Why::NothingThere
        | Why::ValueMissing
        | Why::FromMissing
        | Why::WholeDocument
        | Why::IntoItself
        | Why::TooLarge
        | Why::TooMany => Code::BadPatch,
    };
    let pointer = quoted(&bad.path).to_owned();
    let words = format!("operation {} (`{pointer}`): {}", bad.operation, bad.why);
    HttpProblem::new(code, words).with("operation", bad.operation).with("pointer", pointer)
}

#[cfg(test)]
mod tests {
    use redrive_engine::decode;
    use serde_json::Value;

    use super::*;

    fn current(payload: &str) -> RevisionView {
        let view = serde_json::json!({"run_id": "r", "tenant": "t", "revision": 3, "at": "2026-01-01T00:00:00Z", "actor": "a"});
        let payload = serde_json::value::RawValue::from_string(payload.to_owned()).unwrap();
        RevisionView { payload: Some(payload), ..serde_json::from_value(view).unwrap() }
    }

    fn request(text: &str) -> ReplayRequest {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_patch_applies_to_the_revision_it_was_made_for() {
        let ask = request(r#"{"fix":{"json_patch":[{"op":"replace","path":"/a","value":1.50}]}}"#);
        let made = replay(&ask, Some(&current(r#"{"a": 1, "z":"\ud800"}"#)), 1_000).unwrap().fix.unwrap();
        assert_eq!(made.from_revision, 3);
        assert_eq!(decode(&made.payload.encoded).unwrap(), br#"{"a": 1.50, "z":"\ud800"}"#);
        assert_eq!(decode(&made.patch.unwrap()).unwrap(), br#"[{"op":"replace","path":"/a","value":1.50}]"#);
    }

    #[test]
    fn a_failing_patch_names_its_operation_and_pointer() {
        let told = |text: &str| replay(&request(text), Some(&current(r#"{"a":1}"#)), 1_000).unwrap_err().into_wire();
        let bad = told(r#"{"fix":{"json_patch":[{"op":"test","path":"/a","value":1},{"op":"remove","path":"/b"}]}}"#);
        assert_eq!((bad.status, bad.code.as_str()), (422, "bad_patch"));
        assert_eq!((&bad.more["operation"], &bad.more["pointer"]), (&Value::from(1), &Value::from("/b")));
        let failed = told(r#"{"fix":{"json_patch":[{"op":"test","path":"/a","value":2}]}}"#);
        assert_eq!((failed.status, failed.code.as_str()), (409, "patch_test_failed"));
    }

    #[test]
    fn a_fix_has_one_kind_and_null_is_a_payload() {
        for (text, field) in [
            (r#"{"fix":{}}"#, "fix"),
            (r#"{"fix":{"json_patch":[],"payload":1}}"#, "fix"),
            (r#"{"fix":{"json_patch":[]}}"#, "fix.json_patch"),
            (r#"{"model":" "}"#, "model"),
            (r#"{"instruction":""}"#, "instruction"),
        ] {
            let problem = check_replay(&request(text)).unwrap_err().into_wire();
            assert_eq!(problem.more["field"], field, "{text}");
        }
        let null = request(r#"{"fix":{"payload":null}}"#);
        assert!(check_replay(&null).is_ok());
        let made = replay(&null, Some(&current("1")), 10).unwrap().fix.unwrap();
        assert_eq!(decode(&made.payload.encoded).unwrap(), b"null");
    }
}
