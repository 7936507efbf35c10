//! The trait's verbs over SQLite: writes go to the committer, reads to the readers, and each call is a line or two.

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
use crate::clock::Clock as _;
use crate::commands::batch::Batch;
use crate::commands::lease::Rest;
use crate::commands::operation_row::number_of;
use crate::commands::queue::Owner;
use crate::commands::sent::keep_sent;
use crate::commands::{
    breakers, effects, lease, operation_make, operation_steer, operation_work, pattern_triage, plans, report, reviews,
    start, sweep, triage, under_lease,
};
use crate::error::Result;
use crate::model::{
    DetailCall, EffectRef, FailedAttempt, KeyMark, KeyRecord, LeaseCall, NewSent, NewStep, PageCall, Reconcile, Report,
    Reported, RunFilter, RunRef, Sent, Start, Started, StatsCall, Success, Swept, TenantScope, UnderLease,
};
use crate::operation_model::{ItemsCall, NewOperation};
use crate::pattern_model::{PatternAct, PatternsCall};
use crate::sqlite::rows::{Memory, SqliteRows};
use crate::sqlite::store::SqliteStore;
use crate::sqlite::{
    changes, detail, duplicates, figures, handing_out, hours, keys, list, operation_list, pattern_detail, pattern_list,
    queue_list, revisions, sent,
};
use crate::standing_model::Standing;
use crate::store::Store;
use crate::triage_model::{Act, Replay, Triaged};

/// A group is on the account of the tenant that it begins with: only keys that span tenants send mixed ones.
fn owner_of_all(first: Option<&Tenant>) -> Owner {
    first.map_or(Owner::System, Owner::from)
}

// What a command holds is boxed: on its way to the committer and back it is moved half a dozen times.
#[async_trait]
impl Store for SqliteStore {
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

    async fn report(&self, report: Report) -> Result<Reported> {
        let (owner, report) = (Owner::from(&report.run.tenant), Box::new(report));
        self.write_for(owner, move |batch| report::report(batch, &report)).await
    }

    async fn report_all(&self, reports: Vec<Report>) -> Vec<Result<Reported>> {
        let reports = Arc::new(reports);
        let act = |at: usize| {
            let reports = reports.clone();
            move |batch: &mut Batch<'_>| report::report_of(batch, &reports, at)
        };
        let owner = owner_of_all(reports.first().map(|report| &report.run.tenant));
        self.committer.commit_each(owner, (0..reports.len()).map(act).collect()).await
    }

    async fn start(&self, start: Start) -> Result<Started> {
        let (owner, start) = (Owner::from(&start.run.tenant), Box::new(start));
        let begun = self.write_for(owner.clone(), move |batch| start::start(batch, &start)).await?;
        if begun.is_whole() {
            return Ok(begun.into_started());
        }
        self.read_for(owner, move |conn| handing_out::complete_start(conn, begun)).await
    }

    async fn heartbeat(&self, under: UnderLease) -> Result<Timestamp> {
        self.write_for(&under.at.tenant.clone(), move |batch| under_lease::heartbeat(batch, &under)).await
    }

