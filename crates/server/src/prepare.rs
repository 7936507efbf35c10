//! Payloads on their way to a worker: checked against the model's window, rewritten as the verdict asks, and stored as
//! sent before they go out. A payload that cannot be rewritten goes out as it is, and each change says so.

use std::sync::Arc;

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::policy::{Policy, Preflight};
use redrive_core::preflight::{Asked, PreflightVerdict, check};
use redrive_core::reason::Reason;
use redrive_core::rewrite::{Room, measure, rewrite};
use redrive_core::strategy::Failure;
use redrive_core::verdict::Change;
use redrive_core::wire::{HandedChange, LeasedRun, PreflightBrief, RawJson, StartAnswer};
use redrive_engine::{Fit, NewFailure, NewSentPayload, PayloadKind, RunRef, Started, UnderLease, decode, encode};
use serde_json::value::RawValue;

use crate::app::App;
use crate::budget::Holder;
use crate::capture::encoded;
use crate::problem::{HttpProblem, Result};
use crate::tasks::compute;

/// The rule in the verdict of a payload that can never fit.
const TOO_LARGE: &str = "preflight.too_large";

/// Whether the payload fits its model, and what to do about it.
pub(crate) fn fit(payload: &str, model: Option<&str>, policy: &Policy) -> (Fit, Option<PreflightBrief>) {
    if policy.preflight == Preflight::Off {
        return (Fit::AsItIs, None);
    }
    let asked = Asked { payload, shape: &policy.payload, model, output_tokens: None, calibration: None };
    let checked = check(&asked, &policy.models);
    let fit = match (policy.preflight, checked.verdict) {
        (Preflight::Off | Preflight::Warn, _) | (Preflight::Enforce, PreflightVerdict::Ok | PreflightVerdict::Warn) => {
            Fit::AsItIs
        }
        (Preflight::Enforce, PreflightVerdict::Compress) => Fit::With(checked.change().into_iter().collect()),
        (Preflight::Enforce, PreflightVerdict::Split | PreflightVerdict::Reject) => {
            Fit::Never { rule: TOO_LARGE, why: checked.why.clone() }
        }
    };
    let brief = PreflightBrief {
        verdict: checked.verdict,
        why: checked.why,
        estimate: checked.estimate,
        budget: checked.budget,
    };
    (fit, (brief.verdict != PreflightVerdict::Ok).then_some(brief))
}

struct RewrittenPayload {
    payload: RawJson,
    changes: Vec<HandedChange>,
    to_store: NewSentPayload,
}

/// Applies the changes; none if the payload stays the same.
fn rewrite_payload(payload: &str, changes: &[HandedChange], policy: &Policy) -> Result<Option<RewrittenPayload>> {
    let asked: Vec<Change> = changes.iter().map(|handed| handed.change.clone()).collect();
    let rewritten = rewrite(payload, &policy.payload, &asked, None, &policy.models);
    if rewritten.payload == payload {
        return Ok(None);
    }
    let changes: Vec<HandedChange> =
        rewritten.changes.into_iter().map(|(change, done)| HandedChange { change, applied: done.is_ok() }).collect();
    let to_store = NewSentPayload { changes: encoded(&changes)?, body: encode(rewritten.payload.as_bytes()) };
    let payload =
        RawValue::from_string(rewritten.payload).map_err(|error| HttpProblem::internal(&error.to_string()))?;
    Ok(Some(RewrittenPayload { payload, changes, to_store }))
}

/// Rewrites the payloads of leased runs. A run that can't be rewritten keeps its lease and its payload.
pub(crate) async fn leases(app: &App, mut runs: Vec<LeasedRun>) -> Vec<LeasedRun> {
    let mut made = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        let Some(payload) = run.payload.clone().filter(|_| !run.changes.is_empty()) else { continue };
        let of = AttemptToPrepare { tenant: &run.tenant, run_id: &run.run_id, queue: &run.queue, lease: &run.lease };
        made.extend(of.prepare(app, payload, &run.changes).await.map(|prepared| (n, prepared)));
    }
    for (n, (payload, changes)) in stored(app, made).await {
        (runs[n].payload, runs[n].changes) = (Some(payload), changes);
    }
    runs
}

/// Rewrites the payload of a started run. A payload equal to the caller's is not sent back.
pub(crate) async fn started(app: &App, started: Started) -> StartAnswer {
    let Started { mut answer, queue, to_prepare, payload_differs, .. } = started;
    if !to_prepare {
        return answer;
    }
    let mut made = Vec::new();
    if let (Some(payload), Some(lease)) = (answer.payload.clone(), &answer.lease) {
        let of = AttemptToPrepare { tenant: &answer.tenant, run_id: &answer.run_id, queue: &queue, lease };
        made.extend(of.prepare(app, payload, &answer.changes).await.map(|prepared| ((), prepared)));
    }
    match stored(app, made).await.pop() {
        Some(((), (payload, changes))) => (answer.payload, answer.changes) = (Some(payload), changes),
        None if !payload_differs => (answer.payload, answer.payload_base64) = (None, None),
        None => {}
    }
    answer
}

