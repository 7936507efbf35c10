//! `GET /v1/effects/{key}`: one entry of the ledger.

use redrive_core::ids::{RunId, StepKey, Tenant};
use redrive_core::wire::EffectView;
use redrive_store::{EffectRef, RunRef};

use crate::app::App;
use crate::auth::{AnyKey, Identity};
use crate::call::{Call, Reply};
use crate::problem::Result;
use crate::query::{FromQuery, Given, Kind, Param, TENANT, param};

/// Whose effect, and of which run where the key alone does not tell.
#[derive(Debug)]
pub(crate) struct OfRun {
    tenant: Option<Tenant>,
    run_id: Option<RunId>,
}

impl FromQuery for OfRun {
    const PARAMS: &'static [Param] = &[
        TENANT,
        param(
            "run_id",
            Kind::Id,
            "Of which run; needed for what is unique within its run only: plain steps, and effects without a key of their own.",
        ),
    ];

    fn read(given: &mut Given) -> Result<Self> {
        Ok(Self { tenant: given.id("tenant")?, run_id: given.id("run_id")? })
    }
}

impl OfRun {
    pub(super) fn named(self, who: &Identity, in_body: Option<&Tenant>, key: StepKey) -> Result<EffectRef> {
        let tenant = who.tenant(&[self.tenant.as_ref(), in_body])?;
        Ok(EffectRef { tenant, key, run_id: self.run_id })
    }
}

pub(crate) async fn get(app: App, call: Call<AnyKey, StepKey, OfRun>) -> Result<Reply<EffectView>> {
    let at = call.query.named(&call.who, None, call.path)?;
    let effect = app.store.effect(&at).await?;
    let run = RunRef { tenant: effect.tenant.clone(), run_id: effect.run_id.clone() };
    let absent = |_| redrive_store::Error::NotFound("effect");
    call.who.may_read(app.store.as_ref(), &run).await.map_err(absent)?;
    Ok(Reply::ok(effect))
}
