//! `POST /v1/effects/{key}/reconcile`: a person says what became of an effect in doubt.

use redrive_core::ids::StepKey;
use redrive_core::text::Text;
use redrive_core::wire::{EffectOutcome, EffectView, RawJson, ReconcileRequest};
use redrive_store::{EffectRef, Reconcile};

use super::show::OfRun;
use crate::app::App;
use crate::auth::{Identity, TenantReader};
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture::kept_output;
use crate::problem::{Problem, Result};

pub(crate) async fn post(
    app: App,
    call: Call<TenantReader, StepKey, OfRun, Json<ReconcileRequest>>,
) -> Result<Reply<EffectView>> {
    let ReconcileRequest { tenant, outcome, output, reason } = call.body.value;
    let at = call.query.named(&call.who, tenant.as_ref(), call.path)?;
    Ok(Reply::ok(reconcile_as(&app, &call.who, at, outcome, output, reason).await?))
}

pub(crate) async fn reconcile_as(
    app: &App,
    who: &Identity,
    at: EffectRef,
    outcome: EffectOutcome,
    output: Option<RawJson>,
    reason: Option<Text>,
) -> Result<EffectView> {
    // What never happened gave nothing; an explicit null says no more than absence.
    if outcome == EffectOutcome::NotDone && output.as_ref().is_some_and(|raw| raw.get() != "null") {
        return Err(Problem::invalid_field("output", "goes with committed"));
    }
    let (output, output_omitted) = kept_output(output.as_ref().filter(|_| outcome == EffectOutcome::Committed));
    let act = Reconcile { at, outcome, output, output_omitted, actor: who.actor(), reason };
    Ok(app.store.reconcile(act).await?)
}
