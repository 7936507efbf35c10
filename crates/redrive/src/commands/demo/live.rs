//! The live fleet: agents that start, step, fail and succeed through the API like any client, and workers that lease retries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_client::{Begun, Client, RunHandle};
use redrive_core::ids::{RunId, Tenant};
use redrive_core::policy::PolicyLayer;
use redrive_core::run::StateName;
use redrive_core::time::SECOND_MS;
use redrive_core::wire::{LeaseRequest, LeasedRun, QueueSettings, Severity, StepStatus};
use redrive_engine::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::causes::{AGENTS, Agent, CAUSES, Cause, Shape, TENANTS};
use super::fleet::{Fleet, Plan, Work};

/// At the usual speed.
const RUNS_PER_S: f64 = 12.0;
const IN_FLIGHT_MAX: usize = 256;
const WORKERS: u32 = 3;
/// Short, so that a silence is noticed while one watches.
pub(crate) const LEASE_MS: u64 = 5 * SECOND_MS;
const SCHEDULE_MS: [u64; 3] = [3 * SECOND_MS, 8 * SECOND_MS, 15 * SECOND_MS];

/// How fast everything goes; 1 is the usual speed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace(pub(crate) f64);

impl Pace {
    pub(crate) async fn pause(self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds / self.0)).await;
    }
}

/// What agents and workers share.
pub(crate) struct FleetState {
    pub(crate) client: Client,
    pub(crate) pace: Pace,
    fleet: Mutex<Fleet>,
    /// Runs that are under way or will be tried again, and how they are going to go.
    works: Mutex<HashMap<RunId, Work>>,
}

impl FleetState {
    pub(crate) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under one lock: asking twice in one expression would wait for itself.
    pub(crate) fn two_rolls(&self) -> (f64, f64) {
        let fleet = self.fleet();
        (fleet.roll(), fleet.roll())
    }

    pub(crate) fn works(&self) -> MutexGuard<'_, HashMap<RunId, Work>> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Live {
    tasks: Arc<Tasks>,
}

impl Live {
    pub(crate) fn start(client: Client, fleet: Fleet, pace: Pace) -> Self {
        let tasks = Arc::new(Tasks::default());
        let state = Arc::new(FleetState { client, pace, fleet: Mutex::new(fleet), works: Mutex::default() });
        for number in 1..=WORKERS {
            tasks.start("worker", lease_and_work(state.clone(), number));
        }
        tasks.start("dispatch", dispatch(state, Arc::downgrade(&tasks)));
        Self { tasks }
    }

    /// The agents just stop, as agents do.
    pub(crate) async fn stop(self) {
        self.tasks.finish(Duration::ZERO).await;
    }

    /// What a queue needs for retries to happen while one watches.
    pub(crate) fn queue(settings: QueueSettings) -> QueueSettings {
        let policy =
            PolicyLayer { schedule_ms: Some(SCHEDULE_MS.to_vec()), lease_ms: Some(LEASE_MS), ..PolicyLayer::default() };
        QueueSettings { policy, ..settings }
    }
}

/// Gives out work at the fleet's rate, as long as there are hands for it.
async fn dispatch(state: Arc<FleetState>, tasks: std::sync::Weak<Tasks>) {
    let hands = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    loop {
        let Ok(hand) = hands.clone().acquire_owned().await else { return };
        let Some(tasks) = tasks.upgrade() else { return };
        let work = state.fleet().next();
        let agent = state.clone();
        tasks.start("agent", async move {
            // A server that is stopping, or busy: the agent goes on with the next piece.
            if let Err(error) = run(&agent, work).await {
                tracing::debug!(%error, "an agent of the demo gave up");
            }
            drop(hand);
        });
        drop(tasks);
        let spread = state.fleet().roll();
        state.pace.pause((0.5 + spread) / RUNS_PER_S).await;
    }
}

