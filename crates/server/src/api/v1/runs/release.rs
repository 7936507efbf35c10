//! `POST /v1/runs/{run_id}/release`: the lease goes back, and no try is spent.

use redrive_core::ids::RunId;
use redrive_core::wire::{ReleaseRequest, StateAnswer};

use super::under_lease::under_lease;
use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn post(
    app: App,
    call: Call<Worker, RunId, OfTenant, Json<ReleaseRequest>>,
) -> Result<Reply<StateAnswer>> {
    let request = call.body.value;
    let under = under_lease(&call.who, &call.query, request.tenant.as_ref(), call.path, &request.lease)?;
    Ok(Reply::ok(app.store.release(under).await?))
}
