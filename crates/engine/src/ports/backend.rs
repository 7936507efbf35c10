//! What a store offers: durable transactions for use cases, and reads beside the writers.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::Limits;
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    ChangesAnswer, DuplicatesAnswer, HealthAnswer, LeasedRun, OperationItemsPage, OperationView, OperationsPage,
    PatternDetail, PatternView, PatternsPage, QueueSettings, QueueView, QueuesAnswer, RevisionView, RunDetail,
    RunsPage, StatsAnswer, TenantHealth, TenantsAnswer,
};
use tokio::sync::watch;

use crate::attempt::start::CommittedStart;
use crate::error::Result;
use crate::lease::grant::GrantedLease;
use crate::metrics::StoreMetrics;
use crate::model::StateCounts;
use crate::model::operations::{ItemsCall, NewOperation};
use crate::model::patterns::PatternsCall;
use crate::model::{
    DetailCall, FailedAttempt, KeyMark, KeyRecord, NewFailure, PageCall, RunFilter, RunRef, SentPayload, Start,
    Started, StatsCall, Swept, TenantScope,
};
use crate::operations::freeze::FreezeSlice;
use crate::operations::moves::MoveSlice;
use crate::operations::row::OperationRow;
use crate::operations::settle::Outcomes;
use crate::policies::PolicyCache;
use crate::tx::Tx;

/// A store. A use case is a function over [`Tx`]; [`Backend::submit`] makes it durable.
pub trait Backend: Reads {
    /// The store's clock decides order, due times and leases.
    fn now(&self) -> Timestamp;

    /// Changes whenever a run may have fallen due: a hint for waiting lease calls.
    fn wakeups(&self) -> watch::Receiver<u64>;

    /// Changes whenever a commit succeeds after others failed, so that services stop backing off.
    fn recovered(&self) -> watch::Receiver<u64>;

    /// False once a writer thread has ended.
    fn has_writer(&self) -> bool;

    fn policies(&self) -> &PolicyCache;

    fn metrics(&self) -> &StoreMetrics;

