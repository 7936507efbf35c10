//! `GET /v1/stats`: how it went, hour by hour.

use redrive_core::ids::Tenant;
use redrive_core::wire::StatsAnswer;
use redrive_store::StatsCall;

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::problem::{Problem, Result};
use crate::query::{FromQuery, Given, Kind, Param, TENANT, param};

pub(crate) struct StatsQuery {
    tenant: Option<Tenant>,
    call: StatsCall,
}

impl FromQuery for StatsQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("queue", Kind::Id, "Only this queue's."),
        param("since", Kind::Time, "From the hour of this time; RFC 3339."),
        param("until", Kind::Time, "Up to this time; RFC 3339."),
    ];

    fn read(given: &mut Given) -> Result<Self> {
        let (since, until) =
            (given.one("since", "must be an RFC 3339 time")?, given.one("until", "must be an RFC 3339 time")?);
        if matches!((since, until), (Some(since), Some(until)) if since > until) {
            return Err(Problem::invalid_parameter("since", "must not be after until"));
        }
        Ok(Self { tenant: given.id("tenant")?, call: StatsCall { queue: given.id("queue")?, since, until } })
    }
}

pub(crate) async fn get(app: App, call: Call<TenantReader, (), StatsQuery>) -> Result<Reply<StatsAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.stats(&scope, call.query.call).await?))
}
