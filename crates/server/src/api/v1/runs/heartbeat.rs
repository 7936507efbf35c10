//! `POST /v1/runs/{run_id}/heartbeat`: the worker is still at it.

use redrive_core::ids::RunId;
use redrive_core::wire::{HeartbeatAnswer, HeartbeatRequest};

use super::under_lease::under_lease;
use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn post(
    app: App,
    call: Call<Worker, RunId, OfTenant, Json<HeartbeatRequest>>,
) -> Result<Reply<HeartbeatAnswer>> {
    let request = call.body.value;
    let under = under_lease(&call.who, &call.query, request.tenant.as_ref(), call.path, &request.lease)?;
    Ok(Reply::ok(HeartbeatAnswer { lease_expires_at: app.store.heartbeat(under).await? }))
}
