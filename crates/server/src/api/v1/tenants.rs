//! `GET /v1/tenants` and `GET /v1/tenants/{tenant}/health`.

use redrive_core::ids::Tenant;
use redrive_core::wire::{TenantHealth, TenantView, TenantsAnswer};
use redrive_engine::TenantScope;

use crate::app::App;
use crate::auth::{Principal, TenantReader};
use crate::call::{ApiCall, Reply};
use crate::problem::Result;
use crate::query::{CURSOR, FromQuery, LIMIT, NoQuery, Param, RawQuery};

pub(crate) struct TenantsQuery {
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for TenantsQuery {
    const PARAMS: &'static [Param] = &[LIMIT, CURSOR];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { limit: given.limit()?, cursor: given.take("cursor") })
    }
}

/// A tenant's key sees its own tenant.
pub(crate) async fn list(app: App, call: ApiCall<TenantReader, (), TenantsQuery>) -> Result<Reply<TenantsAnswer>> {
    let TenantsQuery { limit, cursor } = call.query;
    Ok(Reply::ok(seen_by(&app, &call.who, limit, cursor).await?))
}

pub(crate) async fn seen_by(app: &App, who: &Principal, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer> {
    Ok(match who.scope(None)? {
        TenantScope::All => app.store.tenants(limit, cursor).await?,
        TenantScope::One(tenant) => TenantsAnswer { tenants: vec![view(app, tenant).await?], next_cursor: None },
    })
}

async fn view(app: &App, tenant: Tenant) -> Result<TenantView> {
    let counts = app.store.health(&TenantScope::One(tenant.clone())).await?;
    let last_failure_at = match app.store.tenant_health(&tenant).await {
        Ok(health) => health.last_failure_at,
        Err(redrive_engine::Error::NotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let (dead, scheduled, running) = (counts.dead, counts.scheduled, counts.running);
    Ok(TenantView { tenant, dead, scheduled, running, last_failure_at })
}

/// Another tenant is not found, whether it exists or not.
pub(crate) async fn health(app: App, call: ApiCall<TenantReader, Tenant, NoQuery>) -> Result<Reply<TenantHealth>> {
    if call.who.own_tenant().is_some_and(|own| *own != call.path) {
        return Err(redrive_engine::Error::NotFound("tenant").into());
    }
    Ok(Reply::ok(app.store.tenant_health(&call.path).await?))
}
