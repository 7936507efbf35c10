//! PostgreSQL as the engine's backend: commands go to the committer, reads to the readers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::Limits;
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    ChangesAnswer, DuplicatesAnswer, HealthAnswer, LeasedRun, OperationItemsPage, OperationView, OperationsPage,
    PatternDetail, PatternView, PatternsPage, QueueSettings, QueueView, QueuesAnswer, RevisionView, RunDetail,
    RunsPage, StatsAnswer, TenantHealth, TenantsAnswer,
};
use redrive_engine::attempt::start::CommittedStart;
use redrive_engine::error::Result;
use redrive_engine::lease::grant::GrantedLease;
use redrive_engine::metrics::StoreMetrics;
use redrive_engine::model::StateCounts;
use redrive_engine::model::operations::{ItemsCall, NewOperation};
use redrive_engine::model::patterns::PatternsCall;
use redrive_engine::model::{
    DetailCall, KeyMark, KeyRecord, PageCall, RunFilter, RunRef, SentPayload, Started, StatsCall, Swept, TenantScope,
};
use redrive_engine::operations::freeze::FreezeSlice;
use redrive_engine::operations::moves::MoveSlice;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::operations::settle::Outcomes;
use redrive_engine::policies::PolicyCache;
use redrive_engine::ports::backend::{Backend, Owner, Reads, Route};
use redrive_engine::tx::Tx;
use tokio::sync::watch;

use crate::postgres::connection::{ANSWER_MAX, within};
use crate::postgres::store::{PgStore, read};
use crate::shared::changes;
use crate::shared::detail;
use crate::shared::duplicates;
use crate::shared::figures;
use crate::shared::hours;
use crate::shared::keys;
use crate::shared::lease_contents;
use crate::shared::operation_work;
use crate::shared::operations;
use crate::shared::patterns;
use crate::shared::payloads;
use crate::shared::queues;
use crate::shared::reader::RunQueries as _;
use crate::shared::runs;

/// How long a closing store takes to give up its operations.
const RELEASE_MAX: Duration = Duration::from_secs(1);

impl Backend for PgStore {
    fn now(&self) -> Timestamp {
        self.shared.time.now()
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        self.shared.wakeups.waiting()
    }

    fn recovered(&self) -> watch::Receiver<u64> {
        self.committer.recovered()
    }

    fn has_writer(&self) -> bool {
        self.committer.are_running()
    }

    fn policies(&self) -> &PolicyCache {
        &self.policy_cache
    }

    fn metrics(&self) -> &StoreMetrics {
        &self.shared.metrics
    }

    async fn submit<T, F>(&self, route: Route, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.committer.commit(route, act).await
    }