    /// Runs `act` in a durable transaction that it may share with other commands, and answers after the commit. `act` runs
    /// again if the transaction was rolled back.
    fn submit<T, F>(&self, route: Route, act: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static;

    /// Submits many commands. Each succeeds or fails alone; the answers are in their order.
    fn submit_each<T, F>(&self, acts: Vec<(Route, F)>) -> impl Future<Output = Vec<Result<T>>> + Send
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static;

    /// Runs `act` over a read-only snapshot, beside the writers.
    fn inspect<T, F>(&self, owner: Owner, act: F) -> impl Future<Output = Result<T>> + Send
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static;

    /// Whether other replicas write to the same store.
    fn is_shared(&self) -> bool;

    /// Returns once every report writer has committed a batch, so that heartbeats get through.
    fn drain_reports(&self) -> impl Future<Output = Result<()>> + Send;

    /// This replica changed a queue: writers drop their cached queues.
    fn queue_changed(&self);

    /// The name under which this replica claims operations; closing releases its claims.
    fn works_on_operations_as(&self, replica: &str);

    /// Folds a bounded number of counter deltas into the totals, if the store appends deltas.
    fn fold_figures(&self) -> impl Future<Output = Result<Swept>> + Send;

    // Reads of use cases, before or after a commit.

    /// Adds the recorded steps and payload to the start of a known run.
    fn complete_start(&self, owner: Owner, begun: CommittedStart) -> impl Future<Output = Result<Started>> + Send;
    /// Adds the payload, steps and last error of leased runs.
    fn complete_leases(
        &self,
        owner: Owner,
        granted: Vec<GrantedLease>,
    ) -> impl Future<Output = Result<Vec<LeasedRun>>> + Send;
    /// The pattern as lists show it.
    fn pattern_view(&self, scope: &TenantScope, id: &str) -> impl Future<Output = Result<PatternView>> + Send;
    fn operation_view(&self, id: i64) -> impl Future<Output = Result<OperationView>> + Send;
    fn operation_items(&self, id: i64, call: ItemsCall) -> impl Future<Output = Result<OperationItemsPage>> + Send;
    fn open_operations(&self) -> impl Future<Output = Result<Vec<OperationRow>>> + Send;
    fn operation_row(&self, id: i64) -> impl Future<Output = Result<OperationRow>> + Send;
    fn operation_spec(&self, id: i64) -> impl Future<Output = Result<NewOperation>> + Send;
    /// The next runs of an operation's set.
    fn find_piece(
        &self,
        row: OperationRow,
        spec: Arc<NewOperation>,
    ) -> impl Future<Output = Result<FreezeSlice>> + Send;
    /// The items whose turn it is.
    fn find_turn(&self, row: OperationRow, spec: Arc<NewOperation>) -> impl Future<Output = Result<MoveSlice>> + Send;
    /// Outcomes of moved items. None if they are not worth a commit.
    fn find_outcomes(&self, id: i64, spec: Arc<NewOperation>) -> impl Future<Output = Result<Option<Outcomes>>> + Send;
    fn tenant_health(&self, tenant: &Tenant, limits: Limits) -> impl Future<Output = Result<TenantHealth>> + Send;
    fn queue_settings(
        &self,
        tenant: &Tenant,
        name: &QueueName,
    ) -> impl Future<Output = Result<Option<QueueSettings>>> + Send;
    /// The settings of every queue that an admin or the configuration has set.
    fn declared_queue_settings(&self) -> impl Future<Output = Result<Vec<QueueSettings>>> + Send;
    fn queue_of(&self, at: &RunRef) -> impl Future<Output = Result<Option<QueueName>>> + Send;

    /// Fails if a write would not be durable now.
    fn ready(&self) -> impl Future<Output = Result<()>> + Send;

    /// Answers queued commands, then closes; later calls get [`crate::Error::Closing`].
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Reads of the API and the desk, beside the writers. A scope sees only its own tenant; anything else is not found.
#[async_trait]
pub trait Reads: Send + Sync + 'static {
    async fn runs(&self, scope: &TenantScope, filter: RunFilter, page: PageCall) -> Result<RunsPage>;
    /// A run with the newest of its attempts, steps and moves.
    async fn run(&self, at: &RunRef) -> Result<RunDetail> {
        self.run_pages(at, DetailCall::default()).await
    }
    /// A run with a page of each of its lists.
    async fn run_pages(&self, at: &RunRef, call: DetailCall) -> Result<RunDetail>;
    /// Whether a worker's key has begun or reported an attempt of the run.
    async fn was_worked_on_by(&self, at: &RunRef, key: KeyMark) -> Result<bool>;
    /// The payload that an attempt was sent, and its original.
    async fn sent(&self, at: &RunRef, attempt: u32) -> Result<SentPayload>;
    /// The payload at a revision, or the current one.
    async fn revision(&self, at: &RunRef, revision: Option<u32>) -> Result<RevisionView>;
    async fn duplicates(&self, at: &RunRef) -> Result<DuplicatesAnswer>;
    async fn patterns(&self, scope: &TenantScope, call: PatternsCall) -> Result<PatternsPage>;
    async fn pattern(&self, scope: &TenantScope, id: &str) -> Result<PatternDetail>;
    async fn operations(&self, limit: u32, cursor: Option<String>) -> Result<OperationsPage>;
    async fn tenants(&self, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer>;
    async fn health(&self, scope: &TenantScope) -> Result<HealthAnswer>;
    /// Reads counters only.
    async fn standing(&self, scope: &TenantScope) -> Result<StateCounts>;
    async fn stats(&self, scope: &TenantScope, call: StatsCall) -> Result<StatsAnswer>;
    async fn changes(&self, scope: &TenantScope, since: Option<String>) -> Result<ChangesAnswer>;
    async fn queues(&self, limit: u32, cursor: Option<String>) -> Result<QueuesAnswer>;
    async fn queue(&self, name: &QueueName) -> Result<QueueView>;
    async fn keys(&self) -> Result<Vec<KeyRecord>>;
    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>>;
}

/// The owner of a command, its lane, and what it will read.
#[derive(Debug, Clone)]
pub struct Route {
    pub owner: Owner,
    pub lane: Lane,
    pub prefetch: Prefetch,
}

/// Kinds of commands that a store may give separate writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// About one run. Commands of one run keep their order.
    Run,
    Claims,
    /// Commands of people and background services.
    Desk,
}

/// What a command will read, so that a store may prefetch it for a whole batch. A command may also read more.
#[derive(Debug, Clone, Default)]
pub struct Prefetch {
    pub run: Option<RunRef>,
    /// The command may create the run and its tenant.
    pub may_create: bool,
    /// Hash and version of a fingerprint.
    pub fingerprint: Option<(u64, u8)>,
    /// The report may repeat the last failure.
    pub last_failure: bool,
}

impl Route {
    /// A command of the server itself.
    pub fn system() -> Self {
        Self::desk(Owner::System)
    }