async fn run(state: &Arc<FleetState>, work: Work) -> anyhow::Result<()> {
    let mut start = work.start()?;
    let tenant = work.tenant()?;
    start.tenant = Some(tenant.clone());
    start.lease_ms = Some(LEASE_MS);
    let run_id = work.run_id()?;
    state.works().insert(run_id, work.clone());
    match state.client.begin(start).await? {
        Begun::Attempt(handle) => attempt(state, tenant, &work, handle).await,
        Begun::Closed(_) => Ok(()),
    }
}

const LEASES_MAX: u32 = 5;
const WAIT_MS: u64 = 2_000;
/// Of the runs that a person sends round again, those that come through.
const REPLAYS_SUCCEED: f64 = 0.9;

/// Steps through the work and reports how it ended.
pub(crate) async fn attempt(
    state: &Arc<FleetState>,
    tenant: Tenant,
    work: &Work,
    handle: RunHandle,
) -> anyhow::Result<()> {
    let run_id = handle.run_id().clone();
    let failing = work.plan.failure_at(handle.attempt());
    let steps = if failing.is_some() { &work.agent.steps[..1] } else { work.agent.steps };
    for step in steps {
        let (before, after) = state.two_rolls();
        state.pace.pause(0.1 + before * 0.3).await;
        handle.step(step, None, false, StepStatus::Committed).await?;
        state.pace.pause(after * 0.6).await;
    }
    let client = state.client.for_tenant(tenant);
    let lease = handle.lease().to_owned();
    let Some(cause) = failing else {
        client.succeed(&run_id, &work.succeed(lease)?).await?;
        state.works().remove(&run_id);
        return Ok(());
    };
    if cause.shape == Shape::Silence {
        // The worker is gone: nobody beats for it, nobody says why.
        return Ok(());
    }
    let message = state.fleet().message(cause);
    let answer = client.fail(&run_id, &work.fail(cause, &message, lease)).await?;
    if answer.state == StateName::Dead {
        state.works().remove(&run_id);
    }
    Ok(())
}

/// A worker: leases what is due, works on it, comes back for more.
pub(crate) async fn lease_and_work(state: Arc<FleetState>, number: u32) {
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
        let Ok(answer) = state.client.lease(&request).await else {
            // Its answer may have got lost: under the same name the call gets what it got.
            state.pace.pause(1.0).await;
            continue;
        };
        request.request_id = redrive_client::request_id().ok();
        // All of them are kept alive while one after the other is worked on.
        let held: Vec<_> =
            answer.leases.into_iter().map(|leased| (state.client.take(&leased, LEASE_MS), leased)).collect();
        for (handle, leased) in held {
            let work = known(&state, &leased);
            if let Err(error) = attempt(&state, leased.tenant, &work, handle).await {
                tracing::debug!(%error, "a worker of the demo gave up");
            }
        }
    }
}

/// The work as it was planned; for what a person sent round again, a new plan.
fn known(state: &FleetState, leased: &LeasedRun) -> Work {
    let planned = state.works().get(&leased.run_id).cloned();
    match planned {
        Some(work) if !leased.replay => work,
        Some(_) | None => {
            let is_theirs = |agent: &&Agent| leased.agent.as_ref().is_some_and(|name| name.as_str() == agent.name);
            let agent = AGENTS.iter().find(is_theirs).unwrap_or(&AGENTS[0]);
            let plan = plan_of_replay(state, agent);
            // The tenant is whoever's the lease says.
            Work { number: 0, agent, tenant: TENANTS[0].tenant, customer: 0, severity: Severity::Normal, plan }
        }
    }
}

/// Mostly the person was right; otherwise something else is in the way.
fn plan_of_replay(state: &FleetState, agent: &Agent) -> Plan {
    let fleet = state.fleet();
    let theirs = CAUSES.iter().filter(|cause| cause.shape == Shape::Error && cause.agents.contains(&agent.name));
    let theirs: Vec<&'static Cause> = theirs.collect();
    match theirs.get(fleet.below(theirs.len())) {
        Some(cause) if fleet.roll() >= REPLAYS_SUCCEED => Plan::Dies(cause),
        Some(_) | None => Plan::Succeeds,
    }
}
