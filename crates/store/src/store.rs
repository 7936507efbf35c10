//! The one trait. Each method is a verb of the domain and keeps its promise alone: when it returns Ok, what it says
//! is on disk.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::detect::OutputSchema;
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::operation::Steer;
use redrive_core::policy::Policy;
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    BreakerView, BreakersAnswer, ChangesAnswer, DuplicatesAnswer, EffectView, FailureAnswer, HealthAnswer, LeasedRun,
    OperationItemsPage, OperationView, OperationsPage, PatternDetail, PatternView, PatternsPage, PlanAnswer,
    QueueSettings, QueueView, QueuesAnswer, RevisionView, RunDetail, RunsPage, StateAnswer, StatsAnswer, StepView,
    SucceedAnswer, TenantBreaker, TenantHealth, TenantsAnswer,
};
use tokio::sync::watch;

use crate::breaker_model::BreakerAct;
use crate::error::Result;
use crate::model::{
    DetailCall, EffectRef, FailedAttempt, KeyMark, KeyRecord, LeaseCall, NewSent, NewStep, PageCall, Reconcile, Report,
    Reported, RunFilter, RunRef, Sent, Start, Started, StatsCall, Success, Swept, TenantScope, UnderLease,
};
use crate::operation_model::{ItemsCall, NewOperation};
use crate::pattern_model::{PatternAct, PatternsCall};
use crate::standing_model::Standing;
use crate::triage_model::{Act, Replay, Triaged};

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The store's clock decides order, due times and leases.
    fn now(&self) -> Timestamp;

    /// Changes whenever a run may have fallen due; a hint for waiting lease calls, never the truth.
    fn wakeups(&self) -> watch::Receiver<u64>;

    /// Changes whenever a commit holds again after others did not: who backed off need not wait any longer.
    fn recovered(&self) -> watch::Receiver<u64>;

    /// False once a thread that writes has ended: nothing will be committed any more.
    fn has_writer(&self) -> bool;

    // What producers and workers report.

    async fn report(&self, report: Report) -> Result<Reported>;
    /// Each is accepted or refused alone; the answers are in the order of the reports.
    async fn report_all(&self, reports: Vec<Report>) -> Vec<Result<Reported>>;
    async fn start(&self, start: Start) -> Result<Started>;
    async fn heartbeat(&self, under: UnderLease) -> Result<Timestamp>;
    /// Many in one commit; each is renewed or refused alone, and the answers are in the order of the leases.
    async fn heartbeats(&self, leases: Vec<UnderLease>) -> Vec<Result<Timestamp>>;
    async fn step(&self, under: UnderLease, step: NewStep) -> Result<StepView>;
    async fn succeed(&self, success: Success) -> Result<SucceedAnswer>;
    async fn fail(&self, under: UnderLease, failed: FailedAttempt) -> Result<FailureAnswer>;
    async fn release(&self, under: UnderLease) -> Result<StateAnswer>;
    async fn lease(&self, call: LeaseCall) -> Result<Vec<LeasedRun>>;
    /// Keeps the payloads that attempts are about to get, each under its live lease; each is kept or refused alone.
    async fn keep_sent(&self, sent: Vec<(UnderLease, NewSent)>) -> Vec<Result<()>>;

    // What people do.

    async fn triage(&self, act: Act) -> Result<Triaged>;
    /// What a replay would do now; of a run in review, without anything else proposed: what waits for approval.
    async fn plan(&self, at: &RunRef, replay: Replay) -> Result<PlanAnswer>;
    /// Settles an effect in doubt; the run stays where it is.
    async fn reconcile(&self, act: Reconcile) -> Result<EffectView>;
    /// The pattern as it stands afterwards; after a merge, the one that it became part of.
    async fn triage_pattern(&self, act: PatternAct) -> Result<PatternView>;

    /// Opens or closes a breaker by hand, with a name and a reason.
    async fn operate_breaker(&self, act: BreakerAct) -> Result<BreakerView>;
    /// Freezes the set: up to 10,000 runs before it answers, the rest in the engine's rounds.
    async fn create_operation(&self, new: NewOperation, actor: String) -> Result<OperationView>;
    /// Starts, pauses, resumes or cancels: holds from the next batch of items on.
    async fn steer_operation(&self, id: &str, by: Steer) -> Result<OperationView>;

    // What the engine does, a bounded piece at a time.

    /// Says that this replica is there; notices when none was.
    async fn stamp(&self, replica: &str) -> Result<()>;
    /// Folds a piece of what commits have appended into the figures, where the store appends.
    async fn fold_figures(&self) -> Result<Swept>;
    /// Gives attempts whose lease, idle time or deadline has passed their verdict.
    async fn rescue_expired(&self, most: usize) -> Result<Swept>;
    /// Dead-letters scheduled runs that nobody began in time.
    async fn reject_unclaimed(&self, most: usize) -> Result<Swept>;
    /// Dead-letters runs whose approval nobody gave in time.
    async fn expire_reviews(&self, most: usize) -> Result<Swept>;
    /// Lets go of what closed breakers held, a little at a time, the tenants in turn; one run to find out where a breaker
    /// is half open.
    async fn release_held(&self, most: usize) -> Result<Swept>;
    /// A piece of each operation that is open: its set, its moves, its outcomes.
    async fn work_operations(&self, replica: &str) -> Result<Swept>;
    /// Forgets changes older than what anybody still asks for.
    async fn trim_changes(&self, most: usize) -> Result<Swept>;
    /// Forgets what happened to breakers long ago.
    async fn trim_events(&self, most: usize) -> Result<Swept>;
    /// Forgets ledger entries long unused whose run is gone.
    async fn trim_ledger(&self, most: usize) -> Result<Swept>;

    // What people and programs read. A scope sees only its own; another's is not found.

    async fn runs(&self, scope: &TenantScope, filter: RunFilter, page: PageCall) -> Result<RunsPage>;
    /// A run with the newest of its attempts, steps and moves.
    async fn run(&self, at: &RunRef) -> Result<RunDetail> {
        self.run_pages(at, DetailCall::default()).await
    }
    /// A run with a page of each of its lists.
    async fn run_pages(&self, at: &RunRef, call: DetailCall) -> Result<RunDetail>;
    /// Whether a worker's key has begun or reported an attempt of the run.
    async fn was_worked_on_by(&self, at: &RunRef, key: KeyMark) -> Result<bool>;
    /// What an attempt got, and what that was made of.
    async fn sent(&self, at: &RunRef, attempt: u32) -> Result<Sent>;
    /// A payload as it was at a revision; without one, as it is.
    async fn revision(&self, at: &RunRef, revision: Option<u32>) -> Result<RevisionView>;
    async fn duplicates(&self, at: &RunRef) -> Result<DuplicatesAnswer>;
    async fn effect(&self, at: &EffectRef) -> Result<EffectView>;
    async fn patterns(&self, scope: &TenantScope, call: PatternsCall) -> Result<PatternsPage>;
    async fn pattern(&self, scope: &TenantScope, id: &str) -> Result<PatternDetail>;
    async fn operations(&self, limit: u32, cursor: Option<String>) -> Result<OperationsPage>;
    async fn operation(&self, id: &str) -> Result<OperationView>;
    async fn operation_items(&self, id: &str, call: ItemsCall) -> Result<OperationItemsPage>;
    async fn tenants(&self, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer>;
    async fn tenant_health(&self, tenant: &Tenant) -> Result<TenantHealth>;
    /// Breakers that are not closed, or have seen failures lately.
    async fn breakers(&self, scope: &TenantScope) -> Result<BreakersAnswer>;
    async fn tenant_breaker(&self, tenant: &Tenant) -> Result<TenantBreaker>;
    async fn health(&self, scope: &TenantScope) -> Result<HealthAnswer>;
    /// From the kept counters alone.
    async fn standing(&self, scope: &TenantScope) -> Result<Standing>;
    async fn stats(&self, scope: &TenantScope, call: StatsCall) -> Result<StatsAnswer>;
    async fn changes(&self, scope: &TenantScope, since: Option<String>) -> Result<ChangesAnswer>;

    async fn queues(&self, limit: u32, cursor: Option<String>) -> Result<QueuesAnswer>;
    async fn queue(&self, name: &QueueName) -> Result<QueueView>;
    /// What holds for a tenant's runs in a queue. One that is not there yet has the defaults, and is not made.
    async fn policy(&self, tenant: &Tenant, queue: &QueueName) -> Result<Arc<Policy>>;
    /// What the queue of a run asks of outputs. Costs nothing where no queue asks for anything.
    async fn output_schema(&self, at: &RunRef) -> Result<Option<OutputSchema>>;
    async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<QueueView>;

    async fn keys(&self) -> Result<Vec<KeyRecord>>;
    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>>;
    async fn put_key(&self, key: KeyRecord) -> Result<()>;
    /// Unless there is one already, whichever replica made it: then false, and nothing changes.
    async fn put_first_key(&self, key: KeyRecord) -> Result<bool>;
    /// False when there is no such key.
    async fn revoke_key(&self, id: &str) -> Result<bool>;

    /// Whether a write would be durable now; says what is wrong otherwise.
    async fn ready(&self) -> Result<()>;
    /// Answers what is queued, then closes; later calls get [`crate::Error::Closing`].
    async fn close(&self);
}
