//! `POST /v1/runs`: begin a run now under a lease, or leave it for whoever leases its queue.

use redrive_core::wire::{Mode, StartAnswer, StartRequest};
use redrive_store::{Start, Started};

use crate::app::App;
use crate::auth::{Identity, Worker};
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture;
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
    let start = compute(raw.len(), move || start(&who, &query, value)).await?;
    let Started { answer, created } = app.store.start(start).await?;
    Ok(Reply::new(answer, created))
}

fn start(who: &Identity, query: &OfTenant, request: StartRequest) -> Result<Start> {
    let tenant = who.tenant(&[query.tenant.as_ref(), request.tenant.as_ref()])?;
    capture::start(request, tenant)
}
