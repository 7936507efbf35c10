//! Preparing what the store handed out: leased runs, and starts.

use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::wire::{HandedChange, LeasedRun, RawJson, StartAnswer};
use redrive_store::{NewSent, RunRef, Started, UnderLease};

use super::rewritten::{Made, make};
use crate::app::App;
use crate::budget::Holder;
use crate::problem::{Problem, Result};
use crate::tasks::compute;

/// Makes the changes of leased runs. A run whose changes can't be made keeps its lease and its payload.
pub(crate) async fn leases(app: &App, mut runs: Vec<LeasedRun>) -> Vec<LeasedRun> {
    let mut made = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        let Some(payload) = run.payload.clone().filter(|_| !run.changes.is_empty()) else { continue };
        let of = Of { tenant: &run.tenant, run_id: &run.run_id, queue: &run.queue, lease: &run.lease };
        made.extend(of.prepared(app, payload, &run.changes).await.map(|prepared| (n, prepared)));
    }
    for (n, (payload, changes)) in kept(app, made).await {
        (runs[n].payload, runs[n].changes) = (Some(payload), changes);
    }
    runs
}

/// Makes the changes of a start. A payload that stays as the caller sent it is not sent back.
pub(crate) async fn started(app: &App, started: Started) -> StartAnswer {
    let Started { mut answer, queue, to_prepare, payload_differs, .. } = started;
    if !to_prepare {
        return answer;
    }
    let mut made = Vec::new();
    if let (Some(payload), Some(lease)) = (answer.payload.clone(), &answer.lease) {
        let of = Of { tenant: &answer.tenant, run_id: &answer.run_id, queue: &queue, lease };
        made.extend(of.prepared(app, payload, &answer.changes).await.map(|prepared| ((), prepared)));
    }
    match kept(app, made).await.pop() {
        Some(((), (payload, changes))) => (answer.payload, answer.changes) = (Some(payload), changes),
        None if !payload_differs => (answer.payload, answer.payload_base64) = (None, None),
        None => {}
    }
    answer
}

type Changed = (RawJson, Vec<HandedChange>);

/// Those whose payload is on disk: only they go out changed.
async fn kept<N>(app: &App, made: Vec<(N, (UnderLease, Made))>) -> Vec<(N, Changed)> {
    if made.is_empty() {
        return Vec::new();
    }
    let (mut going, mut keep) = (Vec::new(), Vec::new());
    for (n, (under, made)) in made {
        going.push((n, (made.payload, made.changes)));
        keep.push((under, made.keep));
    }
    let run_of = |(under, _): &(UnderLease, NewSent)| under.at.run_id.clone();
    let runs: Vec<RunId> = keep.iter().map(run_of).collect();
    let done = app.store.keep_sent(keep).await;
    going
        .into_iter()
        .zip(done.into_iter().zip(runs))
        .filter_map(|(going, (done, run))| match done {
            Ok(()) => Some(going),
            Err(error) => {
                tracing::warn!(run = run.as_str(), %error, "a changed payload was not kept; it goes out as it was");
                None
            }
        })
        .collect()
}

/// The attempt that is prepared.
struct Of<'a> {
    tenant: &'a Tenant,
    run_id: &'a RunId,
    queue: &'a QueueName,
    lease: &'a str,
}

impl Of<'_> {
    /// The changed payload, still to be kept; none when it goes out as it is.
    async fn prepared(&self, app: &App, payload: RawJson, changes: &[HandedChange]) -> Option<(UnderLease, Made)> {
        match self.try_prepared(app, payload, changes.to_vec()).await {
            Ok(made) => made,
            Err(problem) => {
                let (run, why) = (self.run_id.as_str(), problem.code.as_str());
                tracing::warn!(run, why, "a payload could not be changed; it goes out as it is");
                None
            }
        }
    }

    async fn try_prepared(
        &self,
        app: &App,
        payload: RawJson,
        changes: Vec<HandedChange>,
    ) -> Result<Option<(UnderLease, Made)>> {
        let policy = app.store.policy(self.tenant, self.queue).await?;
        let (bytes, holder) = (payload.get().len(), Holder::Tenant(self.tenant.clone()));
        let Some(made) = compute(app, &holder, bytes, move || make(payload.get(), &changes, &policy)).await? else {
            return Ok(None);
        };
        let lease = self.lease.parse().map_err(|_| Problem::internal("a lease that can't be read"))?;
        let at = RunRef { tenant: self.tenant.clone(), run_id: self.run_id.clone() };
        Ok(Some((UnderLease { at, lease }, made)))
    }
}
