//! `GET·POST /v1/breakers` and `GET·POST /v1/tenants/{tenant}/breaker`.

use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::wire::{BreakerAction, BreakerRequest, BreakerView, BreakersAnswer, TenantBreaker};
use redrive_store::BreakerAct;

use crate::app::App;
use crate::auth::{Identity, Operator, TenantReader};
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::problem::{Code, Problem, Result};
use crate::query::{NoQuery, OfTenant};

const ENVIRONMENT_DEFAULT: &str = "production";

/// Those that are not closed, and those that have seen failures lately. A tenant sees its own, and everybody's that hold
/// its runs.
pub(crate) async fn list(app: App, call: Call<TenantReader, (), OfTenant>) -> Result<Reply<BreakersAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.breakers(&scope).await?))
}

/// Another tenant is not found, whether it exists or not.
pub(crate) async fn show(app: App, call: Call<TenantReader, Tenant, NoQuery>) -> Result<Reply<TenantBreaker>> {
    if call.who.own_tenant().is_some_and(|own| *own != call.path) {
        return Err(redrive_store::Error::NotFound("tenant").into());
    }
    Ok(Reply::ok(app.store.tenant_breaker(&call.path).await?))
}

/// Opening holds retries and replays until somebody closes it, or until a time.
pub(crate) async fn operate(
    app: App,
    call: Call<Operator, Tenant, NoQuery, Json<BreakerRequest>>,
) -> Result<Reply<BreakerView>> {
    let Call { who, path: tenant, body, .. } = call;
    Ok(Reply::ok(operate_as(&app, &who, Some(tenant), body.into_value()).await?))
}

/// Everybody's breaker for a provider and model: an outage that one person knows of stops all tenants' retries there.
pub(crate) async fn operate_shared(
    app: App,
    call: Call<Operator, (), NoQuery, Json<BreakerRequest>>,
) -> Result<Reply<BreakerView>> {
    let Call { who, body, .. } = call;
    let request = body.into_value();
    if request.provider.is_none() && request.model.is_none() {
        return Err(Problem::invalid_field("provider", "is needed, or model: a tenant's own breaker is its own"));
    }
    Ok(Reply::ok(operate_as(&app, &who, None, request).await?))
}

/// Without a tenant: everybody's.
pub(crate) async fn operate_as(
    app: &App,
    who: &Identity,
    tenant: Option<Tenant>,
    request: BreakerRequest,
) -> Result<BreakerView> {
    let BreakerRequest { action, reason, until, environment, provider, model } = request;
    if reason.decode().trim().is_empty() {
        return Err(Problem::plain(Code::ReasonRequired));
    }
    match until {
        Some(_) if action != BreakerAction::Open => return Err(Problem::invalid_field("until", "goes with open")),
        Some(until) if until <= app.store.now() => {
            return Err(Problem::invalid_field("until", "must be in the future"));
        }
        Some(_) | None => {}
    }
    let environment = environment.unwrap_or_else(|| Label::from(ENVIRONMENT_DEFAULT));
    let (actor, reason) = (who.actor(), Some(reason));
    let act = BreakerAct { tenant, environment, provider, model, action, until, actor, reason };
    Ok(app.store.operate_breaker(act).await?)
}