    pub fn desk(owner: impl Into<Owner>) -> Self {
        Self { owner: owner.into(), lane: Lane::Desk, prefetch: Prefetch::default() }
    }

    pub fn claims(owner: impl Into<Owner>) -> Self {
        Self { owner: owner.into(), lane: Lane::Claims, prefetch: Prefetch::default() }
    }

    pub fn run(at: &RunRef) -> Self {
        let prefetch = Prefetch { run: Some(at.clone()), ..Prefetch::default() };
        Self { owner: Owner::from(&at.tenant), lane: Lane::Run, prefetch }
    }

    pub fn report(report: &NewFailure) -> Self {
        let run = RunRef { tenant: report.run.tenant.clone(), run_id: report.run.run_id.clone() };
        let fingerprint = &report.failed.fingerprint;
        let prefetch = Prefetch {
            run: Some(run),
            may_create: true,
            fingerprint: Some((fingerprint.hash, fingerprint.version)),
            last_failure: report.failed.attempt.is_none(),
        };
        Self { owner: Owner::from(&report.run.tenant), lane: Lane::Run, prefetch }
    }

    pub fn start(start: &Start) -> Self {
        let run = RunRef { tenant: start.run.tenant.clone(), run_id: start.run.run_id.clone() };
        let mut route = Self::run(&run);
        route.prefetch.may_create = true;
        route
    }

    pub fn fail(at: &RunRef, failed: &FailedAttempt) -> Self {
        let mut route = Self::run(at);
        route.prefetch.fingerprint = Some((failed.fingerprint.hash, failed.fingerprint.version));
        route
    }
}

/// Who a command runs for. Owners take turns at the writer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Background services, and keys that span tenants.
    System,
    Tenant(Tenant),
}

impl From<&Tenant> for Owner {
    fn from(tenant: &Tenant) -> Self {
        Self::Tenant(tenant.clone())
    }
}

impl From<&TenantScope> for Owner {
    fn from(scope: &TenantScope) -> Self {
        match scope {
            TenantScope::One(tenant) => Self::Tenant(tenant.clone()),
            TenantScope::All => Self::System,
        }
    }
}

/// How much a batch may do before it commits.
pub trait Pace {
    /// Whether the batch has to end.
    fn is_over(&self) -> bool;
    /// How many of `most` runs one command may move; a later command continues.
    fn runs_max(&self, most: usize) -> usize;
}

/// No limit: for reads, and for writers that tenants do not share.
pub struct Unpaced;

impl Pace for Unpaced {
    fn is_over(&self) -> bool {
        false
    }

    fn runs_max(&self, most: usize) -> usize {
        most
    }
}
