//! The fleet at work while one looks: agents that start, beat, step, fail and succeed through the API like any other
//! client, and workers beside them that lease what is to be tried again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redrive_client::{Begun, Client};
use redrive_core::ids::RunId;
use redrive_core::policy::PolicyLayer;
use redrive_core::time::SECOND_MS;
use redrive_core::wire::QueueSettings;
use redrive_server::tasks::Tasks;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::fleet::{Fleet, Work};
use super::worker::{attempt, lease_and_work};

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
pub(crate) struct Yard {
    pub(crate) client: Client,
    pub(crate) pace: Pace,
    fleet: Mutex<Fleet>,
    /// Runs that are under way or will be tried again, and how they are going to go.
    works: Mutex<HashMap<RunId, Work>>,
}

impl Yard {
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
        let yard = Arc::new(Yard { client, pace, fleet: Mutex::new(fleet), works: Mutex::default() });
        for number in 1..=WORKERS {
            tasks.start("worker", lease_and_work(yard.clone(), number));
        }
        tasks.start("dispatch", dispatch(yard, Arc::downgrade(&tasks)));
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
async fn dispatch(yard: Arc<Yard>, tasks: std::sync::Weak<Tasks>) {
    let hands = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    loop {
        let Ok(hand) = hands.clone().acquire_owned().await else { return };
        let Some(tasks) = tasks.upgrade() else { return };
        let work = yard.fleet().next();
        let agent = yard.clone();
        tasks.start("agent", async move {
            // A server that is stopping, or busy: the agent goes on with the next piece.
            if let Err(error) = run(&agent, work).await {
                tracing::debug!(%error, "an agent of the demo gave up");
            }
            drop(hand);
        });
        drop(tasks);
        let spread = yard.fleet().roll();
        yard.pace.pause((0.5 + spread) / RUNS_PER_S).await;
    }
}

async fn run(yard: &Arc<Yard>, work: Work) -> anyhow::Result<()> {
    let mut start = work.start()?;
    let tenant = work.tenant()?;
    start.tenant = Some(tenant.clone());
    start.lease_ms = Some(LEASE_MS);
    let run_id = work.run_id()?;
    yard.works().insert(run_id, work.clone());
    match yard.client.begin(start).await? {
        Begun::Attempt(handle) => attempt(yard, tenant, &work, handle).await,
        Begun::Closed(_) => Ok(()),
    }
}
