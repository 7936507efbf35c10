//! `GET /v1/audit`: who did what. Operators see everything; a tenant sees the entries about itself, without their place in
//! the chain, which would tell of other tenants.

use redrive_core::ids::{RunId, Tenant};
use redrive_core::wire::{AuditAnswer, Role};
use redrive_engine::{AuditCall, AuditFilter, TenantScope};

use crate::app::App;
use crate::auth::{Principal, TenantReader};
use crate::call::{ApiCall, Reply};
use crate::problem::{HttpProblem, Result};
use crate::query::{CURSOR, FromQuery, LIMIT, Param, ParamKind, RawQuery, TENANT, param};

pub(crate) struct AuditListQuery {
    pub(crate) tenant: Option<Tenant>,
    pub(crate) filter: AuditFilter,
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for AuditListQuery {
    const PARAMS: &'static [Param] = &[
        param("since", ParamKind::Time, "From this time on; RFC 3339."),
        param("until", ParamKind::Time, "Up to this time; RFC 3339."),
        param("actor", ParamKind::Name, "Only acts of this actor."),
        param("action", ParamKind::Id, "Only this action, such as `run.replay`."),
        TENANT,
        param("run", ParamKind::Id, "Only acts on this run."),
        param("operation", ParamKind::Id, "Only this bulk operation and its items."),
        LIMIT,
        CURSOR,
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        let (since, until) =
            (given.one("since", "must be an RFC 3339 time")?, given.one("until", "must be an RFC 3339 time")?);
        if matches!((since, until), (Some(since), Some(until)) if since > until) {
            return Err(HttpProblem::invalid_parameter("since", "must not be after until"));
        }
        let actor = given.take("actor");
        if actor.as_ref().is_some_and(|actor| actor.contains('\0')) {
            return Err(HttpProblem::invalid_parameter("actor", "must not contain NUL"));
        }
        let mut id = |name| Ok::<_, HttpProblem>(given.id::<RunId>(name)?.map(|id| id.as_str().to_owned()));
        let (action, run, operation) = (id("action")?, id("run")?, id("operation")?);
        let filter = AuditFilter { since, until, actor, action, run, operation };
        Ok(Self { tenant: given.id("tenant")?, filter, limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn list(app: App, call: ApiCall<TenantReader, (), AuditListQuery>) -> Result<Reply<AuditAnswer>> {
    Ok(Reply::ok(list_as(&app, &call.who, call.query).await?))
}

pub(crate) async fn list_as(app: &App, who: &Principal, query: AuditListQuery) -> Result<AuditAnswer> {
    let AuditListQuery { tenant, filter, limit, cursor } = query;
    let (scope, shows_chain) = match who.role() {
        Role::Operator | Role::Admin => (who.scope(tenant.as_ref())?, true),
        Role::Worker | Role::Tenant => (TenantScope::One(who.tenant(&[tenant.as_ref()])?), false),
    };
    Ok(app.store.audit(&scope, AuditCall { filter, limit, cursor, shows_chain }).await?)
}
