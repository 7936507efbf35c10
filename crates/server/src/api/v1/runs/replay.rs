//! `/v1/runs/{run_id}/plan` says what a replay would do; `/v1/runs/{run_id}/replay` does it.

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::text::Label;
use redrive_core::wire::{PlanAnswer, ReplayAnswer, ReplayRequest};
use redrive_engine::{Error, Replay, RunRef, Triage, TriageAct, Triaged};

use crate::app::App;
use crate::auth::{Principal, TenantReader};
use crate::body::HeldJson;
use crate::budget::Holder;
use crate::call::{ApiCall, Reply};
use crate::capture;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{FromQuery, Param, ParamKind, RawQuery, TENANT, TenantQuery, param};
use crate::tasks::compute;

pub(crate) struct PlanQuery {
    tenant: Option<Tenant>,
    model: Option<Label>,
    agent: Option<Label>,
    queue: Option<QueueName>,
    from_step: Option<Label>,
}

impl FromQuery for PlanQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("model", ParamKind::Name, "With another model."),
        param("agent", ParamKind::Name, "With another agent."),
        param("queue", ParamKind::Id, "In another queue."),
        param("from_step", ParamKind::Name, "From a recorded step on, by its key or name."),
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let mut label = |name: &str| given.take(name).map(|text| Label::from(text.as_str()));
        let (model, agent, from_step) = (label("model"), label("agent"), label("from_step"));
        Ok(Self { tenant: given.id("tenant")?, queue: given.id("queue")?, model, agent, from_step })
    }
}

pub(crate) async fn get_plan(app: App, call: ApiCall<TenantReader, RunId, PlanQuery>) -> Result<Reply<PlanAnswer>> {
    let PlanQuery { tenant, model, agent, queue, from_step } = call.query;
    let at = call.who.run(&[tenant.as_ref()], call.path)?;
    let request = ReplayRequest { model, agent, queue, from_step, ..ReplayRequest::default() };
    plan(&app, &at, request, 0).await
}

pub(crate) async fn post_plan(
    app: App,
    call: ApiCall<TenantReader, RunId, TenantQuery, HeldJson<ReplayRequest>>,
) -> Result<Reply<PlanAnswer>> {
    let HeldJson { value: request, bytes, held: _held } = call.body;
    let at = call.who.run(&[call.query.tenant.as_ref(), request.tenant.as_ref()], call.path)?;
    plan(&app, &at, request, bytes).await
}

async fn plan(app: &App, at: &RunRef, request: ReplayRequest, bytes: usize) -> Result<Reply<PlanAnswer>> {
    let replay = prepared(app, at, request, bytes).await?;
    Ok(Reply::large(app.store.plan(at, replay).await?))
}

/// How often a fix is retried after a conflict with another revision.
const TRIES: usize = 3;

pub(crate) async fn replay(
    app: App,
    call: ApiCall<TenantReader, RunId, TenantQuery, HeldJson<ReplayRequest>>,
) -> Result<Reply<ReplayAnswer>> {
    let HeldJson { value: request, bytes, held: _held } = call.body;
    let named = [call.query.tenant.as_ref(), request.tenant.as_ref()];
    may_force(&call.who, &request)?;
    let at = call.who.run(&named, call.path)?;
    Ok(Reply::ok(replay_as(&app, &call.who, &at, request, bytes).await?))
}

/// Replays on behalf of a caller; `bytes` is the size of the request.
pub(crate) async fn replay_as(
    app: &App,
    who: &Principal,
    at: &RunRef,
    request: ReplayRequest,
    bytes: usize,
) -> Result<ReplayAnswer> {
    may_force(who, &request)?;
    let Triaged { answer, attempt, revision, review } =
        replay_with_retries(app, at, &who.actor(), request, bytes).await?;
    let (run_id, tenant, state) = (answer.run_id, answer.tenant, answer.state);
    let (plan_hash, expires_at) = review.unzip();
    Ok(ReplayAnswer { run_id, tenant, state, attempt, revision, plan_hash, expires_at })
}

/// The role is checked before the look-up.
fn may_force(who: &Principal, request: &ReplayRequest) -> Result<()> {
    if request.force && !who.may_force() {
        return Err(HttpProblem::new(Code::Forbidden, "only an operator may force"));
    }
    if request.force && request.reason.as_ref().is_none_or(|reason| reason.decode().trim().is_empty()) {
        return Err(HttpProblem::plain(Code::ReasonRequired));
    }
    Ok(())
}

async fn replay_with_retries(
    app: &App,
    at: &RunRef,
    actor: &str,
    request: ReplayRequest,
    bytes: usize,
) -> Result<Triaged> {
    for _ in 1..TRIES {
        match try_replay(app, at, actor, request.clone(), bytes).await? {
            Err(Error::RevisionChanged) => {}
            done => return Ok(done?),
        }
    }
    Ok(try_replay(app, at, actor, request, bytes).await??)
}

async fn try_replay(
    app: &App,
    at: &RunRef,
    actor: &str,
    request: ReplayRequest,
    bytes: usize,
) -> Result<redrive_engine::Result<Triaged>> {
    let reason = request.reason.clone();
    let replay = prepared(app, at, request, bytes).await?;
    let act = TriageAct { at: at.clone(), triage: Triage::Replay(Box::new(replay)), actor: actor.to_owned(), reason };
    Ok(app.store.triage(act).await)
}

/// The request with its fix applied to the current payload.
pub(crate) async fn prepared(app: &App, at: &RunRef, request: ReplayRequest, bytes: usize) -> Result<Replay> {
    capture::check_replay(&request)?;
    let current = match &request.fix {
        Some(_) => Some(app.store.revision(at, None).await?),
        None => None,
    };
    let payload =
        current.as_ref().and_then(|current| current.payload.as_ref()).map_or(0, |payload| payload.get().len());
    let (max_bytes, holder) = (app.limits.body_max_bytes, Holder::Tenant(at.tenant.clone()));
    compute(app, &holder, bytes + payload, move || capture::replay(&request, current.as_ref(), max_bytes)).await
}
