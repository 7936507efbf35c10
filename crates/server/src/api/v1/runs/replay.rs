//! `POST /v1/runs/{run_id}/replay`: another attempt, on a person's word.

use redrive_core::ids::RunId;
use redrive_core::wire::{ReplayAnswer, ReplayRequest};
use redrive_store::{Act, Triage, Triaged};

use crate::app::App;
use crate::auth::TenantReader;
use crate::body::OptionalJson;
use crate::call::{Call, Reply};
use crate::problem::{Code, Problem, Result};
use crate::query::OfTenant;

pub(crate) async fn post(
    app: App,
    call: Call<TenantReader, RunId, OfTenant, OptionalJson<ReplayRequest>>,
) -> Result<Reply<ReplayAnswer>> {
    let ReplayRequest { tenant, reason, force } = call.body.0;
    if force && !call.who.may_force() {
        return Err(Problem::new(Code::Forbidden, "only an operator may force"));
    }
    if force && reason.as_ref().is_none_or(|reason| reason.decode().trim().is_empty()) {
        return Err(Problem::plain(Code::ReasonRequired));
    }
    let at = call.who.run(&[call.query.tenant.as_ref(), tenant.as_ref()], call.path)?;
    let act = Act { at, triage: Triage::Replay { force }, actor: call.who.actor(), reason };
    let Triaged { answer, attempt, revision } = app.store.triage(act).await?;
    let (run_id, tenant, state) = (answer.run_id, answer.tenant, answer.state);
    Ok(Reply::ok(ReplayAnswer { run_id, tenant, state, attempt, revision }))
}
