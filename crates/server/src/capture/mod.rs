//! Turns request bodies into the engine's types: report → captured → classified → failed attempt. Each stage is a type, so
//! that no step can be skipped or repeated.

mod cache;
mod classified;
mod operation;
mod payload;
mod replay;
mod run;

pub(crate) use cache::ClassificationCache;
pub(crate) use classified::{Captured, Classifiers, FailureContext, classify_error, encoded};
pub(crate) use operation::operation;
pub(crate) use replay::{check_replay, not_blank, replay};
pub(crate) use run::{kept_output, new_run, new_step};

use classified::attempt_in_range;
use payload::digest;
use redrive_core::detect::{OutputSchema, ReportedSuccess, observe};
use redrive_core::ids::Tenant;
use redrive_core::policy::PolicyLayer;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{FailRequest, Mode, StartRequest, SucceedRequest};
use redrive_engine::{AttemptBody, FailedAttempt, Fit, LeaseToken, RunRef, Start, StartHow, Success};
use run::new_steps;

use crate::problem::{HttpProblem, Result};

/// `POST /v1/runs`.
pub fn start(mut request: StartRequest, tenant: Tenant) -> Result<Start> {
    clocks_in_range(&request)?;
    let versions = request.versions.clone();
    let run = new_run(request.take_run_fields(), tenant)?;
    let how = match request.mode {
        Mode::Start if request.due_at.is_some() => {
            return Err(HttpProblem::invalid_field("due_at", "applies only to the mode enqueue: a start begins now"));
        }
        Mode::Start => {
            let start_id = request.start_id.map(|id| Label::from(id.as_str()));
            StartHow::Start { start_id, lease_ms: request.lease_ms }
        }
        Mode::Enqueue => StartHow::Enqueue { due_at: request.due_at },
    };
    Ok(Start { run, how, versions, idle_ms: request.idle_ms, deadline_ms: request.deadline_ms, fit: Fit::default() })
}

fn clocks_in_range(request: &StartRequest) -> Result<()> {
    let StartRequest { lease_ms, idle_ms, deadline_ms, .. } = *request;
    let asked = PolicyLayer { lease_ms, idle_ms, deadline_ms, ..PolicyLayer::default() };
    asked.check().map_err(|bad| HttpProblem::invalid_field(bad.field, format_args!("must be {}", bad.must_be)))
}

/// `POST …/fail` with the built-in rules only; `raw` is the body as sent, which identifies a resent report.
pub fn failed(request: FailRequest, raw: &[u8], now: Timestamp) -> Result<FailedAttempt> {
    failed_by(request, raw, Classifiers::default(), &FailureContext::default(), now)
}

/// The same with the user's rules first.
pub(crate) fn failed_by(
    request: FailRequest,
    raw: &[u8],
    by: Classifiers<'_>,
    context: &FailureContext<'_>,
    now: Timestamp,
) -> Result<FailedAttempt> {
    Captured::from_fail(request, raw)?.classify(by, context, now)?.into_failed()
}

/// `POST …/succeed`; `schema` is the queue's output schema.
pub fn success(at: RunRef, request: SucceedRequest, raw: &[u8], schema: Option<&OutputSchema>) -> Result<Success> {
    attempt_in_range(request.attempt)?;
    let lease = request.lease.as_deref().map(lease_token).transpose()?;
    let observed = observe(&ReportedSuccess {
        output: request.output.as_ref().map(|output| output.get()),
        finish_reason: request.finish_reason.as_ref().map(Label::as_str),
        usage: request.usage.as_ref(),
        steps: &request.steps,
        schema,
    });
    let body = AttemptBody {
        output: request.output,
        finish_reason: request.finish_reason,
        usage: request.usage,
        ..AttemptBody::default()
    };
    Ok(Success {
        at,
        lease,
        attempt: request.attempt,
        digest: digest(raw),
        observed,
        body: encoded(&body)?,
        steps: new_steps(request.steps)?,
        by: None,
    })
}

/// Parses a lease token.
pub(crate) fn lease_token(lease: &str) -> Result<LeaseToken> {
    lease.parse().map_err(|_| HttpProblem::invalid_field("lease", "is not a lease of this server"))
}
