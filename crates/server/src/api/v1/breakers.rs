//! `GET·POST /v1/breakers` and `GET·POST /v1/tenants/{tenant}/breaker`.

use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::wire::{BreakerAction, BreakerRequest, BreakerView, BreakersAnswer, TenantBreaker};
use redrive_engine::BreakerAct;

use crate::app::App;
use crate::auth::{Operator, Principal, TenantReader};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{NoQuery, TenantQuery};

const ENVIRONMENT_DEFAULT: &str = "production";

/// Breakers that are not closed or have seen failures lately. A tenant sees its own, and shared ones that hold its runs.
pub(crate) async fn list(app: App, call: ApiCall<TenantReader, (), TenantQuery>) -> Result<Reply<BreakersAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.breakers(&scope).await?))
}

/// Another tenant is not found, whether it exists or not.
pub(crate) async fn show(app: App, call: ApiCall<TenantReader, Tenant, NoQuery>) -> Result<Reply<TenantBreaker>> {
    if call.who.own_tenant().is_some_and(|own| *own != call.path) {
        return Err(redrive_engine::Error::NotFound("tenant").into());
    }
    Ok(Reply::ok(app.store.tenant_breaker(&call.path).await?))
}

/// An open breaker holds retries and replays until a time, or until it is closed.
pub(crate) async fn operate(
    app: App,
    call: ApiCall<Operator, Tenant, NoQuery, Json<BreakerRequest>>,
) -> Result<Reply<BreakerView>> {
    let ApiCall { who, path: tenant, body, .. } = call;
    Ok(Reply::ok(operate_as(&app, &who, Some(tenant), body.into_value()).await?))
}

/// Operates the breaker of a provider and model that all tenants share.
pub(crate) async fn operate_shared(
    app: App,
    call: ApiCall<Operator, (), NoQuery, Json<BreakerRequest>>,
) -> Result<Reply<BreakerView>> {
    let ApiCall { who, body, .. } = call;
    let request = body.into_value();
    if request.provider.is_none() && request.model.is_none() {
        return Err(HttpProblem::invalid_field("provider", "or `model` is required for a shared breaker"));
    }
    Ok(Reply::ok(operate_as(&app, &who, None, request).await?))
}

/// Without a tenant: the shared breaker.
pub(crate) async fn operate_as(
    app: &App,
    who: &Principal,
    tenant: Option<Tenant>,
    request: BreakerRequest,
) -> Result<BreakerView> {
    let BreakerRequest { action, reason, until, environment, provider, model } = request;
    if reason.decode().trim().is_empty() {
        return Err(HttpProblem::plain(Code::ReasonRequired));
    }
    match until {
        Some(_) if action != BreakerAction::Open => {
            return Err(HttpProblem::invalid_field("until", "applies only to open"));
        }
        Some(until) if until <= app.store.now() => {
            return Err(HttpProblem::invalid_field("until", "must be in the future"));
        }
        Some(_) | None => {}
    }
    let environment = environment.unwrap_or_else(|| Label::from(ENVIRONMENT_DEFAULT));
    let (actor, reason) = (who.actor(), Some(reason));
    let act = BreakerAct { tenant, environment, provider, model, action, until, actor, reason };
    Ok(app.store.operate_breaker(act).await?)
}
