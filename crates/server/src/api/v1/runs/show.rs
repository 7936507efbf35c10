//! `GET /v1/runs/{run_id}`: everything kept of a run.

use redrive_core::ids::RunId;
use redrive_core::wire::{RunBody, RunDetail};
use redrive_store::RunRef;

use crate::app::App;
use crate::auth::AnyKey;
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::OfTenant;

pub(crate) async fn get(app: App, call: Call<AnyKey, RunId, OfTenant>) -> Result<Reply<RunDetail>> {
    let at = call.who.run(&[call.query.tenant.as_ref()], call.path)?;
    call.who.may_read(app.store.as_ref(), &at).await?;
    Ok(Reply::ok(read(&app, &at).await?))
}

/// With what the rules say about it.
pub(crate) async fn read(app: &App, at: &RunRef) -> Result<RunDetail> {
    let mut run = app.store.run(at).await?;
    add_guidance(app, &mut run.body);
    Ok(run)
}

/// The attempt keeps which rule matched; what that rule says is read from the configuration as it is now.
fn add_guidance(app: &App, run: &mut RunBody) {
    let Some(verdict) = &run.verdict else { return };
    let Some(rule) = app.rules.as_ref().and_then(|rules| rules.by_name(&verdict.rule)) else { return };
    let said: Vec<String> = rule.instructions.clone().into_iter().chain(run.instructions.take()).collect();
    run.instructions = (!said.is_empty()).then(|| said.join("\n\n"));
    run.runbook = rule.runbook.clone().or_else(|| run.runbook.take());
}
