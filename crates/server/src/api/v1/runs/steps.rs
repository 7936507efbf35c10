//! `POST /v1/runs/{run_id}/steps`: a piece of the attempt, recorded before and after it is done.

use redrive_core::ids::RunId;
use redrive_core::wire::{StepRequest, StepView};

use super::under_lease::under_lease;
use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture::new_step;
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn post(app: App, call: Call<Worker, RunId, OfTenant, Json<StepRequest>>) -> Result<Reply<StepView>> {
    let request = call.body.value;
    let under = under_lease(&call.who, &call.query, request.tenant.as_ref(), call.path, &request.lease)?;
    let step = new_step(request.into(), "")?;
    Ok(Reply::ok(app.store.step(under, step).await?))
}
