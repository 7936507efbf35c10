//! Faults between a replica and the store: calls that never arrive, commits without an answer, slow calls. The replica's
//! clock drifts too.

use std::sync::{Arc, Mutex, PoisonError};

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
use redrive_engine::metrics::StoreMetrics;
use redrive_engine::ports::backend::Reads;
use redrive_engine::{
    BreakerAct, DetailCall, EffectRef, Error, FailedAttempt, ItemsCall, KeyMark, KeyRecord, LeaseCall, NewFailure,
    NewOperation, NewSentPayload, NewStep, PageCall, PatternAct, PatternsCall, Reconcile, Replay, Reported, Result,
    RunFilter, RunRef, SentPayload, Start, Started, StateCounts, StatsCall, Store, Success, Swept, TenantScope,
    TriageAct, Triaged, UnderLease,
};
use tokio::sync::watch;

use crate::backend::Chance;
use crate::scheduler::{Time, wait_for_all};

/// How often it goes wrong, in a thousand calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rates {
    pub lost_before: u64,
    pub lost_after: u64,
    pub slow: u64,
}

const SLOW_MAX_MS: u64 = 20_000;

/// The one store of a play, which can be away.
#[derive(Default)]
pub struct Shelf(Mutex<Option<Arc<dyn Store>>>);

impl Shelf {
    pub fn put(&self, store: Option<Arc<dyn Store>>) -> Option<Arc<dyn Store>> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), store)
    }

    pub fn get(&self) -> Result<Arc<dyn Store>> {
        let here = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        here.ok_or_else(|| Error::Unavailable("the store is away".into()))
    }
}

pub struct Faulty {
    pub shelf: Arc<Shelf>,
    pub time: Time,
    pub chance: Arc<Chance>,
    pub rates: Arc<Mutex<Rates>>,
    /// Ahead of everybody's time, or behind it.
    pub skew_ms: i64,
    pub wakeups: watch::Receiver<u64>,
}

/// What can happen to a call: all of it, what reads can bear, or nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Writes,
    Reads,
    Knows,
}

