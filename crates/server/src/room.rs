//! What the payload of an overflow weighs: a fact for the decision, looked at for this one reason only.

use std::sync::Arc;

use redrive_core::policy::Policy;
use redrive_core::reason::Reason;
use redrive_core::rewrite::{Room, measure};
use redrive_core::strategy::Failure;
use redrive_store::{PayloadKind, Report, RunRef, decode};

use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Problem, Result};
use crate::tasks::compute;

/// Of a failure in one call: its own payload, otherwise the one that was kept.
pub(crate) async fn of_report(app: &App, report: &mut Report) -> Result<()> {
    if report.failed.failure.reason != Reason::ContextOverflow {
        return Ok(());
    }
    let run = &report.run;
    if run.payload.kind != PayloadKind::Json {
        let at = RunRef { tenant: run.tenant.clone(), run_id: run.run_id.clone() };
        return of_run(app, &at, &mut report.failed.failure).await;
    }
    let policy = app.store.policy(&run.tenant, &run.queue).await?;
    let packed = run.payload.encoded.clone();
    let holder = Holder::Tenant(run.tenant.clone());
    let measured = compute(app, &holder, packed.len(), move || {
        let bytes = decode(&packed).map_err(|e| Problem::internal(&e.to_string()))?;
        Ok(std::str::from_utf8(&bytes).ok().and_then(|payload| measure(payload, &policy.payload)))
    });
    report.failed.failure.room = measured.await?;
    Ok(())
}

/// Of an attempt whose run is in the store.
pub(crate) async fn of_run(app: &App, at: &RunRef, failure: &mut Failure) -> Result<()> {
    if failure.reason != Reason::ContextOverflow {
        return Ok(());
    }
    // A run that is not there has nothing to weigh; whoever asked is told so by the store.
    let Ok(run) = app.store.run(at).await else { return Ok(()) };
    let Some(payload) = run.body.payload else { return Ok(()) };
    let policy = app.store.policy(&at.tenant, &run.summary.queue).await?;
    failure.room = weighed(app, at, payload.get().to_owned(), policy).await?;
    Ok(())
}

async fn weighed(app: &App, at: &RunRef, payload: String, policy: Arc<Policy>) -> Result<Option<Room>> {
    let holder = Holder::Tenant(at.tenant.clone());
    compute(app, &holder, payload.len(), move || Ok(measure(&payload, &policy.payload))).await
}
