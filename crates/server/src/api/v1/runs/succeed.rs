//! `POST /v1/runs/{run_id}/succeed`: the attempt is done; without a lease where the caller retries by itself.

use redrive_core::ids::RunId;
use redrive_core::wire::{SucceedAnswer, SucceedRequest};

use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture;
use crate::problem::Result;
use crate::query::OfTenant;
use crate::tasks::compute;

pub(crate) async fn post(
    app: App,
    call: Call<Worker, RunId, OfTenant, Json<SucceedRequest>>,
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
