//! SQLite as the engine's backend: commands go to the committer, reads to the readers.

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
use redrive_engine::attempt::start::CommittedStart;
use redrive_engine::clock::Clock as _;
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
use crate::shared::reader::{RunQueries as _, ready};
use crate::shared::runs;
use crate::sqlite::store::SqliteStore;

impl Backend for SqliteStore {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        self.committer.wakeups()
    }

    fn recovered(&self) -> watch::Receiver<u64> {
        self.committer.recovered()
    }

    fn has_writer(&self) -> bool {
        self.committer.is_running()
    }

    fn policies(&self) -> &PolicyCache {
        &self.policy_cache
    }

    fn metrics(&self) -> &StoreMetrics {
        self.committer.metrics()
    }

    async fn submit<T, F>(&self, route: Route, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.committer.commit(route.owner, act).await
    }

    async fn submit_each<T, F>(&self, acts: Vec<(Route, F)>) -> Vec<Result<T>>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        // On the account of the tenant that it begins with: only keys that span tenants send mixed ones.
        let owner = acts.first().map_or(Owner::System, |(route, _)| route.owner.clone());
        self.committer.commit_each(owner, acts.into_iter().map(|(_, act)| act).collect()).await
    }

    async fn inspect<T, F>(&self, owner: Owner, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.read_transaction(owner, act).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn drain_reports(&self) -> Result<()> {
        Ok(())
    }

    /// The one writer changes its cache with the queue.
    fn queue_changed(&self) {}

    /// A server that opens the folder ends all claims.
    fn works_on_operations_as(&self, _: &str) {}

    /// Each commit folds its own.
    async fn fold_figures(&self) -> Result<Swept> {
        Ok(Swept::default())
    }

    async fn complete_start(&self, owner: Owner, begun: CommittedStart) -> Result<Started> {
        self.read_for(owner, move |conn| ready(lease_contents::complete_start(conn, begun))).await
    }

    async fn complete_leases(&self, owner: Owner, granted: Vec<GrantedLease>) -> Result<Vec<LeasedRun>> {
        self.read_for(owner, move |conn| ready(lease_contents::complete_leases(conn, granted))).await
    }

    async fn pattern_view(&self, scope: &TenantScope, id: &str) -> Result<PatternView> {
        let (scope, id, now) = (scope.clone(), id.to_owned(), self.clock.now());
        self.read_for(&scope.clone(), move |conn| ready(patterns::one_pattern(conn, &scope, &id, now))).await
    }

    async fn operation_view(&self, id: i64) -> Result<OperationView> {
        self.read(move |conn| ready(operations::operation_view(conn, id))).await
    }

    async fn operation_items(&self, id: i64, call: ItemsCall) -> Result<OperationItemsPage> {
        self.read(move |conn| ready(operations::operation_items(conn, id, &call))).await
    }

    async fn open_operations(&self) -> Result<Vec<OperationRow>> {
        self.read(|conn| ready(operations::open_operations(conn))).await
    }

    async fn operation_row(&self, id: i64) -> Result<OperationRow> {
        self.read(move |conn| ready(operations::operation_row(conn, id))).await
    }

    async fn operation_spec(&self, id: i64) -> Result<NewOperation> {
        self.read(move |conn| ready(operations::operation_spec(conn, id))).await
    }

    async fn find_piece(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<FreezeSlice> {
        self.read(move |conn| ready(operation_work::find_piece(conn, &row, &spec))).await
    }

    async fn find_turn(&self, row: OperationRow, spec: Arc<NewOperation>) -> Result<MoveSlice> {
        let now = self.clock.now();
        self.read(move |conn| ready(operation_work::find_turn(conn, &row, &spec, now))).await
    }

    async fn find_outcomes(&self, id: i64, spec: Arc<NewOperation>) -> Result<Option<Outcomes>> {
        let (now, followed) = (self.clock.now(), self.followed.clone());
        self.read(move |conn| {
            let row = ready(operations::operation_row(conn, id))?;
            let from = followed.from(id, row.changes_seen);
            let outcomes = ready(operation_work::find_outcomes(conn, &row, &spec, from))?;
            followed.keep(id, &outcomes);
            Ok((row.open && outcomes.needs_commit(&row, &spec, now)).then_some(outcomes))
        })
        .await
    }

    async fn tenant_health(&self, tenant: &Tenant, limits: Limits) -> Result<TenantHealth> {
        let (tenant, now) = (tenant.clone(), self.clock.now());
        self.read_for(&tenant.clone(), move |conn| ready(figures::tenant_health(conn, &tenant, limits, now))).await
    }

    async fn queue_settings(&self, tenant: &Tenant, name: &QueueName) -> Result<Option<QueueSettings>> {
        let name = name.clone();
        self.read_for(tenant, move |conn| ready(queues::settings_of(conn, &name))).await
    }

    async fn declared_queue_settings(&self) -> Result<Vec<QueueSettings>> {
        self.read(|conn| ready(queues::declared_settings(conn))).await
    }

    async fn queue_of(&self, at: &RunRef) -> Result<Option<QueueName>> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| ready(conn.queue_of(&at))).await
    }

    async fn ready(&self) -> Result<()> {
        self.committer.ready().await
    }

    async fn close(&self) {
        self.committer.close().await;
        self.readers.close();
        self.key_readers.close();
    }
}

