//! The live fleet: agents that start, step, fail and succeed through the API like any client, and workers that lease retries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_client::{Client, RunHandle, StartOutcome};
use redrive_core::ids::{RunId, Tenant};
use redrive_core::policy::PolicyLayer;
use redrive_core::run::StateName;
use redrive_core::time::SECOND_MS;
use redrive_core::wire::{LeaseRequest, LeasedRun, QueueSettings, Severity, StepStatus};
use redrive_engine::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::causes::{AGENTS, Agent, CAUSES, Cause, Shape, TENANTS};
use super::fleet::{Fleet, Scenario, Work};

/// At speed 1.
const RUNS_PER_S: f64 = 12.0;
const IN_FLIGHT_MAX: usize = 256;
const WORKERS: u32 = 3;
/// Short, so that silence shows within seconds.
pub(crate) const LEASE_MS: u64 = 5 * SECOND_MS;
const SCHEDULE_MS: [u64; 3] = [3 * SECOND_MS, 8 * SECOND_MS, 15 * SECOND_MS];

/// Speed of the demo; 1 is normal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DemoPace(pub(crate) f64);

impl DemoPace {
    pub(crate) async fn pause(self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds / self.0)).await;
    }
}

/// What agents and workers share.
pub(crate) struct FleetState {
    pub(crate) client: Client,
    pub(crate) pace: DemoPace,
    fleet: Mutex<Fleet>,
    /// Running and waiting runs, with their scenarios.
    works: Mutex<HashMap<RunId, Work>>,
}

impl FleetState {
    pub(crate) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One lock for both: taking it twice in one expression would deadlock.
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
    pub(crate) fn start(client: Client, fleet: Fleet, pace: DemoPace) -> Self {
        let tasks = Arc::new(Tasks::default());
        let state = Arc::new(FleetState { client, pace, fleet: Mutex::new(fleet), works: Mutex::default() });
        for number in 1..=WORKERS {
            tasks.start("worker", lease_and_work(state.clone(), number));
        }
        tasks.start("dispatch", dispatch(state, Arc::downgrade(&tasks)));
        Self { tasks }
    }

    /// The agents stop without a word.
    pub(crate) async fn stop(self) {
        self.tasks.finish(Duration::ZERO).await;
    }

    /// Queue settings with short waits, so that retries show quickly.
    pub(crate) fn queue(settings: QueueSettings) -> QueueSettings {
        let policy =
            PolicyLayer { schedule_ms: Some(SCHEDULE_MS.to_vec()), lease_ms: Some(LEASE_MS), ..PolicyLayer::default() };
        QueueSettings { policy, ..settings }
    }
}

/// Starts runs at the fleet's rate, up to the limit in flight.
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
        StartOutcome::Attempt(handle) => attempt(state, tenant, &work, handle).await,
        StartOutcome::Closed(_) => Ok(()),
    }
}

const LEASES_MAX: u32 = 5;
const WAIT_MS: u64 = 2_000;
/// The share of replays by people that succeed.
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
        // The worker is gone: no heartbeat and no report follow.
        return Ok(());
    }
    let message = state.fleet().message(cause);
    let answer = client.fail(&run_id, &work.fail(cause, &message, lease)).await?;
    if answer.state == StateName::Dead {
        state.works().remove(&run_id);
    }
    Ok(())
}

/// A worker: leases due runs and works on them in a loop.
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
            // The answer may be lost: the same request id gets the same leases.
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

/// The planned scenario; a replay by a person gets a new one.
fn known(state: &FleetState, leased: &LeasedRun) -> Work {
    let planned = state.works().get(&leased.run_id).cloned();
    match planned {
        Some(work) if !leased.replay => work,
        Some(_) | None => {
            let is_theirs = |agent: &&Agent| leased.agent.as_ref().is_some_and(|name| name.as_str() == agent.name);
            let agent = AGENTS.iter().find(is_theirs).unwrap_or(&AGENTS[0]);
            let plan = plan_of_replay(state, agent);
            // The tenant comes from the lease.
            Work { number: 0, agent, tenant: TENANTS[0].tenant, customer: 0, severity: Severity::Normal, plan }
        }
    }
}

/// Most replays succeed; the others fail with another cause.
fn plan_of_replay(state: &FleetState, agent: &Agent) -> Scenario {
    let fleet = state.fleet();
    let theirs = CAUSES.iter().filter(|cause| cause.shape == Shape::Error && cause.agents.contains(&agent.name));
    let theirs: Vec<&'static Cause> = theirs.collect();
    match theirs.get(fleet.below(theirs.len())) {
        Some(cause) if fleet.roll() >= REPLAYS_SUCCEED => Scenario::Dies(cause),
        Some(_) | None => Scenario::Succeeds,
    }
}
