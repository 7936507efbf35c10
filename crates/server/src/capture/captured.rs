//! A failed attempt as it was told, within bounds, before anybody has judged it.

use redrive_core::wire::{FailRequest, FailureReport};
use redrive_store::{AttemptBody, Digest, NewStep, encode};
use serde::Serialize;

use super::digest::digest;
use super::steps::new_steps;
use crate::limits::ATTEMPT_MAX;
use crate::problem::{Problem, Result};

pub(crate) struct Captured {
    pub(super) attempt: Option<u32>,
    pub(super) digest: Digest,
    pub(super) body: AttemptBody,
    pub(super) steps: Vec<NewStep>,
}

impl Captured {
    /// Of a report in one call. What describes the run has been taken out of it, or is looked at here as well.
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

    /// Of an attempt under a lease, whose number the lease has.
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
            Err(Problem::invalid_field("attempt", format_args!("must be from 1 to {ATTEMPT_MAX}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// As the side tables keep it.
pub(crate) fn encoded(value: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value).map_err(|e| Problem::internal(&e.to_string()))?;
    Ok(encode(&json))
}