type PreparedPayload = (RawJson, Vec<HandedChange>);

/// The payloads that were stored; only those go out rewritten.
async fn stored<N>(app: &App, made: Vec<(N, (UnderLease, RewrittenPayload))>) -> Vec<(N, PreparedPayload)> {
    if made.is_empty() {
        return Vec::new();
    }
    let (mut going, mut keep) = (Vec::new(), Vec::new());
    for (n, (under, made)) in made {
        going.push((n, (made.payload, made.changes)));
        keep.push((under, made.to_store));
    }
    let run_of = |(under, _): &(UnderLease, NewSentPayload)| under.at.run_id.clone();
    let runs: Vec<RunId> = keep.iter().map(run_of).collect();
    let done = app.store.keep_sent(keep).await;
    going
        .into_iter()
        .zip(done.into_iter().zip(runs))
        .filter_map(|(going, (done, run))| match done {
            Ok(()) => Some(going),
            Err(error) => {
                tracing::warn!(run = run.as_str(), %error, "rewritten payload not stored; sending the original");
                None
            }
        })
        .collect()
}

/// The attempt to prepare a payload for.
struct AttemptToPrepare<'a> {
    tenant: &'a Tenant,
    run_id: &'a RunId,
    queue: &'a QueueName,
    lease: &'a str,
}

impl AttemptToPrepare<'_> {
    /// The rewritten payload, still to be stored; none if the original goes out.
    async fn prepare(
        &self,
        app: &App,
        payload: RawJson,
        changes: &[HandedChange],
    ) -> Option<(UnderLease, RewrittenPayload)> {
        match self.try_prepare(app, payload, changes.to_vec()).await {
            Ok(made) => made,
            Err(problem) => {
                let (run, why) = (self.run_id.as_str(), problem.code.as_str());
                tracing::warn!(run, why, "payload not rewritten; sending the original");
                None
            }
        }
    }

    async fn try_prepare(
        &self,
        app: &App,
        payload: RawJson,
        changes: Vec<HandedChange>,
    ) -> Result<Option<(UnderLease, RewrittenPayload)>> {
        let policy = app.store.policy(self.tenant, self.queue).await?;
        let (bytes, holder) = (payload.get().len(), Holder::Tenant(self.tenant.clone()));
        let Some(made) =
            compute(app, &holder, bytes, move || rewrite_payload(payload.get(), &changes, &policy)).await?
        else {
            return Ok(None);
        };
        let lease = self.lease.parse().map_err(|_| HttpProblem::internal("a lease that can't be read"))?;
        let at = RunRef { tenant: self.tenant.clone(), run_id: self.run_id.clone() };
        Ok(Some((UnderLease { at, lease }, made)))
    }
}

/// Measures the payload of a reported overflow: its own, otherwise the stored one.
pub(crate) async fn measure_report(app: &App, report: &mut NewFailure) -> Result<()> {
    if report.failed.failure.reason != Reason::ContextOverflow {
        return Ok(());
    }
    let run = &report.run;
    if run.payload.kind != PayloadKind::Json {
        let at = RunRef { tenant: run.tenant.clone(), run_id: run.run_id.clone() };
        return measure_run(app, &at, &mut report.failed.failure).await;
    }
    let policy = app.store.policy(&run.tenant, &run.queue).await?;
    let packed = run.payload.encoded.clone();
    let holder = Holder::Tenant(run.tenant.clone());
    let measured = compute(app, &holder, packed.len(), move || {
        let bytes = decode(&packed).map_err(|e| HttpProblem::internal(&e.to_string()))?;
        Ok(std::str::from_utf8(&bytes).ok().and_then(|payload| measure(payload, &policy.payload)))
    });
    report.failed.failure.room = measured.await?;
    Ok(())
}

/// Measures the stored payload of a run whose attempt overflowed.
pub(crate) async fn measure_run(app: &App, at: &RunRef, failure: &mut Failure) -> Result<()> {
    if failure.reason != Reason::ContextOverflow {
        return Ok(());
    }
    // An absent run has nothing to measure; the store refuses the report later.
    let Ok(run) = app.store.run(at).await else { return Ok(()) };
    let Some(payload) = run.body.payload else { return Ok(()) };
    let policy = app.store.policy(&at.tenant, &run.summary.queue).await?;
    failure.room = measured(app, at, payload.get().to_owned(), policy).await?;
    Ok(())
}

async fn measured(app: &App, at: &RunRef, payload: String, policy: Arc<Policy>) -> Result<Option<Room>> {
    let holder = Holder::Tenant(at.tenant.clone());
    compute(app, &holder, payload.len(), move || Ok(measure(&payload, &policy.payload))).await
}
