//! `/api/v1/dlq`: a plain recovery API for tenants.

use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::{DlqAnswer, DlqMessage, DlqStatus, RunSummary, Sort, TriageRequest};
use redrive_engine::{PageCall, RunFilter, TenantScope, Triage, TriageAct};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::auth::{Principal, TenantReader};
use crate::body::OptionalJson;
use crate::call::{ApiCall, Reply};
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{CURSOR, FromQuery, LIMIT, NoQuery, Param, ParamKind, RawQuery, param};

/// Unlike in `/v1`, the tenant is in the path, and another tenant is forbidden, existing or not.
fn own(who: &Principal, tenant: &Tenant) -> Result<()> {
    match who.own_tenant() {
        Some(own) if own != tenant => Err(HttpProblem::plain(Code::Forbidden)),
        Some(_) | None => Ok(()),
    }
}

pub(crate) struct MessagesQuery {
    statuses: Vec<DlqStatus>,
    limit: u32,
    cursor: Option<String>,
}

impl FromQuery for MessagesQuery {
    const PARAMS: &'static [Param] = &[
        param("status", ParamKind::List, "Comma list of pending, retrying, recovered, escalated, abandoned."),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let statuses = given.list("status", "must be pending, retrying, recovered, escalated or abandoned")?;
        Ok(Self { statuses, limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn list(app: App, call: ApiCall<TenantReader, Tenant, MessagesQuery>) -> Result<Reply<DlqAnswer>> {
    own(&call.who, &call.path)?;
    let MessagesQuery { statuses, limit, cursor } = call.query;
    let filter = RunFilter {
        tenant: Some(call.path.clone()),
        states: statuses.into_iter().flat_map(DlqStatus::states).collect(),
        ..RunFilter::default()
    };
    let page = PageCall { sort: Sort::NewestFirst, limit, count: cursor.is_none(), cursor };
    let found = app.store.runs(&TenantScope::One(call.path), filter, page).await?;
    let messages = found.runs.into_iter().map(message).collect();
    Ok(Reply::ok(DlqAnswer { messages, next_cursor: found.next_cursor, total: found.total }))
}

fn message(run: RunSummary) -> DlqMessage {
    DlqMessage {
        id: run.run_id,
        tenant: run.tenant,
        status: DlqStatus::of(run.state),
        queue: run.queue.as_str().to_owned(),
        reason: run.reason,
        category: run.category,
        error: run.template,
        attempts: run.attempt,
        created_at: run.received_at,
        updated_at: run.updated_at,
        next_retry_at: run.next_attempt_at,
    }
}

/// The status of the message after the move.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DlqMoved {
    id: RunId,
    tenant: Tenant,
    status: DlqStatus,
}

type MoveCall = ApiCall<TenantReader, (Tenant, RunId), NoQuery, OptionalJson<TriageRequest>>;

pub(crate) async fn replay(app: App, call: MoveCall) -> Result<Reply<DlqMoved>> {
    act(&app, call, Triage::replay(false)).await
}

pub(crate) async fn abandon(app: App, call: MoveCall) -> Result<Reply<DlqMoved>> {
    act(&app, call, Triage::Discard).await
}

async fn act(app: &App, call: MoveCall, triage: Triage) -> Result<Reply<DlqMoved>> {
    let (tenant, run_id) = call.path;
    own(&call.who, &tenant)?;
    let TriageRequest { tenant: named, reason } = call.body.0;
    let at = call.who.run(&[Some(&tenant), named.as_ref()], run_id)?;
    let moved = app.store.triage(TriageAct { at, triage, actor: call.who.actor(), reason }).await?.answer;
    Ok(Reply::ok(DlqMoved { id: moved.run_id, tenant: moved.tenant, status: DlqStatus::of(moved.state) }))
}
