//! Thirty days of history in a few seconds: the fleet's runs reported to the real store with a simulated clock. The
//! engine decides each outcome; the scenario only says what the agents did.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use anyhow::Context;
use redrive_core::ids::RunId;
use redrive_core::run::StateName;
use redrive_core::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp};
use redrive_core::wire::{LeasedRun, QueueSettings};
use redrive_engine::{LeaseCall, ManualClock, RunRef, Store, TenantScope, UnderLease};
use redrive_server::capture;

use super::causes::{OWNERS, Shape};
use super::fleet::{Fleet, SILENCES_MAX, Scenario, Work};

const DAYS: u64 = 30;
const HOURS: u64 = DAYS * 24;
/// How busy the hours of a day are, from midnight.
const BUSY: [u64; 24] = [3, 2, 2, 2, 2, 3, 5, 7, 10, 12, 13, 13, 11, 12, 13, 12, 11, 9, 8, 7, 6, 5, 4, 3];
const ROUNDS_MAX: u32 = 9;
const ROUND_MS: u64 = 6 * MINUTE_MS;
const LEASES_MAX: u32 = 1_000;
const PAYLOADS_MAX_BYTES: usize = 16 << 20;

/// What was made, by the plan: the store has to agree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HistoryCounts {
    pub(crate) runs: u64,
    pub(crate) recovered: u64,
    pub(crate) dead: u64,
}

/// Gives each queue its owner; `shape` sets what else there is.
pub(crate) async fn set_queues(
    store: &dyn Store,
    shape: impl Fn(QueueSettings) -> QueueSettings,
) -> anyhow::Result<()> {
    for (name, owner, description) in OWNERS {
        let settings = QueueSettings {
            owner: Some(owner.into()),
            description: Some(description.into()),
            runbook: Some(format!("https://runbooks.example.com/{name}")),
            ..QueueSettings::default()
        };
        store.put_queue(name.parse()?, shape(settings)).await?;
    }
    Ok(())
}

/// Makes the history of `runs` runs, ending before `until`.
pub(crate) async fn make_history(
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    fleet: &mut Fleet,
    runs: u64,
    until: Timestamp,
) -> anyhow::Result<HistoryCounts> {
    let mut history = History { store, clock, waiting: HashMap::new(), quiet: 0, made: HistoryCounts::default() };
    let begin = until.minus_ms(DAYS * DAY_MS);
    let day: u64 = BUSY.iter().sum();
    let mut passed = 0;
    for (hour, busy) in (0..HOURS).zip(BUSY.iter().cycle()) {
        passed += busy;
        let due = runs * passed / (day * DAYS);
        let now = begin.plus_ms(hour * HOUR_MS);
        history.hour(now, fleet, due - history.made.runs).await.with_context(|| format!("the history of {now}"))?;
    }
    Ok(history.made)
}

struct History {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    /// Runs to retry.
    waiting: HashMap<RunId, Work>,
    /// Attempts that go silent.
    quiet: usize,
    made: HistoryCounts,
}

/// An attempt in an agent's hands.
struct Attempt {
    work: Work,
    run: RunRef,
    lease: String,
    number: u32,
    /// What it fails with, if it does.
    message: Option<String>,
}

/// How an attempt went.
enum AttemptResult {
    Settled,
    Again(RunId, Work),
    /// Silence; unless it was the last attempt, a retry follows.
    Quiet(Option<(RunId, Work)>),
}

impl History {
    async fn hour(&mut self, now: Timestamp, fleet: &mut Fleet, runs: u64) -> anyhow::Result<()> {
        self.clock.set(now.plus_ms(fleet.below_ms(2 * MINUTE_MS)));
        let works: Vec<Work> = (0..runs).map(|_| fleet.next()).collect();
        self.count(&works);
        let begun = self.begin(works).await?;
        self.clock.advance_ms(20 * SECOND_MS + fleet.below_ms(20 * SECOND_MS));
        self.end(begun, fleet).await?;
        for _ in 0..ROUNDS_MAX {
            if self.waiting.is_empty() && self.quiet == 0 {
                break;
            }
            self.retry(fleet).await?;
        }
        Ok(())
    }

    fn count(&mut self, works: &[Work]) {
        for work in works {
            self.made.runs += 1;
            match work.plan {
                Scenario::Succeeds => {}
                Scenario::Recovers(..) => self.made.recovered += 1,
                Scenario::Dies(_) => self.made.dead += 1,
            }
        }
    }

    async fn begin(&self, works: Vec<Work>) -> anyhow::Result<Vec<Attempt>> {
        let begin = |work: Work| {
            let store = self.store.clone();
            async move {
                let run = RunRef { tenant: work.tenant()?, run_id: work.run_id()? };
                let start = capture::start(work.start()?, run.tenant.clone()).map_err(refused)?;
                let answer = store.start(start).await?.answer;
                let lease = answer.lease.context("a start without a lease")?;
                Ok(Attempt { work, run, lease, number: answer.attempt, message: None })
            }
        };
        together(works.into_iter().map(begin)).await
    }

