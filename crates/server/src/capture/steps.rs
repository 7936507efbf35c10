//! Steps as they are reported.

use redrive_core::ids::StepKey;
use redrive_core::text::Label;
use redrive_core::wire::{PayloadOmitted, RawJson, StepReport, StepRequest, StepStatus};
use redrive_store::{NewStep, encode};

use super::digest::sha256_hex;
use crate::limits::STEP_OUTPUT_MAX_BYTES;
use crate::problem::{Problem, Result};

/// What a step says of itself, in whichever call it comes.
pub(crate) struct Step {
    name: Label,
    key: Option<StepKey>,
    effect: Option<bool>,
    status: StepStatus,
    output: Option<RawJson>,
}

impl From<StepReport> for Step {
    fn from(step: StepReport) -> Self {
        let StepReport { name, key, effect, status, output } = step;
        Self { name, key, effect, status, output }
    }
}

impl From<StepRequest> for Step {
    fn from(step: StepRequest) -> Self {
        let StepRequest { tenant: _, lease: _, name, key, effect, status, output } = step;
        Self { name, key, effect, status, output }
    }
}

pub(crate) fn new_steps(steps: Vec<StepReport>) -> Result<Vec<NewStep>> {
    let one = |(i, step): (usize, StepReport)| new_step(step.into(), &format!("steps[{i}].status"));
    steps.into_iter().enumerate().map(one).collect()
}

/// A step that does not say whether it changes the world counts as one that does.
pub(crate) fn new_step(step: Step, status_field: &str) -> Result<NewStep> {
    let status = match step.status {
        StepStatus::Started | StepStatus::Committed | StepStatus::Failed => step.status,
        StepStatus::Unknown | StepStatus::Reconciled => {
            return Err(Problem::invalid_field(status_field, "must be started, committed or failed"));
        }
    };
    let (output, output_omitted) = match step.output.as_deref().map(|raw| raw.get().as_bytes()) {
        Some(bytes) if bytes.len() > STEP_OUTPUT_MAX_BYTES => (None, Some(omitted(bytes))),
        Some(bytes) => (Some(encode(bytes)), None),
        None => (None, None),
    };
    let effect = step.effect.unwrap_or(true);
    Ok(NewStep { name: step.name, key: step.key, effect, status, output, output_omitted })
}

fn omitted(bytes: &[u8]) -> PayloadOmitted {
    PayloadOmitted { bytes: bytes.len() as u64, sha256: sha256_hex(bytes).as_str().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Result<NewStep> {
        new_step(serde_json::from_str::<StepReport>(text).unwrap().into(), "status")
    }

    #[test]
    fn a_step_that_does_not_say_effect_is_one() {
        assert!(step(r#"{"name":"a","status":"started"}"#).unwrap().effect);
        assert!(!step(r#"{"name":"a","status":"started","effect":false}"#).unwrap().effect);
    }

    #[test]
    fn an_output_past_the_limit_is_known_by_size_and_hash() {
        let big = format!(r#"{{"name":"a","status":"committed","output":"{}"}}"#, "x".repeat(STEP_OUTPUT_MAX_BYTES));
        let kept = step(&big).unwrap();
        assert_eq!((kept.output, kept.output_omitted.unwrap().bytes), (None, STEP_OUTPUT_MAX_BYTES as u64 + 2));
    }

    #[test]
    fn only_the_server_calls_a_step_unknown_or_reconciled() {
        for status in ["unknown", "reconciled"] {
            assert!(step(&format!(r#"{{"name":"a","status":"{status}"}}"#)).is_err());
        }
    }
}