#[async_trait]
impl Reads for SqliteStore {
    async fn runs(&self, scope: &TenantScope, filter: RunFilter, page: PageCall) -> Result<RunsPage> {
        let (scope, now) = (scope.clone(), self.clock.now());
        self.read_for(&scope.clone(), move |conn| ready(runs::list_runs(conn, &scope, &filter, &page, now))).await
    }

    async fn run_pages(&self, at: &RunRef, call: DetailCall) -> Result<RunDetail> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| ready(detail::run_detail(conn, &at, &call))).await
    }

    async fn was_worked_on_by(&self, at: &RunRef, key: KeyMark) -> Result<bool> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| ready(detail::was_worked_on_by(conn, &at, key))).await
    }

    async fn sent(&self, at: &RunRef, attempt: u32) -> Result<SentPayload> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| ready(payloads::sent(conn, &at, attempt))).await
    }

    async fn revision(&self, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| ready(payloads::revision(conn, &at, revision))).await
    }

    async fn duplicates(&self, at: &RunRef) -> Result<DuplicatesAnswer> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| ready(duplicates::duplicates(conn, &at))).await
    }

    async fn patterns(&self, scope: &TenantScope, call: PatternsCall) -> Result<PatternsPage> {
        let (scope, now) = (scope.clone(), self.clock.now());
        self.read_for(&scope.clone(), move |conn| ready(patterns::list_patterns(conn, &scope, &call, now))).await
    }

    async fn pattern(&self, scope: &TenantScope, id: &str) -> Result<PatternDetail> {
        let (scope, id, now) = (scope.clone(), id.to_owned(), self.clock.now());
        self.read_for(&scope.clone(), move |conn| ready(patterns::pattern_detail(conn, &scope, &id, now))).await
    }

    async fn operations(&self, limit: u32, cursor: Option<String>) -> Result<OperationsPage> {
        self.read(move |conn| ready(operations::list_operations(conn, limit, cursor.as_deref()))).await
    }

    async fn tenants(&self, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer> {
        self.read(move |conn| ready(figures::list_tenants(conn, limit, cursor.as_deref()))).await
    }

    async fn health(&self, scope: &TenantScope) -> Result<HealthAnswer> {
        let (scope, now) = (scope.clone(), self.clock.now());
        let health = self.read_for(&scope.clone(), move |conn| ready(figures::health(conn, &scope, now))).await?;
        Ok(health.with_clock(self.clock.jump()))
    }

    async fn standing(&self, scope: &TenantScope) -> Result<StateCounts> {
        let scope = scope.clone();
        self.read_for(&scope.clone(), move |conn| ready(figures::standing(conn, &scope))).await
    }

    async fn stats(&self, scope: &TenantScope, call: StatsCall) -> Result<StatsAnswer> {
        let (scope, now) = (scope.clone(), self.clock.now());
        self.read_for(&scope.clone(), move |conn| ready(hours::stats(conn, &scope, &call, now))).await
    }

    async fn changes(&self, scope: &TenantScope, since: Option<String>) -> Result<ChangesAnswer> {
        let scope = scope.clone();
        self.read_for(&scope.clone(), move |conn| ready(changes::changes(conn, &scope, since.as_deref()))).await
    }

    async fn queues(&self, limit: u32, cursor: Option<String>) -> Result<QueuesAnswer> {
        self.read(move |conn| ready(queues::list_queues(conn, limit, cursor.as_deref()))).await
    }

    async fn queue(&self, name: &QueueName) -> Result<QueueView> {
        let name = name.clone();
        self.read(move |conn| ready(queues::one_queue(conn, &name))).await
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>> {
        self.read(|conn| ready(keys::list_keys(conn))).await
    }

    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        self.key_readers.run(&Owner::System, move |conn| ready(keys::key_by_hash(conn, &hash))).await
    }
}
