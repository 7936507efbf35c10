//! `/v1/queues`: operators read, admins set. The figures span all tenants.

use redrive_core::ids::QueueName;
use redrive_core::wire::{QueueSettings, QueueView, QueuesAnswer};

use crate::app::App;
use crate::auth::{Admin, Operator};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::problem::{HttpProblem, Result};
use crate::query::{CURSOR, FromQuery, LIMIT, NoQuery, Param, RawQuery};

pub(crate) struct QueuesQuery {
    pub(crate) limit: u32,
    pub(crate) cursor: Option<String>,
}

impl FromQuery for QueuesQuery {
    const PARAMS: &'static [Param] = &[LIMIT, CURSOR];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { limit: given.limit()?, cursor: given.take("cursor") })
    }
}

pub(crate) async fn list(app: App, call: ApiCall<Operator, (), QueuesQuery>) -> Result<Reply<QueuesAnswer>> {
    let QueuesQuery { limit, cursor } = call.query;
    Ok(Reply::ok(app.store.queues(limit, cursor).await?))
}

pub(crate) async fn show(app: App, call: ApiCall<Operator, QueueName>) -> Result<Reply<QueueView>> {
    Ok(Reply::ok(app.store.queue(&call.path).await?))
}

pub(crate) async fn put(
    app: App,
    call: ApiCall<Admin, QueueName, NoQuery, Json<QueueSettings>>,
) -> Result<Reply<QueueView>> {
    Ok(Reply::ok(set(&app, call.path, call.body.value).await?))
}

pub(crate) async fn set(app: &App, name: QueueName, settings: QueueSettings) -> Result<QueueView> {
    if let Err(bad) = settings.policy.check() {
        return Err(HttpProblem::invalid_field(
            &format!("policy.{}", bad.field),
            format_args!("must be {}", bad.must_be),
        ));
    }
    if settings.policy.limits.is_some() {
        return Err(HttpProblem::invalid_field("policy.limits", "belong to a tenant, its tier or the defaults"));
    }
    Ok(app.store.put_queue(name, settings).await?)
}
