//! `GET /v1/patterns[/{id}]`: what failures have in common.

use redrive_core::wire::{PatternView, PatternsPage};

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::path::Named;
use crate::problem::Result;
use crate::query::{OfTenant, Paged};

pub(crate) async fn list(app: App, call: Call<TenantReader, (), Paged>) -> Result<Reply<PatternsPage>> {
    let Paged { tenant, limit, cursor } = call.query;
    let scope = call.who.scope(tenant.as_ref())?;
    Ok(Reply::ok(app.store.patterns(&scope, limit, cursor).await?))
}

pub(crate) async fn show(app: App, call: Call<TenantReader, Named, OfTenant>) -> Result<Reply<PatternView>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.pattern(&scope, &call.path.0).await?))
}
