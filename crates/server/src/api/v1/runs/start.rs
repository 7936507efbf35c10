//! `POST /v1/runs`: begin a run now under a lease, or leave it for whoever leases its queue.

use redrive_core::policy::PolicyLayer;
use redrive_core::wire::{Mode, StartAnswer, StartRequest};
use redrive_store::{Start, StartHow, Started};

use crate::app::App;
use crate::auth::{Identity, Worker};
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture::new_run;
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

fn start(who: &Identity, query: &OfTenant, mut request: StartRequest) -> Result<Start> {
    let tenant = who.tenant(&[query.tenant.as_ref(), request.tenant.as_ref()])?;
    clocks_in_range(&request)?;
    let versions = request.versions.clone();
    let run = new_run(request.take_run_fields(), tenant)?;
    let how = match request.mode {
        Mode::Start if request.due_at.is_some() => {
            return Err(Problem::invalid_field("due_at", "goes with the mode enqueue: a start begins now"));
        }
        Mode::Start => StartHow::Start { start_id: request.start_id, lease_ms: request.lease_ms },
        Mode::Enqueue => StartHow::Enqueue { due_at: request.due_at },
    };
    Ok(Start { run, how, versions, idle_ms: request.idle_ms, deadline_ms: request.deadline_ms })
}

fn clocks_in_range(request: &StartRequest) -> Result<()> {
    let StartRequest { lease_ms, idle_ms, deadline_ms, .. } = *request;
    let asked = PolicyLayer { lease_ms, idle_ms, deadline_ms, ..PolicyLayer::default() };
    asked.check().map_err(|bad| Problem::invalid_field(bad.field, format_args!("must be {}", bad.must_be)))
}
