//! `POST /v1/runs/{run_id}/succeed`: the attempt is done; without a lease where the caller retries by itself.

use bytes::Bytes;
use redrive_core::ids::RunId;
use redrive_core::wire::{SucceedAnswer, SucceedRequest};
use redrive_store::{AttemptBody, RunRef, Success};

use super::under_lease::token;
use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture::{attempt_in_range, digest, encoded, new_steps};
use crate::problem::Result;
use crate::query::OfTenant;
use crate::tasks::compute;

pub(crate) async fn post(
    app: App,
    call: Call<Worker, RunId, OfTenant, Json<SucceedRequest>>,
) -> Result<Reply<SucceedAnswer>> {
    let Json { value, raw, held: _held } = call.body;
    let at = call.who.run(&[call.query.tenant.as_ref(), value.tenant.as_ref()], call.path)?;
    let success = compute(raw.len(), move || success(at, value, &raw)).await?;
    Ok(Reply::ok(app.store.succeed(success).await?))
}

fn success(at: RunRef, request: SucceedRequest, raw: &Bytes) -> Result<Success> {
    attempt_in_range(request.attempt)?;
    let lease = request.lease.as_deref().map(token).transpose()?;
    let body = AttemptBody {
        output: request.output,
        finish_reason: request.finish_reason,
        usage: request.usage,
        ..AttemptBody::default()
    };
    Ok(Success {
        at,
        lease,
        attempt: request.attempt,
        digest: digest(raw),
        body: encoded(&body)?,
        steps: new_steps(request.steps)?,
    })
}