    async fn submit_each<T, F>(&self, acts: Vec<(Route, F)>) -> Vec<Result<T>>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.committer.commit_each(acts).await
    }

    async fn inspect<T, F>(&self, _: Owner, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.batch_readers.read(act).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn drain_reports(&self) -> Result<()> {
        self.committer.drain_reports().await
    }

    fn queue_changed(&self) {
        self.shared.queues_set.fetch_add(1, Ordering::SeqCst);
    }

    fn works_on_operations_as(&self, replica: &str) {
        self.worker.get_or_init(|| replica.to_owned());
    }

    async fn fold_figures(&self) -> Result<Swept> {
        self.fold().await
    }

    async fn complete_start(&self, _: Owner, begun: CommittedStart) -> Result<Started> {
        read!(self, snapshot => lease_contents::complete_start(&snapshot, begun))
    }

    async fn complete_leases(&self, _: Owner, granted: Vec<GrantedLease>) -> Result<Vec<LeasedRun>> {
        read!(self, snapshot => lease_contents::complete_leases(&snapshot, granted))
    }

    async fn pattern_view(&self, scope: &TenantScope, id: &str) -> Result<PatternView> {
        let (scope, id, now) = (scope.clone(), id.to_owned(), self.shared.time.now());
        read!(self, snapshot => patterns::one_pattern(&snapshot, &scope, &id, now))
    }

    async fn operation_view(&self, id: i64) -> Result<OperationView> {
        read!(self, snapshot => operations::operation_view(&snapshot, id))
    }

    async fn operation_items(&self, id: i64, call: ItemsCall) -> Result<OperationItemsPage> {
        read!(self, snapshot => operations::operation_items(&snapshot, id, &call))
    }

    async fn open_operations(&self) -> Result<Vec<OperationRow>> {
        read!(self, snapshot => operations::open_operations(&snapshot))
    }

    async fn operation_row(&self, id: i64) -> Result<OperationRow> {
        read!(self, snapshot => operations::operation_row(&snapshot, id))
    }

    async fn operation_spec(&self, id: i64) -> Result<NewOperation> {
        read!(self, snapshot => operations::operation_spec(&snapshot, id))
    }

    async fn find_piece(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<FreezeSlice> {
        read!(self, snapshot => operation_work::find_piece(&snapshot, &row, &spec))
    }

    async fn find_turn(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<MoveSlice> {
        let now = self.shared.time.now();
        read!(self, snapshot => operation_work::find_turn(&snapshot, &row, &spec, now))
    }

    async fn find_outcomes(&self, id: i64, spec: Arc<NewOperation>) -> Result<Option<Outcomes>> {
        // What commits appended has to be in the log before it is read.
        self.log_changes().await?;
        let (row, outcomes) = read!(self, snapshot => async {
            let row = operations::operation_row(&snapshot, id).await?;
            let from = self.followed.from(id, row.changes_seen);
            let outcomes = operation_work::find_outcomes(&snapshot, &row, &spec, from).await?;
            Ok((row, outcomes))
        })?;
        self.followed.keep(id, &outcomes);
        Ok((row.open && outcomes.needs_commit(&row, &spec, self.shared.time.now())).then_some(outcomes))
    }

    async fn tenant_health(&self, tenant: &Tenant, limits: Limits) -> Result<TenantHealth> {
        let (tenant, now) = (tenant.clone(), self.shared.time.now());
        read!(self, snapshot => figures::tenant_health(&snapshot, &tenant, limits, now))
    }

    async fn queue_settings(&self, _: &Tenant, name: &QueueName) -> Result<Option<QueueSettings>> {
        let name = name.clone();
        read!(self, snapshot => queues::settings_of(&snapshot, &name))
    }

    async fn declared_queue_settings(&self) -> Result<Vec<QueueSettings>> {
        read!(self, snapshot => queues::declared_settings(&snapshot))
    }

    async fn queue_of(&self, at: &RunRef) -> Result<Option<QueueName>> {
        let at = at.clone();
        read!(self, snapshot => snapshot.queue_of(&at))
    }

    async fn ready(&self) -> Result<()> {
        self.committer.ready().await
    }

    async fn close(&self) {
        if let Some(replica) = self.worker.get().cloned() {
            // Another replica goes on with its operations at once; without this, when the claim ends.
            let release = self.write(move |tx| Ok(tx.rows.release_claims(Some(&replica))?));
            if !matches!(tokio::time::timeout(RELEASE_MAX, release).await, Ok(Ok(()))) {
                tracing::debug!("claims on operations not released");
            }
        }
        self.committer.close().await;
        self.batch_readers.close().await;
        self.notifier.close().await;
        self.readers.close();
        self.key_readers.close();
        drop(self.folding.lock().await.take());
    }
}

#[async_trait]
impl Reads for PgStore {
    async fn runs(&self, scope: &TenantScope, filter: RunFilter, page: PageCall) -> Result<RunsPage> {
        let (scope, now) = (scope.clone(), self.shared.time.now());
        read!(self, snapshot => runs::list_runs(&snapshot, &scope, &filter, &page, now))
    }

    async fn run_pages(&self, at: &RunRef, call: DetailCall) -> Result<RunDetail> {
        let at = at.clone();
        read!(self, snapshot => detail::run_detail(&snapshot, &at, &call))
    }

    async fn was_worked_on_by(&self, at: &RunRef, key: KeyMark) -> Result<bool> {
        let at = at.clone();
        read!(self, snapshot => detail::was_worked_on_by(&snapshot, &at, key))
    }

    async fn sent(&self, at: &RunRef, attempt: u32) -> Result<SentPayload> {
        let at = at.clone();
        read!(self, snapshot => payloads::sent(&snapshot, &at, attempt))
    }

    async fn revision(&self, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
        let at = at.clone();
        read!(self, snapshot => payloads::revision(&snapshot, &at, revision))
    }

    async fn duplicates(&self, at: &RunRef) -> Result<DuplicatesAnswer> {
        let at = at.clone();
        read!(self, snapshot => duplicates::duplicates(&snapshot, &at))
    }

    async fn patterns(&self, scope: &TenantScope, call: PatternsCall) -> Result<PatternsPage> {
        let (scope, now) = (scope.clone(), self.shared.time.now());
        read!(self, snapshot => patterns::list_patterns(&snapshot, &scope, &call, now))
    }

    async fn pattern(&self, scope: &TenantScope, id: &str) -> Result<PatternDetail> {
        let (scope, id, now) = (scope.clone(), id.to_owned(), self.shared.time.now());
        read!(self, snapshot => patterns::pattern_detail(&snapshot, &scope, &id, now))
    }

    async fn operations(&self, limit: u32, cursor: Option<String>) -> Result<OperationsPage> {
        read!(self, snapshot => operations::list_operations(&snapshot, limit, cursor.as_deref()))
    }

    async fn tenants(&self, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer> {
        read!(self, snapshot => figures::list_tenants(&snapshot, limit, cursor.as_deref()))
    }

    async fn health(&self, scope: &TenantScope) -> Result<HealthAnswer> {
        let (scope, now) = (scope.clone(), self.shared.time.now());
        read!(self, snapshot => figures::health(&snapshot, &scope, now))
    }

    async fn standing(&self, scope: &TenantScope) -> Result<StateCounts> {
        let scope = scope.clone();
        read!(self, snapshot => figures::standing(&snapshot, &scope))
    }

    async fn stats(&self, scope: &TenantScope, call: StatsCall) -> Result<StatsAnswer> {
        let (scope, now) = (scope.clone(), self.shared.time.now());
        read!(self, snapshot => hours::stats(&snapshot, &scope, &call, now))
    }

    async fn changes(&self, scope: &TenantScope, since: Option<String>) -> Result<ChangesAnswer> {
        let scope = scope.clone();
        self.log_changes().await?;
        read!(self, snapshot => changes::changes(&snapshot, &scope, since.as_deref()))
    }

    async fn queues(&self, limit: u32, cursor: Option<String>) -> Result<QueuesAnswer> {
        read!(self, snapshot => queues::list_queues(&snapshot, limit, cursor.as_deref()))
    }

    async fn queue(&self, name: &QueueName) -> Result<QueueView> {
        let name = name.clone();
        read!(self, snapshot => queues::one_queue(&snapshot, &name))
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>> {
        read!(self, snapshot => keys::list_keys(&snapshot))
    }

    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        let read = async {
            let view = self.key_readers.view().await?;
            let answer = keys::key_by_hash(&view.snapshot(), &hash).await;
            view.done(answer).await
        };
        within(ANSWER_MAX, read).await
    }
}
