//! `POST /v1/runs/{run_id}/` `cancel resolve discard note review approve reject defer reassign assign merge unmerge`:
//! decisions of a person.

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    ApproveRequest, AssignRequest, DeferRequest, MergeRequest, ReassignRequest, StateAnswer, TriageRequest,
};
use redrive_engine::{Triage, TriageAct};

use crate::app::App;
use crate::auth::{Principal, TenantReader};
use crate::body::{Json, OptionalJson};
use crate::call::{ApiCall, Reply};
use crate::capture::not_blank;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::TenantQuery;

type TriageCall<B = OptionalJson<TriageRequest>> = ApiCall<TenantReader, RunId, TenantQuery, B>;
type TriageResult = Result<Reply<StateAnswer>>;

pub(crate) async fn cancel(app: App, call: TriageCall) -> TriageResult {
    plain(&app, call, Triage::Cancel).await
}

pub(crate) async fn resolve(app: App, call: TriageCall) -> TriageResult {
    plain(&app, call, Triage::Resolve).await
}

pub(crate) async fn discard(app: App, call: TriageCall) -> TriageResult {
    plain(&app, call, Triage::Discard).await
}

/// A note needs a text.
pub(crate) async fn note(app: App, call: TriageCall) -> TriageResult {
    let noted = noted(call.body.0.reason.as_ref())?;
    plain(&app, call, noted).await
}

pub(crate) async fn review(app: App, call: TriageCall) -> TriageResult {
    plain(&app, call, Triage::Review).await
}

pub(crate) async fn reject(app: App, call: TriageCall) -> TriageResult {
    plain(&app, call, Triage::Reject).await
}

pub(crate) async fn unmerge(app: App, call: TriageCall) -> TriageResult {
    plain(&app, call, Triage::Unmerge).await
}

/// Only an operator may approve what the same key has asked for.
pub(crate) async fn approve(app: App, call: TriageCall<Json<ApproveRequest>>) -> TriageResult {
    let ApiCall { who, path, query, body } = call;
    let ApproveRequest { tenant, plan_hash, reason } = body.into_value();
    let triage = Triage::Approve { plan_hash, own_too: who.may_force() };
    act(&app, &who, path, &query, tenant, reason, triage).await
}

pub(crate) async fn defer(app: App, call: TriageCall<Json<DeferRequest>>) -> TriageResult {
    let ApiCall { who, path, query, body } = call;
    let DeferRequest { tenant, until, reason } = body.into_value();
    act(&app, &who, path, &query, tenant, reason, deferred(until, app.store.now())?).await
}

pub(crate) async fn reassign(app: App, call: TriageCall<Json<ReassignRequest>>) -> TriageResult {
    let ApiCall { who, path, query, body } = call;
    let ReassignRequest { tenant, agent, queue, reason } = body.into_value();
    act(&app, &who, path, &query, tenant, reason, reassigned(agent, queue)?).await
}

pub(crate) async fn assign(app: App, call: TriageCall<Json<AssignRequest>>) -> TriageResult {
    let ApiCall { who, path, query, body } = call;
    let AssignRequest { tenant, to, reason } = body.into_value();
    not_blank("to", to.as_ref())?;
    act(&app, &who, path, &query, tenant, reason, Triage::Assign { to }).await
}

pub(crate) async fn merge(app: App, call: TriageCall<Json<MergeRequest>>) -> TriageResult {
    let ApiCall { who, path, query, body } = call;
    let MergeRequest { tenant, into, reason } = body.into_value();
    act(&app, &who, path, &query, tenant, reason, Triage::Merge { into }).await
}

pub(crate) fn noted(reason: Option<&Text>) -> Result<Triage> {
    let has_text = reason.is_some_and(|reason| !reason.decode().trim().is_empty());
    has_text.then_some(Triage::Note).ok_or_else(|| HttpProblem::plain(Code::ReasonRequired))
}

pub(crate) fn deferred(until: Timestamp, now: Timestamp) -> Result<Triage> {
    if until > now {
        Ok(Triage::Defer { until })
    } else {
        Err(HttpProblem::invalid_field("until", "must be in the future"))
    }
}

pub(crate) fn reassigned(agent: Option<Label>, queue: Option<QueueName>) -> Result<Triage> {
    if agent.is_none() && queue.is_none() {
        return Err(HttpProblem::invalid_field("agent", "or `queue` is required"));
    }
    not_blank("agent", agent.as_ref())?;
    Ok(Triage::Reassign { agent, queue })
}

async fn plain(app: &App, call: TriageCall, triage: Triage) -> TriageResult {
    let ApiCall { who, path, query, body: OptionalJson(TriageRequest { tenant, reason }) } = call;
    act(app, &who, path, &query, tenant, reason, triage).await
}

async fn act(
    app: &App,
    who: &Principal,
    run_id: RunId,
    query: &TenantQuery,
    tenant: Option<Tenant>,
    reason: Option<Text>,
    triage: Triage,
) -> TriageResult {
    let at = who.run(&[query.tenant.as_ref(), tenant.as_ref()], run_id)?;
    let act = TriageAct { at, triage, actor: who.actor(), reason };
    Ok(Reply::ok(app.store.triage(act).await?.answer))
}
