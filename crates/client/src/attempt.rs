//! A worker's handle on one attempt. One background task per client keeps leases alive: it sends the due heartbeats of
//! all attempts in one call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redrive_core::ids::{CallId, RunId, StepKey};
use redrive_core::policy::LEASE_MS_DEFAULT;
use redrive_core::text::Label;
use redrive_core::wire::{
    EffectOutcome, ErrorReport, FailRequest, FailureAnswer, HeartbeatsAnswer, HeartbeatsRequest, LeaseBeat, LeasedRun,
    RawJson, StartAnswer, StartRequest, StateAnswer, StepRequest, StepStatus, StepView, SucceedAnswer, SucceedRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::client::{Client, Error, Result};
use crate::requests::{call_id, error_report};

/// The outcome of a start.
#[derive(Debug)]
pub enum StartOutcome {
    /// The caller owns the attempt.
    Attempt(RunHandle),
    /// The run was closed before; the answer has its output.
    Closed(StartAnswer),
}

impl StartOutcome {
    /// The attempt, for callers to whom a closed run is an error.
    pub fn expect_begun(self) -> Result<RunHandle> {
        match self {
            Self::Attempt(handle) => Ok(handle),
            Self::Closed(answer) => Err(Error::Unusable(format!("the run is {} already", answer.state))),
        }
    }
}

impl Client {
    /// Starts a run and keeps its lease alive until the handle is finished or dropped.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive_client::{StartOutcome, start};
    ///
    /// match client.begin(start("task-42".parse()?)).await? {
    ///     StartOutcome::Attempt(run) => run.succeed(&"done").await.map(drop)?,
    ///     StartOutcome::Closed(answer) => println!("done before: {:?}", answer.output),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn begin(&self, mut start: StartRequest) -> Result<StartOutcome> {
        // Explicit, so that both sides use the same lease length.
        let lease_ms = *start.lease_ms.get_or_insert(LEASE_MS_DEFAULT);
        let answer = self.start(&start).await?;
        match &answer.lease {
            Some(lease) => {
                let client = self.for_tenant(answer.tenant.clone());
                let handle = RunHandle::hold(client, answer.run_id.clone(), lease.clone(), lease_ms);
                Ok(StartOutcome::Attempt(RunHandle { attempt: answer.attempt, steps: answer.steps, ..handle }))
            }
            None => Ok(StartOutcome::Closed(answer)),
        }
    }

    /// Keeps a leased run alive; `lease_ms` is what the lease call asked for.
    pub fn take(&self, leased: &LeasedRun, lease_ms: u64) -> RunHandle {
        let client = self.for_tenant(leased.tenant.clone());
        let handle = RunHandle::hold(client, leased.run_id.clone(), leased.lease.clone(), lease_ms);
        RunHandle { attempt: leased.attempt, steps: leased.steps.clone(), ..handle }
    }
}

/// One attempt under its lease. Dropping it ends the heartbeats: the lease runs out and the run is judged `silent`.
#[derive(Debug)]
pub struct RunHandle {
    client: Client,
    run_id: RunId,
    lease: String,
    attempt: u32,
    steps: Vec<StepView>,
    heartbeats: HeartbeatGuard,
}

impl RunHandle {
    fn hold(client: Client, run_id: RunId, lease: String, lease_ms: u64) -> Self {
        let heartbeats = client.keep_alive(run_id.clone(), lease.clone(), lease_ms);
        Self { client, run_id, lease, attempt: 0, steps: Vec::new(), heartbeats }
    }

    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// For calls that the handle does not make itself.
    pub fn lease(&self) -> &str {
        &self.lease
    }

    /// Steps that attempts before this one recorded.
    pub fn recorded_steps(&self) -> &[StepView] {
        &self.steps
    }

    /// Effects that an earlier attempt began without a known outcome. Each has the check that it declared, if any;
    /// [`RunHandle::checked`] records the result.
    pub fn in_doubt(&self) -> impl Iterator<Item = &StepView> {
        self.steps.iter().filter(|step| step.status == StepStatus::Unknown)
    }

