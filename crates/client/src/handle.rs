//! One attempt in an agent's hands: heartbeats run in the background as long as the handle lives.

use redrive_core::ids::{CallId, RunId, StepKey};
use redrive_core::policy::LEASE_MS_DEFAULT;
use redrive_core::text::Label;
use redrive_core::wire::{
    EffectOutcome, ErrorReport, FailRequest, FailureAnswer, LeasedRun, RawJson, StartAnswer, StartRequest, StateAnswer,
    StepRequest, StepStatus, StepView, SucceedAnswer, SucceedRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::beats::Kept;
use crate::blank;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::unique;

/// What a start gave.
#[derive(Debug)]
pub enum Begun {
    /// The attempt is the caller's.
    Attempt(RunHandle),
    /// The run was done before: here is what it gave.
    Closed(StartAnswer),
}

impl Begun {
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
    /// use redrive_client::{Begun, start};
    ///
    /// match client.begin(start("task-42".parse()?)).await? {
    ///     Begun::Attempt(run) => run.succeed(&"done").await.map(drop)?,
    ///     Begun::Closed(answer) => println!("done before: {:?}", answer.output),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn begin(&self, mut start: StartRequest) -> Result<Begun> {
        // Said outright, so that both sides count in the same lease.
        let lease_ms = *start.lease_ms.get_or_insert(LEASE_MS_DEFAULT);
        let answer = self.start(&start).await?;
        match &answer.lease {
            Some(lease) => {
                let client = self.for_tenant(answer.tenant.clone());
                let handle = RunHandle::hold(client, answer.run_id.clone(), lease.clone(), lease_ms);
                Ok(Begun::Attempt(RunHandle { attempt: answer.attempt, steps: answer.steps, ..handle }))
            }
            None => Ok(Begun::Closed(answer)),
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
    kept: Kept,
}

impl RunHandle {
    fn hold(client: Client, run_id: RunId, lease: String, lease_ms: u64) -> Self {
        let kept = client.keep_alive(run_id.clone(), lease.clone(), lease_ms);
        Self { client, run_id, lease, attempt: 0, steps: Vec::new(), kept }
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

    /// Effects that an earlier attempt began and nobody knows the end of. Each says, where it declared so, how to find
    /// out; [`RunHandle::checked`] takes the answer.
    pub fn in_doubt(&self) -> impl Iterator<Item = &StepView> {
        self.steps.iter().filter(|step| step.status == StepStatus::Unknown)
    }

    /// Settles an effect in doubt by what its own check found; `output` is what the effect gave, if it happened.
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
        *self.kept.lost.borrow()
    }

    /// Returns once the attempt is no longer ours; use it beside the work in a `select!`.
    pub async fn lost(&self) {
        let mut lost = self.kept.lost.clone();
        if lost.wait_for(|lost| *lost).await.is_err() {
            // The heartbeats ended without that news: it will never come.
            std::future::pending::<()>().await;
        }
    }

    /// Records a step.
    pub async fn step(&self, name: &str, key: Option<StepKey>, effect: bool, status: StepStatus) -> Result<StepView> {
        self.record(name, key, effect, status, None, None).await
    }

    /// Does something that changes the outside world, at most once: the intent is on disk before `work` begins, and
    /// when an earlier attempt has done it, `work` is skipped and what it gave then comes back.
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
        // Under one lease the same effect may be called twice at once: only one of the calls gets leave to do it.
        let call = unique::call_id()?;
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

    /// The attempt succeeded. The answer may disagree: a detector looks at the output first.
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

    /// The attempt failed; the answer says what happens next.
    pub async fn fail(self, message: &str) -> Result<FailureAnswer> {
        self.fail_with(blank::error(message)).await
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

    /// Gives the run back untouched.
    pub async fn release(self) -> Result<StateAnswer> {
        self.client.release(&self.run_id, &self.lease).await
    }
}

/// An effect that was not done, or whose doing could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum EffectError<E> {
    #[error(transparent)]
    Redrive(#[from] Error),
    #[error("{0}")]
    Work(E),
}
