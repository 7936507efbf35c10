//! `GET /v1/runs/{run_id}`: everything kept of a run.

use redrive_core::ids::RunId;
use redrive_core::wire::RunDetail;

use crate::app::App;
use crate::auth::AnyKey;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn get(app: App, call: Call<AnyKey, RunId, OfTenant>) -> Result<Reply<RunDetail>> {
    let at = call.who.run(&[call.query.tenant.as_ref()], call.path)?;
    Ok(Reply::ok(app.store.run(&at).await?))
}