    /// Settles an effect in doubt with the result of its check; `output` is the effect's output, if it happened.
    pub async fn checked(
        &self,
        step: &StepView,
        outcome: EffectOutcome,
        output: Option<&impl Serialize>,
    ) -> Result<StepView> {
        let status = match outcome {
            EffectOutcome::Committed => StepStatus::Committed,
            EffectOutcome::NotDone => StepStatus::Failed,
        };
        let request = StepRequest {
            tenant: None,
            lease: self.lease.clone(),
            name: step.name.clone(),
            key: Some(step.key.clone()),
            effect: Some(step.effect),
            status,
            output: output.map(serde_json::value::to_raw_value).transpose()?,
            check: None,
            checked: true,
            call_id: None,
        };
        self.client.step(&self.run_id, &request).await
    }

    /// Whether the server has said that the attempt is no longer ours.
    pub fn is_lost(&self) -> bool {
        *self.heartbeats.lost.borrow()
    }

    /// Returns once the attempt is no longer ours; use it beside the work in a `select!`.
    pub async fn lost(&self) {
        let mut lost = self.heartbeats.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            // The heartbeats ended without a loss: wait forever.
            std::future::pending::<()>().await;
        }
    }

    /// Records a step.
    pub async fn step(&self, name: &str, key: Option<StepKey>, effect: bool, status: StepStatus) -> Result<StepView> {
        self.record(name, key, effect, status, None, None).await
    }

    /// Does something that changes the outside world, at most once: the intent is on disk before `work` begins, and
    /// when an earlier attempt has done it, `work` is skipped and the recorded output is returned.
    pub async fn effect<T, E>(
        &self,
        name: &str,
        key: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, EffectError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let key: StepKey = key.parse().map_err(|e| Error::Unusable(format!("`{key}`: {e}")))?;
        // Under one lease the same effect may be called twice at once: the call id lets only one of the calls do it.
        let call = call_id()?;
        let told = |status, output| self.record(name, Some(key.clone()), true, status, output, Some(call.clone()));
        let begun = told(StepStatus::Started, None).await?;
        if begun.replayed {
            let output = begun.output.as_ref().map_or("null", |token| token.get());
            return Ok(serde_json::from_str(output).map_err(Error::from)?);
        }
        match work.await {
            Ok(value) => {
                let output = serde_json::value::to_raw_value(&value).map_err(Error::from)?;
                told(StepStatus::Committed, Some(output)).await?;
                Ok(value)
            }
            Err(error) => {
                told(StepStatus::Failed, None).await?;
                Err(EffectError::Work(error))
            }
        }
    }

    async fn record(
        &self,
        name: &str,
        key: Option<StepKey>,
        effect: bool,
        status: StepStatus,
        output: Option<RawJson>,
        call_id: Option<CallId>,
    ) -> Result<StepView> {
        let (name, lease, effect) = (Label::from(name), self.lease.clone(), Some(effect));
        let (check, checked) = (None, false);
        let step = StepRequest { tenant: None, lease, name, key, effect, status, output, check, checked, call_id };
        self.client.step(&self.run_id, &step).await
    }

    /// Reports success. The answer may be a failure: detectors check the output first.
    pub async fn succeed(self, output: &impl Serialize) -> Result<SucceedAnswer> {
        let success = SucceedRequest {
            tenant: None,
            lease: Some(self.lease.clone()),
            attempt: None,
            output: Some(serde_json::value::to_raw_value(output)?),
            finish_reason: None,
            usage: None,
            steps: Vec::new(),
        };
        self.client.succeed(&self.run_id, &success).await
    }

    /// Reports failure; the answer is the verdict.
    pub async fn fail(self, message: &str) -> Result<FailureAnswer> {
        self.fail_with(error_report(message)).await
    }

    pub async fn fail_with(self, error: ErrorReport) -> Result<FailureAnswer> {
        let failed = FailRequest {
            tenant: None,
            lease: self.lease.clone(),
            error,
            response: None,
            partial_output: None,
            finish_reason: None,
            usage: None,
            step: None,
            tool: None,
            model: None,
            steps: Vec::new(),
        };
        self.client.fail(&self.run_id, &failed).await
    }

    /// Releases the run without spending an attempt.
    pub async fn release(self) -> Result<StateAnswer> {
        self.client.release(&self.run_id, &self.lease).await
    }
}

/// An effect that was not done, or could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum EffectError<E> {
    #[error(transparent)]
    Redrive(#[from] Error),
    #[error("{0}")]
    Work(E),
}

/// Heartbeats per lease: two may get lost.
const BEATS_PER_LEASE: u32 = 3;
/// The server's limit for one call.
const LEASES_MAX: usize = 1_000;
/// A heartbeat due within this part of its interval is sent with those due now.
const EARLY_PART: u32 = 4;
const HEARTBEAT_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Ends its task when the last client and the last attempt are gone.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    held: Arc<HeldLeases>,
    task: Mutex<JoinSet<()>>,
}

