//! `POST /v1/runs/{run_id}/fail`: the attempt under way has failed.

use redrive_core::ids::RunId;
use redrive_core::wire::{FailRequest, FailureAnswer};
use redrive_store::DetailCall;

use super::under_lease::under_lease;
use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture::{self, Context};
use crate::problem::Result;
use crate::query::OfTenant;
use crate::room;
use crate::tasks::compute;

pub(crate) async fn post(
    app: App,
    call: Call<Worker, RunId, OfTenant, Json<FailRequest>>,
) -> Result<Reply<FailureAnswer>> {
    let Json { value, raw, held: _held } = call.body;
    let under = under_lease(&call.who, &call.query, value.tenant.as_ref(), call.path, &value.lease)?;
    let (to, tenant, holder) = (app.clone(), under.at.tenant.clone(), call.who.holder());
    // Only rules ask what else is known of the run.
    let little = DetailCall { limit: 1, ..DetailCall::default() };
    let run = if app.rules.is_some() { app.store.run_pages(&under.at, little).await.ok() } else { None };
    let failed = compute(&app, &holder, raw.len(), move || {
        let context = run.as_ref().map_or_else(|| Context::of_tenant(&tenant), Context::of_run);
        capture::failed_by(value, &raw, to.judges(), &context, to.store.now())
    });
    let mut failed = failed.await?;
    failed.by = call.who.mark();
    room::of_run(&app, &under.at, &mut failed.failure).await?;
    Ok(Reply::ok(app.store.fail(under, failed).await?))
}
