//! `POST /v1/runs/{run_id}/` `cancel resolve discard note`: what a person decides.

use redrive_core::ids::RunId;
use redrive_core::wire::{StateAnswer, TriageRequest};
use redrive_store::{Act, Triage};

use crate::app::App;
use crate::auth::TenantReader;
use crate::body::OptionalJson;
use crate::call::{Call, Reply};
use crate::problem::{Code, Problem, Result};
use crate::query::OfTenant;

type TriageCall = Call<TenantReader, RunId, OfTenant, OptionalJson<TriageRequest>>;

pub(crate) async fn cancel(app: App, call: TriageCall) -> Result<Reply<StateAnswer>> {
    act(&app, call, Triage::Cancel).await
}

pub(crate) async fn resolve(app: App, call: TriageCall) -> Result<Reply<StateAnswer>> {
    act(&app, call, Triage::Resolve).await
}

pub(crate) async fn discard(app: App, call: TriageCall) -> Result<Reply<StateAnswer>> {
    act(&app, call, Triage::Discard).await
}

/// A note without words would be none.
pub(crate) async fn note(app: App, call: TriageCall) -> Result<Reply<StateAnswer>> {
    if call.body.0.reason.as_ref().is_none_or(|reason| reason.decode().trim().is_empty()) {
        return Err(Problem::plain(Code::ReasonRequired));
    }
    act(&app, call, Triage::Note).await
}

async fn act(app: &App, call: TriageCall, triage: Triage) -> Result<Reply<StateAnswer>> {
    let TriageRequest { tenant, reason } = call.body.0;
    let at = call.who.run(&[call.query.tenant.as_ref(), tenant.as_ref()], call.path)?;
    let act = Act { at, triage, actor: call.who.actor(), reason };
    Ok(Reply::ok(app.store.triage(act).await?.answer))
}
