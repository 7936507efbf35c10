//! `GET /v1/runs/{run_id}/duplicates`: runs that look like the same work.

use redrive_core::ids::RunId;
use redrive_core::wire::DuplicatesAnswer;

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn get(app: App, call: Call<TenantReader, RunId, OfTenant>) -> Result<Reply<DuplicatesAnswer>> {
    let at = call.who.run(&[call.query.tenant.as_ref()], call.path)?;
    Ok(Reply::ok(app.store.duplicates(&at).await?))
}
