//! `GET·POST /v1/runs/{run_id}/plan`: what a replay would do, before anybody does it. With a body it takes what a
//! replay takes, so that a fix has its plan too.

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::text::Label;
use redrive_core::wire::{PlanAnswer, ReplayRequest};
use redrive_store::RunRef;

use super::replay::prepared;
use crate::app::App;
use crate::auth::TenantReader;
use crate::body::HeldJson;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{FromQuery, Given, Kind, OfTenant, Param, TENANT, param};

pub(crate) struct PlanQuery {
    tenant: Option<Tenant>,
    model: Option<Label>,
    agent: Option<Label>,
    queue: Option<QueueName>,
    from_step: Option<Label>,
}

impl FromQuery for PlanQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param("model", Kind::Name, "With another model."),
        param("agent", Kind::Name, "With another agent."),
        param("queue", Kind::Id, "In another queue."),
        param("from_step", Kind::Name, "From a recorded step on, by its key or name."),
    ];

    fn read(given: &mut Given) -> Result<Self> {
        let mut label = |name: &str| given.take(name).map(|text| Label::from(text.as_str()));
        let (model, agent, from_step) = (label("model"), label("agent"), label("from_step"));
        Ok(Self { tenant: given.id("tenant")?, queue: given.id("queue")?, model, agent, from_step })
    }
}

pub(crate) async fn get(app: App, call: Call<TenantReader, RunId, PlanQuery>) -> Result<Reply<PlanAnswer>> {
    let PlanQuery { tenant, model, agent, queue, from_step } = call.query;
    let at = call.who.run(&[tenant.as_ref()], call.path)?;
    let request = ReplayRequest { model, agent, queue, from_step, ..ReplayRequest::default() };
    plan(&app, &at, request, 0).await
}

pub(crate) async fn post(
    app: App,
    call: Call<TenantReader, RunId, OfTenant, HeldJson<ReplayRequest>>,
) -> Result<Reply<PlanAnswer>> {
    let HeldJson { value: request, bytes, held: _held } = call.body;
    let at = call.who.run(&[call.query.tenant.as_ref(), request.tenant.as_ref()], call.path)?;
    plan(&app, &at, request, bytes).await
}

async fn plan(app: &App, at: &RunRef, request: ReplayRequest, bytes: usize) -> Result<Reply<PlanAnswer>> {
    let replay = prepared(app, at, request, bytes).await?;
    Ok(Reply::large(app.store.plan(at, replay).await?))
}