    /// Advances the clock, rescues silent attempts and retries due runs.
    async fn retry(&mut self, fleet: &Fleet) -> anyhow::Result<()> {
        self.clock.advance_ms(ROUND_MS);
        if self.quiet > 0 {
            self.quiet -= self.store.rescue_expired(LEASES_MAX as usize).await?.moved;
        }
        let call = LeaseCall {
            scope: TenantScope::All,
            queues: Vec::new(),
            agents: None,
            max: LEASES_MAX,
            lease_ms: None,
            versions: std::collections::BTreeMap::new(),
            worker: Some("retry-worker-1".into()),
            payload_max_bytes: PAYLOADS_MAX_BYTES,
            by: None,
            request_id: None,
        };
        let leased = self.store.lease(call).await?;
        self.clock.advance_ms(15 * SECOND_MS);
        let attempts = leased.into_iter().filter_map(|leased| self.taken(leased)).collect();
        self.end(attempts, fleet).await
    }

    fn taken(&mut self, leased: LeasedRun) -> Option<Attempt> {
        let work = self.waiting.remove(&leased.run_id)?;
        let run = RunRef { tenant: leased.tenant, run_id: leased.run_id };
        Some(Attempt { work, run, lease: leased.lease, number: leased.attempt, message: None })
    }

    async fn end(&mut self, mut attempts: Vec<Attempt>, fleet: &Fleet) -> anyhow::Result<()> {
        for attempt in &mut attempts {
            attempt.message = attempt.work.plan.failure_at(attempt.number).map(|cause| fleet.message(cause));
        }
        let store = &self.store;
        let ended = together(attempts.into_iter().map(|attempt| attempt.end(store.clone()))).await?;
        for went in ended {
            match went {
                AttemptResult::Settled => {}
                AttemptResult::Again(run_id, work) => drop(self.waiting.insert(run_id, work)),
                AttemptResult::Quiet(again) => {
                    self.quiet += 1;
                    self.waiting.extend(again);
                }
            }
        }
        Ok(())
    }
}

impl Attempt {
    async fn end(self, store: Arc<dyn Store>) -> anyhow::Result<AttemptResult> {
        let Self { work, run, lease, number, message } = self;
        let run_id = run.run_id.clone();
        let (Some(cause), Some(message)) = (work.plan.failure_at(number), message) else {
            let request = work.succeed(lease)?;
            let raw = serde_json::to_vec(&request)?;
            store.succeed(capture::success(run, request, &raw, None).map_err(refused)?).await?;
            return Ok(AttemptResult::Settled);
        };
        if cause.shape == Shape::Silence {
            return Ok(AttemptResult::Quiet((number <= SILENCES_MAX).then_some((run_id, work))));
        }
        let under = UnderLease { at: run, lease: lease.parse()? };
        let request = work.fail(cause, &message, lease);
        let raw = serde_json::to_vec(&request)?;
        let failed = capture::failed(request, &raw, store.now()).map_err(refused)?;
        let answer = store.fail(under, failed).await?;
        Ok(if answer.state == StateName::Scheduled {
            AttemptResult::Again(run_id, work)
        } else {
            AttemptResult::Settled
        })
    }
}

fn refused(problem: redrive_server::problem::HttpProblem) -> anyhow::Error {
    anyhow::anyhow!(problem.detail)
}

/// All at once and by one task, so that they share commits and one waking.
async fn together<T, F>(calls: impl Iterator<Item = F>) -> anyhow::Result<Vec<T>>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut under_way: Vec<_> = calls.map(Box::pin).collect();
    let mut answers = Vec::with_capacity(under_way.len());
    poll_fn(|context| {
        under_way.retain_mut(|call| match call.as_mut().poll(context) {
            Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            Poll::Pending => true,
        });
        if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    answers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use redrive_core::policy::Policies;
    use redrive_engine::{SeededDice, StatsCall};
    use redrive_store::sqlite::{Options, SqliteStore};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_engines_verdicts_come_out_as_the_fleet_was_planned() {
        let folder = tempfile::tempdir().unwrap();
        let until = Timestamp::from_millis(1_800_000_000_000);
        let clock = Arc::new(ManualClock::at(until.minus_ms(31 * DAY_MS)));
        let options = Options {
            folder: folder.path().join("data"),
            clock: clock.clone(),
            dice: Arc::new(SeededDice::new(5)),
            policies: Policies::default(),
        };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open_throw_away(options).unwrap());
        set_queues(store.as_ref(), |settings| settings).await.unwrap();
        let made = make_history(store.clone(), clock.clone(), &mut Fleet::new(11), 6_000, until).await.unwrap();
        let states: HashMap<_, _> =
            store.stats(&TenantScope::All, StatsCall::default()).await.unwrap().states.into_iter().collect();
        let of = |state| states.get(&state).copied().unwrap_or_default();
        assert_eq!((made.runs, of(StateName::Recovered), of(StateName::Dead)), (6_000, made.recovered, made.dead));
        assert_eq!(of(StateName::Succeeded), 6_000 - made.recovered - made.dead);
        assert!(made.dead > 10 && store.now() < until, "{made:?}");
        assert_eq!(store.health(&TenantScope::All).await.unwrap().queues_without_owner, []);
    }
}
