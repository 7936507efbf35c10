//! `GET /v1/changes?since=`: which runs moved since the last look.

use redrive_core::ids::Tenant;
use redrive_core::wire::ChangesAnswer;

use crate::app::App;
use crate::auth::TenantReader;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{FromQuery, Given, Kind, Param, TENANT, param};

pub(crate) struct ChangesQuery {
    tenant: Option<Tenant>,
    since: Option<String>,
}

impl FromQuery for ChangesQuery {
    const PARAMS: &'static [Param] =
        &[TENANT, param("since", Kind::Cursor, "`next` of the answer before; absent: from now on.")];

    fn read(given: &mut Given) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")?, since: given.take("since") })
    }
}

pub(crate) async fn get(app: App, call: Call<TenantReader, (), ChangesQuery>) -> Result<Reply<ChangesAnswer>> {
    let scope = call.who.scope(call.query.tenant.as_ref())?;
    Ok(Reply::ok(app.store.changes(&scope, call.query.since).await?))
}
