//! `/v1/effects/{key}`: entries of the effect ledger, read and reconciled.

use redrive_core::ids::{RunId, StepKey, Tenant};
use redrive_core::text::Text;
use redrive_core::wire::{EffectOutcome, EffectView, RawJson, ReconcileRequest};
use redrive_engine::{EffectRef, Reconcile, RunRef};

use crate::app::App;
use crate::auth::{AnyKey, Principal, TenantReader};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::capture::kept_output;
use crate::problem::{HttpProblem, Result};
use crate::query::{FromQuery, Param, ParamKind, RawQuery, TENANT, param};

/// The effect's tenant, and its run if the key alone is ambiguous.
#[derive(Debug)]
pub(crate) struct EffectQuery {
    tenant: Option<Tenant>,
    run_id: Option<RunId>,
}

impl FromQuery for EffectQuery {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param(
            "run_id",
            ParamKind::Id,
            "Of which run; needed for what is unique within its run only: plain steps, and effects without a key of their own.",
        ),
    ];

    fn read(given: &mut RawQuery) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")?, run_id: given.id("run_id")? })
    }
}

impl EffectQuery {
    fn named(self, who: &Principal, in_body: Option<&Tenant>, key: StepKey) -> Result<EffectRef> {
        let tenant = who.tenant(&[self.tenant.as_ref(), in_body])?;
        Ok(EffectRef { tenant, key, run_id: self.run_id })
    }
}

pub(crate) async fn show(app: App, call: ApiCall<AnyKey, StepKey, EffectQuery>) -> Result<Reply<EffectView>> {
    let at = call.query.named(&call.who, None, call.path)?;
    let effect = app.store.effect(&at).await?;
    let run = RunRef { tenant: effect.tenant.clone(), run_id: effect.run_id.clone() };
    let absent = |_| redrive_engine::Error::NotFound("effect");
    call.who.may_read(app.store.as_ref(), &run).await.map_err(absent)?;
    Ok(Reply::ok(effect))
}

pub(crate) async fn reconcile(
    app: App,
    call: ApiCall<TenantReader, StepKey, EffectQuery, Json<ReconcileRequest>>,
) -> Result<Reply<EffectView>> {
    let ReconcileRequest { tenant, outcome, output, reason } = call.body.value;
    let at = call.query.named(&call.who, tenant.as_ref(), call.path)?;
    Ok(Reply::ok(reconcile_as(&app, &call.who, at, outcome, output, reason).await?))
}

pub(crate) async fn reconcile_as(
    app: &App,
    who: &Principal,
    at: EffectRef,
    outcome: EffectOutcome,
    output: Option<RawJson>,
    reason: Option<Text>,
) -> Result<EffectView> {
    // An effect that did not happen has no output; an explicit null counts as none.
    if outcome == EffectOutcome::NotDone && output.as_ref().is_some_and(|raw| raw.get() != "null") {
        return Err(HttpProblem::invalid_field("output", "applies only to committed"));
    }
    let (output, output_omitted) = kept_output(output.as_ref().filter(|_| outcome == EffectOutcome::Committed));
    let act = Reconcile { at, outcome, output, output_omitted, actor: who.actor(), reason };
    Ok(app.store.reconcile(act).await?)
}