impl Faulty {
    fn rates(&self) -> Rates {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn before(&self, kind: Kind) -> Result<()> {
        let rates = self.rates();
        if kind == Kind::Knows {
            return Ok(());
        }
        if self.chance.happens(rates.slow) {
            self.time.sleep(self.chance.a_while_ms(SLOW_MAX_MS)).await;
        }
        if self.chance.happens(rates.lost_before) {
            return Err(Error::Unavailable("cut off before the commit".into()));
        }
        Ok(())
    }

    async fn after<T>(&self, kind: Kind, said: Result<T>) -> Result<T> {
        let rates = self.rates();
        if kind != Kind::Writes {
            return said;
        }
        if self.chance.happens(rates.slow) {
            self.time.sleep(self.chance.a_while_ms(SLOW_MAX_MS)).await;
        }
        if said.is_ok() && self.chance.happens(rates.lost_after) {
            return Err(Error::Unavailable("cut off after the commit".into()));
        }
        said
    }
}

macro_rules! faulty {
    (reads { $($read_kind:ident $read:ident($($read_arg:ident: $read_of:ty),*) -> $read_gives:ty;)* }
     $($kind:ident $verb:ident($($arg:ident: $of:ty),*) -> $gives:ty;)*) => {
        #[async_trait]
        impl Reads for Faulty {
            $(async fn $read(&self, $($read_arg: $read_of),*) -> Result<$read_gives> {
                self.before(Kind::$read_kind).await?;
                // Release the store before awaiting anything else.
                let said = wait_for_all(self.shelf.get()?.$read($($read_arg),*)).await;
                self.after(Kind::$read_kind, said).await
            })*
        }

        #[async_trait]
        impl Store for Faulty {
            fn now(&self) -> Timestamp {
                let now = self.shelf.get().map_or_else(|_| self.time.now(), |store| store.now());
                Timestamp::from_millis(now.as_millis().saturating_add(self.skew_ms))
            }

            fn wakeups(&self) -> watch::Receiver<u64> {
                self.wakeups.clone()
            }

            fn recovered(&self) -> watch::Receiver<u64> {
                watch::channel(0).1
            }

            fn has_writer(&self) -> bool {
                self.shelf.get().is_ok_and(|store| store.has_writer())
            }

            fn metrics(&self) -> StoreMetrics {
                self.shelf.get().map(|store| store.metrics()).unwrap_or_default()
            }

            $(async fn $verb(&self, $($arg: $of),*) -> Result<$gives> {
                self.before(Kind::$kind).await?;
                // Release the store before awaiting anything else.
                let said = wait_for_all(self.shelf.get()?.$verb($($arg),*)).await;
                self.after(Kind::$kind, said).await
            })*

            async fn report_all(&self, reports: Vec<NewFailure>) -> Vec<Result<Reported>> {
                let count = reports.len();
                let store = match self.before(Kind::Writes).await.and_then(|()| self.shelf.get()) {
                    Ok(store) => store,
                    Err(error) => return refuse_all(count, &error),
                };
                let said = store.report_all(reports).await;
                drop(store);
                match self.after(Kind::Writes, Ok(())).await {
                    Ok(()) => said,
                    Err(error) => refuse_all(count, &error),
                }
            }

            async fn heartbeats(&self, leases: Vec<UnderLease>) -> Vec<Result<Timestamp>> {
                let count = leases.len();
                let store = match self.before(Kind::Writes).await.and_then(|()| self.shelf.get()) {
                    Ok(store) => store,
                    Err(error) => return refuse_all(count, &error),
                };
                let said = store.heartbeats(leases).await;
                drop(store);
                match self.after(Kind::Writes, Ok(())).await {
                    Ok(()) => said,
                    Err(error) => refuse_all(count, &error),
                }
            }

            async fn keep_sent(&self, sent: Vec<(UnderLease, NewSentPayload)>) -> Vec<Result<()>> {
                let count = sent.len();
                match self.before(Kind::Writes).await.and_then(|()| self.shelf.get()) {
                    Ok(store) => store.keep_sent(sent).await,
                    Err(error) => refuse_all(count, &error),
                }
            }

            /// The store outlives its replicas.
            async fn close(&self) {}
        }
    };
}

fn refuse_all<T>(count: usize, error: &Error) -> Vec<Result<T>> {
    (0..count).map(|_| Err(Error::Unavailable(error.to_string().into()))).collect()
}

faulty! {
    reads {
        Reads runs(scope: &TenantScope, filter: RunFilter, page: PageCall) -> RunsPage;
        Reads run_pages(at: &RunRef, call: DetailCall) -> RunDetail;
        Reads was_worked_on_by(at: &RunRef, key: KeyMark) -> bool;
        Reads sent(at: &RunRef, attempt: u32) -> SentPayload;
        Reads revision(at: &RunRef, revision: Option<u32>) -> RevisionView;
        Reads duplicates(at: &RunRef) -> DuplicatesAnswer;
        Reads patterns(scope: &TenantScope, call: PatternsCall) -> PatternsPage;
        Reads pattern(scope: &TenantScope, id: &str) -> PatternDetail;
        Reads operations(limit: u32, cursor: Option<String>) -> OperationsPage;
        Reads tenants(limit: u32, cursor: Option<String>) -> TenantsAnswer;
        Reads health(scope: &TenantScope) -> HealthAnswer;
        Reads standing(scope: &TenantScope) -> StateCounts;
        Reads stats(scope: &TenantScope, call: StatsCall) -> StatsAnswer;
        Reads changes(scope: &TenantScope, since: Option<String>) -> ChangesAnswer;
        Reads queues(limit: u32, cursor: Option<String>) -> QueuesAnswer;
        Reads queue(name: &QueueName) -> QueueView;
        Knows keys() -> Vec<KeyRecord>;
        Knows key_by_hash(hash: [u8; 32]) -> Option<KeyRecord>;
    }
    Writes report(report: NewFailure) -> Reported;
    Writes start(start: Start) -> Started;
    Writes heartbeat(under: UnderLease) -> Timestamp;
    Writes step(under: UnderLease, step: NewStep) -> StepView;
    Writes succeed(success: Success) -> SucceedAnswer;
    Writes fail(under: UnderLease, failed: FailedAttempt) -> FailureAnswer;
    Writes release(under: UnderLease) -> StateAnswer;
    Writes lease(call: LeaseCall) -> Vec<LeasedRun>;
    Writes triage(act: TriageAct) -> Triaged;
    Reads plan(at: &RunRef, replay: Replay) -> PlanAnswer;
    Writes reconcile(act: Reconcile) -> EffectView;
    Writes triage_pattern(act: PatternAct) -> PatternView;
    Writes operate_breaker(act: BreakerAct) -> BreakerView;
    Writes create_operation(new: NewOperation, actor: String) -> OperationView;
    Writes steer_operation(id: &str, by: Steer) -> OperationView;
    Writes stamp(replica: &str) -> ();
    Writes fold_figures() -> Swept;
    Writes rescue_expired(most: usize) -> Swept;
    Writes reject_unclaimed(most: usize) -> Swept;
    Writes expire_reviews(most: usize) -> Swept;
    Writes release_held(most: usize) -> Swept;
    Writes work_operations(replica: &str) -> Swept;
    Writes trim_changes(most: usize) -> Swept;
    Writes trim_events(most: usize) -> Swept;
    Writes trim_ledger(most: usize) -> Swept;
    Reads effect(at: &EffectRef) -> EffectView;
    Reads operation(id: &str) -> OperationView;
    Reads operation_items(id: &str, call: ItemsCall) -> OperationItemsPage;
    Reads tenant_health(tenant: &Tenant) -> TenantHealth;
    Reads breakers(scope: &TenantScope) -> BreakersAnswer;
    Reads tenant_breaker(tenant: &Tenant) -> TenantBreaker;
    Knows policy(tenant: &Tenant, queue: &QueueName) -> Arc<Policy>;
    Knows output_schema(at: &RunRef) -> Option<OutputSchema>;
    Writes put_queue(name: QueueName, settings: QueueSettings) -> QueueView;
    Writes put_key(key: KeyRecord) -> ();
    Writes put_first_key(key: KeyRecord) -> bool;
    Writes revoke_key(id: &str) -> bool;
    Knows ready() -> ();
}
