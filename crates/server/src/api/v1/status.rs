//! `/v1/health`, `/v1/stats`, `/v1/changes` and `/v1/limits`.

use redrive_core::ids::Tenant;
use redrive_core::wire::{ChangesAnswer, HealthAnswer, LimitsAnswer, StatsAnswer};
use redrive_engine::StatsCall;

use crate::app::App;
use crate::auth::{AnyKey, TenantReader};
use crate::call::{ApiCall, Reply};
use crate::problem::{HttpProblem, Result};
use crate::query::{FromQuery, Param, ParamKind, RawQuery, TENANT, TenantQuery, param};

pub(crate) async fn health(app: App, call: ApiCall<TenantReader, (), TenantQuery>) -> Result<Reply<HealthAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.health(&scope).await?))
}

pub(crate) struct HourlyStatsQuery {
    tenant: Option<Tenant>,
    call: StatsCall,
}

impl FromQuery for HourlyStatsQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("queue", ParamKind::Id, "Only this queue."),
        param("since", ParamKind::Time, "From the hour of this time; RFC 3339."),
        param("until", ParamKind::Time, "Up to this time; RFC 3339."),
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let (since, until) =
            (given.one("since", "must be an RFC 3339 time")?, given.one("until", "must be an RFC 3339 time")?);
        if matches!((since, until), (Some(since), Some(until)) if since > until) {
            return Err(HttpProblem::invalid_parameter("since", "must not be after until"));
        }
        Ok(Self { tenant: given.id("tenant")?, call: StatsCall { queue: given.id("queue")?, since, until } })
    }
}

pub(crate) async fn stats(app: App, call: ApiCall<TenantReader, (), HourlyStatsQuery>) -> Result<Reply<StatsAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.stats(&scope, call.query.call).await?))
}

pub(crate) struct ChangesQuery {
    tenant: Option<Tenant>,
    since: Option<String>,
}

impl FromQuery for ChangesQuery {
    const PARAMS: &'static [Param] =
        &[TENANT, param("since", ParamKind::Cursor, "`next` of the previous answer; without it, from now on.")];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")?, since: given.take("since") })
    }
}

pub(crate) async fn changes(app: App, call: ApiCall<TenantReader, (), ChangesQuery>) -> Result<Reply<ChangesAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.changes(&scope, call.query.since).await?))
}

pub(crate) async fn limits(app: App, _: ApiCall<AnyKey>) -> Result<Reply<LimitsAnswer>> {
    Ok(Reply::ok(app.limits.answer()))
}
