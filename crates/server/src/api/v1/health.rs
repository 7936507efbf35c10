//! `GET /v1/health`: what waits for a person or a worker.

use redrive_core::wire::HealthAnswer;

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn get(app: App, call: Call<TenantReader, (), OfTenant>) -> Result<Reply<HealthAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.health(&scope).await?))
}