    async fn heartbeats(&self, leases: Vec<UnderLease>) -> Vec<Result<Timestamp>> {
        let owner = owner_of_all(leases.first().map(|under| &under.at.tenant));
        let acts = leases.into_iter().map(|under| move |batch: &mut Batch<'_>| under_lease::heartbeat(batch, &under));
        self.committer.commit_each(owner, acts.collect()).await
    }

    async fn step(&self, under: UnderLease, step: NewStep) -> Result<StepView> {
        self.write_for(&under.at.tenant.clone(), move |batch| under_lease::step(batch, &under, &step)).await
    }

    async fn succeed(&self, success: Success) -> Result<SucceedAnswer> {
        let success = Box::new(success);
        self.write_for(&success.at.tenant.clone(), move |batch| under_lease::succeed(batch, &success)).await
    }

    async fn fail(&self, under: UnderLease, failed: FailedAttempt) -> Result<FailureAnswer> {
        let failed = Box::new(failed);
        self.write_for(&under.at.tenant.clone(), move |batch| under_lease::fail(batch, &under, &failed)).await
    }

    async fn release(&self, under: UnderLease) -> Result<StateAnswer> {
        self.write_for(&under.at.tenant.clone(), move |batch| under_lease::release(batch, &under)).await
    }

    async fn lease(&self, call: LeaseCall) -> Result<Vec<LeasedRun>> {
        let (owner, call) = (Owner::from(&call.scope), Arc::new(call));
        let (mut granted, mut rest) = (Vec::new(), Some(Rest::all(&call)));
        while let Some(before) = rest.take() {
            let call = call.clone();
            match self.write_for(owner.clone(), move |batch| lease::lease(batch, &call, &before)).await {
                Ok(dealt) => {
                    granted.extend(dealt.granted);
                    rest = dealt.rest;
                }
                // What was handed out before is the caller's.
                Err(_) if !granted.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if granted.is_empty() {
            return Ok(Vec::new());
        }
        self.read_for(owner, move |conn| handing_out::complete_leases(conn, granted)).await
    }

    async fn keep_sent(&self, sent: Vec<(UnderLease, NewSent)>) -> Vec<Result<()>> {
        let owner = owner_of_all(sent.first().map(|(under, _)| &under.at.tenant));
        let acts = sent.into_iter().map(|(under, sent)| move |batch: &mut Batch<'_>| keep_sent(batch, &under, &sent));
        self.committer.commit_each(owner, acts.collect()).await
    }

    async fn triage(&self, act: Act) -> Result<Triaged> {
        self.write_for(&act.at.tenant.clone(), move |batch| triage::triage(batch, &act)).await
    }

    async fn plan(&self, at: &RunRef, replay: Replay) -> Result<PlanAnswer> {
        let at = at.clone();
        // A replay looks again: who plans holds up nobody who writes.
        self.read_batch(&at.tenant.clone(), move |batch| plans::plan(batch, &at, &replay)).await
    }

    async fn reconcile(&self, act: Reconcile) -> Result<EffectView> {
        self.write_for(&act.at.tenant.clone(), move |batch| effects::reconcile(batch, &act)).await
    }

    async fn triage_pattern(&self, act: PatternAct) -> Result<PatternView> {
        let (scope, now) = (act.scope.clone(), self.now());
        let shown =
            self.write_for(&act.scope.clone(), move |batch| pattern_triage::triage_pattern(batch, &act)).await?;
        self.read_for(&scope.clone(), move |conn| pattern_list::one_pattern(conn, &scope, &shown, now)).await
    }

    async fn operate_breaker(&self, act: BreakerAct) -> Result<BreakerView> {
        self.write(move |batch| breakers::operate(batch, &act)).await
    }

    async fn release_held(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| breakers::release_held(batch, most)).await
    }

    async fn breakers(&self, scope: &TenantScope) -> Result<BreakersAnswer> {
        let scope = scope.clone();
        self.read_batch(&scope.clone(), move |batch| breakers::breakers(batch, &scope)).await
    }

    async fn tenant_breaker(&self, tenant: &Tenant) -> Result<TenantBreaker> {
        let tenant = tenant.clone();
        self.read_batch(&tenant.clone(), move |batch| breakers::tenant_breaker(batch, &tenant)).await
    }

    async fn create_operation(&self, new: NewOperation, actor: String) -> Result<OperationView> {
        let id = self.write(move |batch| operation_make::make(batch, &new, &actor)).await?;
        operation_work::freeze_at_once(self, id).await?;
        self.read(move |conn| operation_list::one(conn, id)).await
    }

    async fn steer_operation(&self, id: &str, by: Steer) -> Result<OperationView> {
        let id = number_of(id)?;
        self.write(move |batch| operation_steer::steer(batch, id, by)).await?;
        self.read(move |conn| operation_list::one(conn, id)).await
    }

    async fn stamp(&self, replica: &str) -> Result<()> {
        let replica = replica.to_owned();
        self.write(move |batch| sweep::stamp(batch, &replica)).await
    }

    /// Each commit folds its own.
    async fn fold_figures(&self) -> Result<Swept> {
        Ok(Swept::default())
    }

    async fn rescue_expired(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| sweep::rescue_expired(batch, most)).await
    }

    async fn reject_unclaimed(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| sweep::reject_unclaimed(batch, most)).await
    }

    async fn expire_reviews(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| reviews::expire_reviews(batch, most)).await
    }

    async fn work_operations(&self, replica: &str) -> Result<Swept> {
        operation_work::round(self, replica).await
    }

