//! What workers report on a run: start, heartbeat, steps, success, failure, release.

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::policy::Policy;
use redrive_core::text::Label;
use redrive_core::wire::{
    FailRequest, FailureAnswer, HeartbeatAnswer, HeartbeatRequest, Mode, PreflightBrief, ReleaseRequest, StartAnswer,
    StartRequest, StateAnswer, StepRequest, StepView, SucceedAnswer, SucceedRequest,
};
use redrive_engine::{DetailCall, Fit, Start, UnderLease};

use crate::app::App;
use crate::auth::{Principal, Worker};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::capture::{self, FailureContext, lease_token, new_step};
use crate::prepare;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::TenantQuery;
use crate::tasks::compute;

pub(crate) async fn start(
    app: App,
    call: ApiCall<Worker, (), TenantQuery, Json<StartRequest>>,
) -> Result<Reply<StartAnswer>> {
    // A start is a lease, and a stopping server gives none; enqueued work is accepted.
    if app.is_stopping() && call.body.value.mode == Mode::Start {
        return Err(HttpProblem::plain(Code::Closing).retry_after_s(1));
    }
    let (who, query) = (call.who, call.query);
    let Json { value, raw, held: _held } = call.body;
    let tenant = who.tenant(&[query.tenant.as_ref(), value.tenant.as_ref()])?;
    let queue = value.queue.clone().unwrap_or_else(QueueName::default_queue);
    let policy = app.store.policy(&tenant, &queue).await?;
    let (mut start, preflight) =
        compute(&app, &who.holder(), raw.len(), move || start_of(tenant, value, &policy)).await?;
    start.run.by = who.mark();
    let started = app.store.start(start).await?;
    let created = started.created;
    let mut answer = prepare::started(&app, started).await;
    // An existing run has attempts with better data.
    answer.preflight = preflight.filter(|_| created);
    Ok(Reply::new(answer, created))
}

fn start_of(tenant: Tenant, request: StartRequest, policy: &Policy) -> Result<(Start, Option<PreflightBrief>)> {
    let (fit, found) = match &request.payload {
        Some(payload) => prepare::fit(payload.get(), request.model.as_ref().map(Label::as_str), policy),
        None => (Fit::AsItIs, None),
    };
    Ok((Start { fit, ..capture::start(request, tenant)? }, found))
}

fn under_lease(
    who: &Principal,
    query: &TenantQuery,
    named: Option<&Tenant>,
    run_id: RunId,
    lease: &str,
) -> Result<UnderLease> {
    let at = who.run(&[query.tenant.as_ref(), named], run_id)?;
    Ok(UnderLease { at, lease: lease_token(lease)? })
}

pub(crate) async fn heartbeat(
    app: App,
    call: ApiCall<Worker, RunId, TenantQuery, Json<HeartbeatRequest>>,
) -> Result<Reply<HeartbeatAnswer>> {
    let request = call.body.value;
    let under = under_lease(&call.who, &call.query, request.tenant.as_ref(), call.path, &request.lease)?;
    Ok(Reply::ok(HeartbeatAnswer { lease_expires_at: app.store.heartbeat(under).await? }))
}

pub(crate) async fn step(
    app: App,
    call: ApiCall<Worker, RunId, TenantQuery, Json<StepRequest>>,
) -> Result<Reply<StepView>> {
    let request = call.body.value;
    let under = under_lease(&call.who, &call.query, request.tenant.as_ref(), call.path, &request.lease)?;
    let step = new_step(request.into(), "")?;
    Ok(Reply::ok(app.store.step(under, step).await?))
}

pub(crate) async fn succeed(
    app: App,
    call: ApiCall<Worker, RunId, TenantQuery, Json<SucceedRequest>>,
) -> Result<Reply<SucceedAnswer>> {
    let Json { value, raw, held: _held } = call.body;
    let at = call.who.run(&[call.query.tenant.as_ref(), value.tenant.as_ref()], call.path)?;
    let bytes = raw.len();
    let schema = app.store.output_schema(&at).await?;
    let captured = move || capture::success(at, value, &raw, schema.as_ref());
    let mut success = compute(&app, &call.who.holder(), bytes, captured).await?;
    success.by = call.who.mark();
    Ok(Reply::ok(app.store.succeed(success).await?))
}

pub(crate) async fn fail(
    app: App,
    call: ApiCall<Worker, RunId, TenantQuery, Json<FailRequest>>,
) -> Result<Reply<FailureAnswer>> {
    let Json { value, raw, held: _held } = call.body;
    let under = under_lease(&call.who, &call.query, value.tenant.as_ref(), call.path, &value.lease)?;
    let (to, tenant, holder) = (app.clone(), under.at.tenant.clone(), call.who.holder());
    // Only user rules look at the run.
    let little = DetailCall { limit: 1, ..DetailCall::default() };
    let run = if app.rules.is_some() { app.store.run_pages(&under.at, little).await.ok() } else { None };
    let failed = compute(&app, &holder, raw.len(), move || {
        let context = run.as_ref().map_or_else(|| FailureContext::of_tenant(&tenant), FailureContext::of_run);
        capture::failed_by(value, &raw, to.classifiers(), &context, to.store.now())
    });
    let mut failed = failed.await?;
    failed.by = call.who.mark();
    prepare::measure_run(&app, &under.at, &mut failed.failure).await?;
    Ok(Reply::ok(app.store.fail(under, failed).await?))
}

pub(crate) async fn release(
    app: App,
    call: ApiCall<Worker, RunId, TenantQuery, Json<ReleaseRequest>>,
) -> Result<Reply<StateAnswer>> {
    let request = call.body.value;
    let under = under_lease(&call.who, &call.query, request.tenant.as_ref(), call.path, &request.lease)?;
    Ok(Reply::ok(app.store.release(under).await?))
}
