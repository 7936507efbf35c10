//! `POST /v1/runs`: begin a run now under a lease, or leave it for whoever leases its queue.

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::Policy;
use redrive_core::text::Label;
use redrive_core::wire::{Mode, PreflightBrief, StartAnswer, StartRequest};
use redrive_store::{Fit, Start};

use crate::app::App;
use crate::auth::Worker;
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture;
use crate::prepare;
use crate::problem::{Code, Problem, Result};
use crate::query::OfTenant;
use crate::tasks::compute;

pub(crate) async fn post(app: App, call: Call<Worker, (), OfTenant, Json<StartRequest>>) -> Result<Reply<StartAnswer>> {
    // A start is a lease, and a server that stops gives none; enqueued work is kept.
    if app.is_stopping() && call.body.value.mode == Mode::Start {
        return Err(Problem::plain(Code::Closing).retry_after_s(1));
    }
    let (who, query) = (call.who, call.query);
    let Json { value, raw, held: _held } = call.body;
    let tenant = who.tenant(&[query.tenant.as_ref(), value.tenant.as_ref()])?;
    let queue = value.queue.clone().unwrap_or_else(QueueName::default_queue);
    let policy = app.store.policy(&tenant, &queue).await?;
    let (mut start, preflight) = compute(&app, &who.holder(), raw.len(), move || start(tenant, value, &policy)).await?;
    start.run.by = who.mark();
    let started = app.store.start(start).await?;
    let created = started.created;
    let mut answer = prepare::started(&app, started).await;
    // Of a run that was there before its own attempts tell more.
    answer.preflight = preflight.filter(|_| created);
    Ok(Reply::new(answer, created))
}

fn start(tenant: Tenant, request: StartRequest, policy: &Policy) -> Result<(Start, Option<PreflightBrief>)> {
    let (fit, found) = match &request.payload {
        Some(payload) => prepare::fit(payload.get(), request.model.as_ref().map(Label::as_str), policy),
        None => (Fit::AsItIs, None),
    };
    Ok((Start { fit, ..capture::start(request, tenant)? }, found))
}