    async fn trim_changes(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| sweep::trim_changes(batch, most)).await
    }

    async fn trim_events(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| breakers::trim_events(batch, most)).await
    }

    async fn trim_ledger(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| effects::trim(batch, most)).await
    }

    async fn runs(&self, scope: &TenantScope, filter: RunFilter, page: PageCall) -> Result<RunsPage> {
        let (scope, now) = (scope.clone(), self.now());
        self.read_for(&scope.clone(), move |conn| list::list_runs(conn, &scope, &filter, &page, now)).await
    }

    async fn run_pages(&self, at: &RunRef, call: DetailCall) -> Result<RunDetail> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| detail::run_detail(conn, &at, &call)).await
    }

    async fn was_worked_on_by(&self, at: &RunRef, key: KeyMark) -> Result<bool> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| detail::was_worked_on_by(conn, &at, key)).await
    }

    async fn sent(&self, at: &RunRef, attempt: u32) -> Result<Sent> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| sent::sent(conn, &at, attempt)).await
    }

    async fn revision(&self, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| revisions::revision(conn, &at, revision)).await
    }

    async fn duplicates(&self, at: &RunRef) -> Result<DuplicatesAnswer> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| duplicates::duplicates(conn, &at)).await
    }

    async fn effect(&self, at: &EffectRef) -> Result<EffectView> {
        let at = at.clone();
        self.read_for(&at.tenant.clone(), move |conn| {
            effects::effect(&mut SqliteRows::new(conn, &mut Memory::default()), &at)
        })
        .await
    }

    async fn patterns(&self, scope: &TenantScope, call: PatternsCall) -> Result<PatternsPage> {
        let (scope, now) = (scope.clone(), self.now());
        self.read_for(&scope.clone(), move |conn| pattern_list::list_patterns(conn, &scope, &call, now)).await
    }

    async fn pattern(&self, scope: &TenantScope, id: &str) -> Result<PatternDetail> {
        let (scope, id, now) = (scope.clone(), id.to_owned(), self.now());
        self.read_for(&scope.clone(), move |conn| pattern_detail::pattern_detail(conn, &scope, &id, now)).await
    }

    async fn operations(&self, limit: u32, cursor: Option<String>) -> Result<OperationsPage> {
        self.read(move |conn| operation_list::list(conn, limit, cursor.as_deref())).await
    }

    async fn operation(&self, id: &str) -> Result<OperationView> {
        let id = number_of(id)?;
        self.read(move |conn| operation_list::one(conn, id)).await
    }

    async fn operation_items(&self, id: &str, call: ItemsCall) -> Result<OperationItemsPage> {
        let id = number_of(id)?;
        self.read(move |conn| operation_list::items(conn, id, &call)).await
    }

    async fn tenants(&self, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer> {
        self.read(move |conn| figures::list_tenants(conn, limit, cursor.as_deref())).await
    }

    async fn tenant_health(&self, tenant: &Tenant) -> Result<TenantHealth> {
        let (tenant, limits, now) = (tenant.clone(), self.shelf.limits_of(tenant), self.now());
        self.read_for(&tenant.clone(), move |conn| figures::tenant_health(conn, &tenant, limits, now)).await
    }

    async fn health(&self, scope: &TenantScope) -> Result<HealthAnswer> {
        let (scope, now) = (scope.clone(), self.now());
        let health = self.read_for(&scope.clone(), move |conn| figures::health(conn, &scope, now)).await?;
        Ok(health.with_clock(self.clock.jump()))
    }

    async fn standing(&self, scope: &TenantScope) -> Result<Standing> {
        let scope = scope.clone();
        self.read_for(&scope.clone(), move |conn| figures::how_it_stands(conn, &scope)).await
    }

    async fn stats(&self, scope: &TenantScope, call: StatsCall) -> Result<StatsAnswer> {
        let (scope, now) = (scope.clone(), self.now());
        self.read_for(&scope.clone(), move |conn| hours::stats(conn, &scope, &call, now)).await
    }

    async fn changes(&self, scope: &TenantScope, since: Option<String>) -> Result<ChangesAnswer> {
        let scope = scope.clone();
        self.read_for(&scope.clone(), move |conn| changes::changes(conn, &scope, since.as_deref())).await
    }

    async fn queues(&self, limit: u32, cursor: Option<String>) -> Result<QueuesAnswer> {
        self.read(move |conn| queue_list::list_queues(conn, limit, cursor.as_deref())).await
    }

    async fn queue(&self, name: &QueueName) -> Result<QueueView> {
        let name = name.clone();
        self.read(move |conn| queue_list::one_queue(conn, &name)).await
    }

    async fn policy(&self, tenant: &Tenant, queue: &QueueName) -> Result<Arc<Policy>> {
        if let Some(policy) = self.shelf.find(tenant, queue) {
            return Ok(policy);
        }
        let (asked, name) = (self.shelf.ask(), queue.clone());
        let settings = self.read_for(tenant, move |conn| queue_list::settings_of(conn, &name)).await?;
        Ok(self.shelf.put(asked, tenant, queue, settings.as_ref()))
    }

    async fn output_schema(&self, at: &RunRef) -> Result<Option<OutputSchema>> {
        if !self.schemas.any() {
            return Ok(None);
        }
        let run = at.clone();
        let queue = self.read_for(&at.tenant, move |conn| queue_list::queue_of(conn, &run)).await?;
        match queue {
            Some(queue) => Ok(self.policy(&at.tenant, &queue).await?.detect.output_schema.clone()),
            None => Ok(None),
        }
    }

    async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<QueueView> {
        let put = name.clone();
        self.schemas.note(&settings);
        self.write(move |batch| batch.put_queue(&put, settings.clone()).map(|_| ())).await?;
        self.shelf.forget();
        self.queue(&name).await
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>> {
        self.read(keys::list_keys).await
    }

    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        self.key_readers.run(&Owner::System, move |conn| keys::key_by_hash(conn, &hash)).await
    }

    async fn put_key(&self, key: KeyRecord) -> Result<()> {
        self.write(move |batch| batch.rows.insert_key(&key)).await
    }

    async fn put_first_key(&self, key: KeyRecord) -> Result<bool> {
        self.write(move |batch| batch.put_first_key(&key)).await
    }

    async fn revoke_key(&self, id: &str) -> Result<bool> {
        let id = id.to_owned();
        self.write(move |batch| batch.rows.revoke_key(&id, batch.now)).await
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
