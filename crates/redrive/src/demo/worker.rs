//! One attempt in an agent's hands, and the workers that take up what is to be tried again.

use std::sync::Arc;

use redrive_client::RunHandle;
use redrive_core::ids::Tenant;
use redrive_core::run::StateName;
use redrive_core::wire::{LeaseRequest, LeasedRun, Severity, StepStatus};

use super::cast::{AGENTS, Agent, TENANTS};
use super::causes::{CAUSES, Cause, Shape};
use super::fleet::{Plan, Work};
use super::live::{LEASE_MS, Yard};

const LEASES_MAX: u32 = 5;
const WAIT_MS: u64 = 2_000;
/// Of the runs that a person sends round again, those that come through.
const REPLAYS_SUCCEED: f64 = 0.9;

/// Steps through the work and reports how it ended.
pub(crate) async fn attempt(yard: &Arc<Yard>, tenant: Tenant, work: &Work, handle: RunHandle) -> anyhow::Result<()> {
    let run_id = handle.run_id().clone();
    let failing = work.plan.failure_at(handle.attempt());
    let steps = if failing.is_some() { &work.agent.steps[..1] } else { work.agent.steps };
    for step in steps {
        let (before, after) = yard.two_rolls();
        yard.pace.pause(0.1 + before * 0.3).await;
        handle.step(step, None, false, StepStatus::Committed).await?;
        yard.pace.pause(after * 0.6).await;
    }
    let client = yard.client.for_tenant(tenant);
    let lease = handle.lease().to_owned();
    let Some(cause) = failing else {
        client.succeed(&run_id, &work.succeed(lease)?).await?;
        yard.works().remove(&run_id);
        return Ok(());
    };
    if cause.shape == Shape::Silence {
        // The worker is gone: nobody beats for it, nobody says why.
        return Ok(());
    }
    let message = yard.fleet().message(cause);
    let answer = client.fail(&run_id, &work.fail(cause, &message, lease)).await?;
    if answer.state == StateName::Dead {
        yard.works().remove(&run_id);
    }
    Ok(())
}

/// A worker: leases what is due, works on it, comes back for more.
pub(crate) async fn lease_and_work(yard: Arc<Yard>, number: u32) {
    let mut request = LeaseRequest {
        tenant: None,
        queues: vec!["*".into()],
        agents: None,
        versions: Default::default(),
        max: Some(LEASES_MAX),
        wait_ms: Some(WAIT_MS),
        lease_ms: Some(LEASE_MS),
        worker: Some(format!("retry-worker-{number}").as_str().into()),
        request_id: redrive_client::request_id().ok(),
    };
    loop {
        let Ok(answer) = yard.client.lease(&request).await else {
            // Its answer may have got lost: under the same name the call gets what it got.
            yard.pace.pause(1.0).await;
            continue;
        };
        request.request_id = redrive_client::request_id().ok();
        // All of them are kept alive while one after the other is worked on.
        let held: Vec<_> =
            answer.leases.into_iter().map(|leased| (yard.client.take(&leased, LEASE_MS), leased)).collect();
        for (handle, leased) in held {
            let work = known(&yard, &leased);
            if let Err(error) = attempt(&yard, leased.tenant, &work, handle).await {
                tracing::debug!(%error, "a worker of the demo gave up");
            }
        }
    }
}

/// The work as it was planned; for what a person sent round again, a new plan.
fn known(yard: &Yard, leased: &LeasedRun) -> Work {
    let planned = yard.works().get(&leased.run_id).cloned();
    match planned {
        Some(work) if !leased.replay => work,
        Some(_) | None => {
            let is_theirs = |agent: &&Agent| leased.agent.as_ref().is_some_and(|name| name.as_str() == agent.name);
            let agent = AGENTS.iter().find(is_theirs).unwrap_or(&AGENTS[0]);
            let plan = plan_of_replay(yard, agent);
            // The tenant is whoever's the lease says.
            Work { number: 0, agent, tenant: TENANTS[0].tenant, customer: 0, severity: Severity::Normal, plan }
        }
    }
}

/// Mostly the person was right; otherwise something else is in the way.
fn plan_of_replay(yard: &Yard, agent: &Agent) -> Plan {
    let fleet = yard.fleet();
    let theirs = CAUSES.iter().filter(|cause| cause.shape == Shape::Error && cause.agents.contains(&agent.name));
    let theirs: Vec<&'static Cause> = theirs.collect();
    match theirs.get(fleet.below(theirs.len())) {
        Some(cause) if fleet.roll() >= REPLAYS_SUCCEED => Plan::Dies(cause),
        Some(_) | None => Plan::Succeeds,
    }
}
