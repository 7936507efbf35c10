//! Redaction by policy, between capture and store: free while no policy redacts.

use redrive_engine::{FailedAttempt, NewFailure, NewStep, Reconcile, RunRef, Start, Success};

use crate::app::App;
use crate::budget::Holder;
use crate::capture::redaction;
use crate::problem::Result;
use crate::tasks::compute;

pub(crate) async fn report(app: &App, mut report: NewFailure) -> Result<NewFailure> {
    let Some(by) = app.store.redaction(&report.run.tenant, &report.run.queue).await? else { return Ok(report) };
    let (holder, bytes) = (Holder::Tenant(report.run.tenant.clone()), report.run.payload.bytes());
    compute(app, &holder, bytes, move || {
        redaction::run(&mut report.run, &by)?;
        redaction::attempt(&mut report.failed.body, &by)?;
        redaction::steps(&mut report.failed.steps, &by)?;
        Ok(report)
    })
    .await
}

pub(crate) async fn start(app: &App, mut start: Start) -> Result<Start> {
    let Some(by) = app.store.redaction(&start.run.tenant, &start.run.queue).await? else { return Ok(start) };
    let (holder, bytes) = (Holder::Tenant(start.run.tenant.clone()), start.run.payload.bytes());
    compute(app, &holder, bytes, move || {
        redaction::run(&mut start.run, &by)?;
        Ok(start)
    })
    .await
}

pub(crate) async fn failed(app: &App, at: &RunRef, mut failed: FailedAttempt) -> Result<FailedAttempt> {
    let Some(by) = app.store.redaction_of(at).await? else { return Ok(failed) };
    compute(app, &Holder::Tenant(at.tenant.clone()), failed.body.len(), move || {
        redaction::attempt(&mut failed.body, &by)?;
        redaction::steps(&mut failed.steps, &by)?;
        Ok(failed)
    })
    .await
}

pub(crate) async fn success(app: &App, mut success: Success) -> Result<Success> {
    let Some(by) = app.store.redaction_of(&success.at).await? else { return Ok(success) };
    compute(app, &Holder::Tenant(success.at.tenant.clone()), success.body.len(), move || {
        redaction::attempt(&mut success.body, &by)?;
        redaction::steps(&mut success.steps, &by)?;
        Ok(success)
    })
    .await
}

pub(crate) async fn step(app: &App, at: &RunRef, step: NewStep) -> Result<NewStep> {
    let Some(by) = app.store.redaction_of(at).await? else { return Ok(step) };
    let mut steps = [step];
    redaction::steps(&mut steps, &by)?;
    let [step] = steps;
    Ok(step)
}

/// The ledger entry names its run only where the caller does; otherwise the tenant's default queue decides.
pub(crate) async fn reconciled(app: &App, mut act: Reconcile) -> Result<Reconcile> {
    let by = match &act.at.run_id {
        Some(run_id) => {
            let at = RunRef { tenant: act.at.tenant.clone(), run_id: run_id.clone() };
            app.store.redaction_of(&at).await?
        }
        None => app.store.redaction(&act.at.tenant, &redrive_core::ids::QueueName::default_queue()).await?,
    };
    if let Some(by) = by {
        redaction::reconciled(&mut act, &by)?;
    }
    Ok(act)
}
