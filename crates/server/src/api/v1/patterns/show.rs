//! `GET /v1/patterns/{id}`: a pattern, its failures by the hour, what people did about it.

use redrive_core::wire::PatternDetail;

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::path::Named;
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn get(app: App, call: Call<TenantReader, Named, OfTenant>) -> Result<Reply<PatternDetail>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.pattern(&scope, &call.path.0).await?))
}