#[derive(Debug, Default)]
struct HeldLeases {
    leases: Mutex<Leases>,
    /// A new lease may be due before all others.
    added: Notify,
}

#[derive(Debug, Default)]
struct Leases {
    last: u64,
    by_number: BTreeMap<u64, HeldLease>,
}

#[derive(Debug)]
struct HeldLease {
    beat: LeaseBeat,
    every: Duration,
    due: Instant,
    lost: watch::Sender<bool>,
}

/// A lease that is kept alive; dropping it ends its heartbeats.
#[derive(Debug)]
pub(crate) struct HeartbeatGuard {
    held: Arc<HeldLeases>,
    number: u64,
    pub(crate) lost: watch::Receiver<bool>,
}

impl Drop for HeartbeatGuard {
    fn drop(&mut self) {
        lock(&self.held.leases).by_number.remove(&self.number);
    }
}

impl Heartbeats {
    /// `client` sends the heartbeats; it must not hold this value, or the task would never end.
    pub(crate) fn keep(&self, client: Client, beat: LeaseBeat, lease_ms: u64) -> HeartbeatGuard {
        let every = (Duration::from_millis(lease_ms) / BEATS_PER_LEASE).max(Duration::from_millis(1));
        let (tell, lost) = watch::channel(false);
        let number = {
            let mut leases = lock(&self.held.leases);
            leases.last += 1;
            let number = leases.last;
            leases.by_number.insert(number, HeldLease { beat, every, due: Instant::now() + every, lost: tell });
            number
        };
        self.held.added.notify_one();
        let mut task = lock(&self.task);
        // A task that ended did so with its runtime.
        while task.try_join_next().is_some() {}
        if task.is_empty() {
            task.spawn(send_beats(client, Arc::downgrade(&self.held)));
        }
        HeartbeatGuard { held: self.held.clone(), number, lost }
    }
}

/// Nothing that panics runs under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn send_beats(client: Client, held: Weak<HeldLeases>) {
    let mut calls = JoinSet::new();
    while let Some(held) = held.upgrade() {
        let next = lock(&held.leases).by_number.values().map(|lease| lease.due).min();
        tokio::select! {
            () = held.added.notified() => continue,
            () = until(next) => {}
        }
        // A slow answer delays no other heartbeat.
        while calls.try_join_next().is_some() {}
        for batch in held.due(Instant::now()) {
            calls.spawn(send_batch(client.clone(), Arc::downgrade(&held), batch));
        }
    }
}

async fn until(next: Option<Instant>) {
    match next {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

struct Batch {
    numbers: Vec<u64>,
    leases: Vec<LeaseBeat>,
    timeout: Duration,
}

impl HeldLeases {
    /// The due heartbeats in batches within the server's limit; each is due again one interval later.
    fn due(&self, now: Instant) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for (number, lease) in &mut lock(&self.leases).by_number {
            if lease.due > now + lease.every / EARLY_PART {
                continue;
            }
            lease.due = now + lease.every;
            if batches.last().is_none_or(|batch| batch.leases.len() == LEASES_MAX) {
                batches.push(Batch { numbers: Vec::new(), leases: Vec::new(), timeout: HEARTBEAT_TIMEOUT_MIN });
            }
            if let Some(batch) = batches.last_mut() {
                batch.numbers.push(*number);
                batch.leases.push(lease.beat.clone());
                batch.timeout = batch.timeout.max(lease.every);
            }
        }
        batches
    }

    fn answered(&self, numbers: &[u64], answer: &HeartbeatsAnswer) {
        let mut leases = lock(&self.leases);
        for (number, said) in numbers.iter().zip(&answer.leases) {
            if matches!(said.code.as_deref(), Some("lease_lost" | "cancelled"))
                && let Some(lease) = leases.by_number.remove(number)
            {
                let _ = lease.lost.send(true);
            }
        }
    }
}

/// A failed call is retried with the next heartbeat; only a lost lease ends the heartbeats.
async fn send_batch(client: Client, held: Weak<HeldLeases>, batch: Batch) {
    let request = HeartbeatsRequest { leases: batch.leases };
    let answer = client.heartbeats(&request).timeout(batch.timeout).await;
    if let (Ok(answer), Some(held)) = (answer, held.upgrade()) {
        held.answered(&batch.numbers, &answer);
    }
}
