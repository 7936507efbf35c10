//! `POST /api/v1/dlq/{tenant}/messages/{run_id}/` `replay abandon`.

use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::{DlqStatus, TriageRequest};
use redrive_store::{Act, Triage};
use schemars::JsonSchema;
use serde::Serialize;

use super::own;
use crate::app::App;
use crate::auth::TenantReader;
use crate::body::OptionalJson;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::NoQuery;

/// Where the message is now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DlqMoved {
    id: RunId,
    tenant: Tenant,
    status: DlqStatus,
}

type MoveCall = Call<TenantReader, (Tenant, RunId), NoQuery, OptionalJson<TriageRequest>>;

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
    let moved = app.store.triage(Act { at, triage, actor: call.who.actor(), reason }).await?.answer;
    Ok(Reply::ok(DlqMoved { id: moved.run_id, tenant: moved.tenant, status: DlqStatus::of(moved.state) }))
}
