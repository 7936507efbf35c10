//! The store as the server sees it: one method per use case, written once over any [`Backend`]. A method that returns `Ok`
//! has committed.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::detect::OutputSchema;
use redrive_core::ids::{QueueName, Tenant};
use redrive_core::operation::Steer;
use redrive_core::policy::Policy;
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    BreakerView, BreakersAnswer, EffectView, FailureAnswer, LeasedRun, OperationItemsPage, OperationView, PatternView,
    PlanAnswer, QueueSettings, QueueView, StateAnswer, StepView, SucceedAnswer, TenantBreaker, TenantHealth,
};
use tokio::sync::watch;

use crate::attempt::{start, under_lease};
use crate::breakers::BreakerAct;
use crate::error::{Reported, Result};
use crate::ingest::report;
use crate::lease::claim::{ClaimProgress, claim_runs};
use crate::ledger::effects;
use crate::metrics::StoreMetrics;
use crate::model::operations::{ItemsCall, NewOperation};
use crate::model::patterns::PatternAct;
use crate::model::triage::{Replay, TriageAct, Triaged};
use crate::model::{
    EffectRef, FailedAttempt, KeyRecord, LeaseCall, NewFailure, NewSentPayload, NewStep, Reconcile, RunRef, Start,
    Started, Success, Swept, TenantScope, UnderLease,
};
use crate::operations::row::number_of;
use crate::operations::{make, steer, work};
use crate::ports::backend::{Backend, Owner, Reads, Route};
use crate::triage::{plans, reviews};
use crate::tx::Tx;
use crate::{breakers, patterns, sweeps, triage};

#[async_trait]
pub trait Store: Reads {
    /// The store's clock decides order, due times and leases.
    fn now(&self) -> Timestamp;

    /// Changes whenever a run may have fallen due; a hint for waiting lease calls, never the truth.
    fn wakeups(&self) -> watch::Receiver<u64>;

    /// Changes when commits succeed again after failures, so that services end their back-off.
    fn recovered(&self) -> watch::Receiver<u64>;

    /// False once a writer thread has ended: nothing more will be committed.
    fn has_writer(&self) -> bool;

    /// What this process has measured of the store.
    fn metrics(&self) -> StoreMetrics;

    // Producers and workers.

    async fn report(&self, report: NewFailure) -> Result<Reported>;
    /// Each is accepted or refused alone; answers are in the order of the reports.
    async fn report_all(&self, reports: Vec<NewFailure>) -> Vec<Result<Reported>>;
    async fn start(&self, start: Start) -> Result<Started>;
    async fn heartbeat(&self, under: UnderLease) -> Result<Timestamp>;
    /// Each is renewed or refused alone; answers are in the order of the leases.
    async fn heartbeats(&self, leases: Vec<UnderLease>) -> Vec<Result<Timestamp>>;
    async fn step(&self, under: UnderLease, step: NewStep) -> Result<StepView>;
    async fn succeed(&self, success: Success) -> Result<SucceedAnswer>;
    async fn fail(&self, under: UnderLease, failed: FailedAttempt) -> Result<FailureAnswer>;
    async fn release(&self, under: UnderLease) -> Result<StateAnswer>;
    async fn lease(&self, call: LeaseCall) -> Result<Vec<LeasedRun>>;
    /// Stores changed payloads before they are handed out, each under its live lease; each is stored or refused alone.
    async fn keep_sent(&self, sent: Vec<(UnderLease, NewSentPayload)>) -> Vec<Result<()>>;

    // People.

    async fn triage(&self, act: TriageAct) -> Result<Triaged>;
    /// What a replay would do now. For a run in review and an empty proposal: what waits for approval.
    async fn plan(&self, at: &RunRef, replay: Replay) -> Result<PlanAnswer>;
    /// Settles an effect in doubt; the run does not move.
    async fn reconcile(&self, act: Reconcile) -> Result<EffectView>;
    /// Answers with the changed pattern; after a merge, with the one that it became part of.
    async fn triage_pattern(&self, act: PatternAct) -> Result<PatternView>;

    /// Opens or closes a breaker manually.
    async fn operate_breaker(&self, act: BreakerAct) -> Result<BreakerView>;
    /// Freezes up to 10,000 runs before it answers; the operations service does the rest.
    async fn create_operation(&self, new: NewOperation, actor: String) -> Result<OperationView>;
    /// Starts, pauses, resumes or cancels, from the next batch of items on.
    async fn steer_operation(&self, id: &str, by: Steer) -> Result<OperationView>;

    // Background services: one bounded round each.

    /// Records a sign of life of this replica, and a gap in which no replica gave one.
    async fn stamp(&self, replica: &str) -> Result<()>;
    /// Folds appended counter deltas into the totals, where the store appends.
    async fn fold_figures(&self) -> Result<Swept>;
    /// Decides on attempts whose lease, idle time or deadline has passed.
    async fn rescue_expired(&self, most: usize) -> Result<Swept>;
    /// Dead-letters scheduled runs that no worker began in time.
    async fn reject_unclaimed(&self, most: usize) -> Result<Swept>;
    /// Dead-letters runs whose review expired.
    async fn expire_reviews(&self, most: usize) -> Result<Swept>;
    /// Releases runs held by closed breakers at a limited rate, round robin over tenants, and one probe for each half-open
    /// breaker.
    async fn release_held(&self, most: usize) -> Result<Swept>;
    /// Continues each open operation: its set, its moves, its outcomes.
    async fn work_operations(&self, replica: &str) -> Result<Swept>;
    /// Deletes old rows of the change log.
    async fn trim_changes(&self, most: usize) -> Result<Swept>;
    /// Deletes old breaker events, and breakers without recent failures.
    async fn trim_events(&self, most: usize) -> Result<Swept>;
    /// Deletes unused ledger entries whose run is gone.
    async fn trim_ledger(&self, most: usize) -> Result<Swept>;

    // Reads beside those of [`Reads`].

    async fn effect(&self, at: &EffectRef) -> Result<EffectView>;
    async fn operation(&self, id: &str) -> Result<OperationView>;
    async fn operation_items(&self, id: &str, call: ItemsCall) -> Result<OperationItemsPage>;
    async fn tenant_health(&self, tenant: &Tenant) -> Result<TenantHealth>;
    /// Breakers that are not closed or have recent failures.
    async fn breakers(&self, scope: &TenantScope) -> Result<BreakersAnswer>;
    async fn tenant_breaker(&self, tenant: &Tenant) -> Result<TenantBreaker>;
    /// The policy for a tenant's runs in a queue; the defaults for a queue that does not exist.
    async fn policy(&self, tenant: &Tenant, queue: &QueueName) -> Result<Arc<Policy>>;
    /// The output schema of a run's queue. Free while no queue has one.
    async fn output_schema(&self, at: &RunRef) -> Result<Option<OutputSchema>>;

    // Admins.

    async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<QueueView>;
    async fn put_key(&self, key: KeyRecord) -> Result<()>;
    /// False if there is a key already, made by this or another replica.
    async fn put_first_key(&self, key: KeyRecord) -> Result<bool>;
    /// False for an unknown key.
    async fn revoke_key(&self, id: &str) -> Result<bool>;

    /// Whether a write would be durable now; otherwise what is wrong.
    async fn ready(&self) -> Result<()>;
    /// Answers queued commands, then closes; later calls get [`crate::Error::Closing`].
    async fn close(&self);
}

// Large inputs are boxed: a command is moved several times on its way through the queue.
#[async_trait]
impl<B: Backend> Store for B {
    fn now(&self) -> Timestamp {
        Backend::now(self)
    }

    fn wakeups(&self) -> watch::Receiver<u64> {
        Backend::wakeups(self)
    }

    fn recovered(&self) -> watch::Receiver<u64> {
        Backend::recovered(self)
    }

    fn has_writer(&self) -> bool {
        Backend::has_writer(self)
    }

    fn metrics(&self) -> StoreMetrics {
        Backend::metrics(self).clone()
    }

    async fn report(&self, report: NewFailure) -> Result<Reported> {
        let (route, report) = (Route::report(&report), Box::new(report));
        self.submit(route, move |tx| report::report(tx, &report)).await
    }

    async fn report_all(&self, reports: Vec<NewFailure>) -> Vec<Result<Reported>> {
        let reports = Arc::new(reports);
        let act = |at: usize| {
            let reports = reports.clone();
            move |tx: &mut Tx<'_>| report::report_of(tx, &reports, at)
        };
        let acts = reports.iter().enumerate().map(|(at, report)| (Route::report(report), act(at)));
        self.submit_each(acts.collect()).await
    }

    async fn start(&self, start: Start) -> Result<Started> {
        let (route, start) = (Route::start(&start), Box::new(start));
        let owner = route.owner.clone();
        let start = self.submit(route, move |tx| start::start(tx, &start)).await?;
        if start.is_complete() { Ok(start.into_started()) } else { self.complete_start(owner, start).await }
    }

    async fn heartbeat(&self, under: UnderLease) -> Result<Timestamp> {
        self.submit(Route::run(&under.at), move |tx| under_lease::heartbeat(tx, &under)).await
    }

    async fn heartbeats(&self, leases: Vec<UnderLease>) -> Vec<Result<Timestamp>> {
        let act =
            |under: UnderLease| (Route::run(&under.at), move |tx: &mut Tx<'_>| under_lease::heartbeat(tx, &under));
        self.submit_each(leases.into_iter().map(act).collect()).await
    }

    async fn step(&self, under: UnderLease, step: NewStep) -> Result<StepView> {
        self.submit(Route::run(&under.at), move |tx| under_lease::step(tx, &under, &step)).await
    }

    async fn succeed(&self, success: Success) -> Result<SucceedAnswer> {
        let (route, success) = (Route::run(&success.at), Box::new(success));
        self.submit(route, move |tx| under_lease::succeed(tx, &success)).await
    }

    async fn fail(&self, under: UnderLease, failed: FailedAttempt) -> Result<FailureAnswer> {
        let (route, failed) = (Route::fail(&under.at, &failed), Box::new(failed));
        self.submit(route, move |tx| under_lease::fail(tx, &under, &failed)).await
    }

    async fn release(&self, under: UnderLease) -> Result<StateAnswer> {
        self.submit(Route::run(&under.at), move |tx| under_lease::release(tx, &under)).await
    }

    async fn lease(&self, call: LeaseCall) -> Result<Vec<LeasedRun>> {
        let call = Arc::new(call);
        let (mut granted, mut next) = (Vec::new(), Some(ClaimProgress::new(&call)));
        // A long call takes several transactions, so that other commands run in between.
        while let Some(progress) = next.take() {
            let command = call.clone();
            match self.submit(Route::claims(&call.scope), move |tx| claim_runs(tx, &command, &progress)).await {
                Ok(result) => {
                    granted.extend(result.granted);
                    next = result.next;
                }
                // Leases that earlier transactions granted belong to the caller.
                Err(_) if !granted.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        if granted.is_empty() {
            return Ok(Vec::new());
        }
        granted.iter().filter_map(|run| run.overdue_ms).for_each(|ms| Backend::metrics(self).record_overdue_ms(ms));
        self.complete_leases(Owner::from(&call.scope), granted).await
    }

    async fn keep_sent(&self, sent: Vec<(UnderLease, NewSentPayload)>) -> Vec<Result<()>> {
        let act = |(under, sent): (UnderLease, NewSentPayload)| {
            (Route::run(&under.at), move |tx: &mut Tx<'_>| under_lease::keep_sent(tx, &under, &sent))
        };
        self.submit_each(sent.into_iter().map(act).collect()).await
    }

    async fn triage(&self, act: TriageAct) -> Result<Triaged> {
        self.submit(Route::run(&act.at), move |tx| triage::verbs::triage(tx, &act)).await
    }

    async fn plan(&self, at: &RunRef, replay: Replay) -> Result<PlanAnswer> {
        let at = at.clone();
        self.inspect(Owner::from(&at.tenant), move |tx| plans::plan(tx, &at, &replay)).await
    }

    async fn reconcile(&self, act: Reconcile) -> Result<EffectView> {
        // On the run's lane, behind reports of its worker about the same entry.
        let route = match &act.at.run_id {
            Some(run_id) => Route::run(&RunRef { tenant: act.at.tenant.clone(), run_id: run_id.clone() }),
            None => Route::desk(&act.at.tenant),
        };
        self.submit(route, move |tx| effects::reconcile(tx, &act)).await
    }

    async fn triage_pattern(&self, act: PatternAct) -> Result<PatternView> {
        let scope = act.scope.clone();
        let shown = self.submit(Route::desk(&scope), move |tx| patterns::verbs::triage_pattern(tx, &act)).await?;
        self.pattern_view(&scope, &shown).await
    }

    async fn operate_breaker(&self, act: BreakerAct) -> Result<BreakerView> {
        self.submit(Route::system(), move |tx| breakers::operate(tx, &act)).await
    }

    async fn create_operation(&self, new: NewOperation, actor: String) -> Result<OperationView> {
        let id = self.submit(Route::system(), move |tx| make::make(tx, &new, &actor)).await?;
        work::freeze_at_once(self, id).await?;
        self.operation_view(id).await
    }

    async fn steer_operation(&self, id: &str, by: Steer) -> Result<OperationView> {
        let id = number_of(id)?;
        self.submit(Route::system(), move |tx| steer::steer(tx, id, by)).await?;
        self.operation_view(id).await
    }

    async fn stamp(&self, replica: &str) -> Result<()> {
        let replica = replica.to_owned();
        // A replica whose heartbeats are stuck counts as absent.
        self.drain_reports().await?;
        self.submit(Route::system(), move |tx| sweeps::stamp(tx, &replica)).await?;
        if self.is_shared() {
            // Other replicas may have changed queues.
            self.policies().clear();
            let settings = self.declared_queue_settings().await?;
            settings.iter().for_each(|settings| self.policies().note_output_schema(settings));
        }
        Ok(())
    }

    async fn fold_figures(&self) -> Result<Swept> {
        Backend::fold_figures(self).await
    }

    async fn rescue_expired(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| sweeps::rescue_expired(tx, most)).await
    }

    async fn reject_unclaimed(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| sweeps::reject_unclaimed(tx, most)).await
    }

    async fn expire_reviews(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| reviews::expire_reviews(tx, most)).await
    }

    async fn release_held(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| breakers::release_held(tx, most)).await
    }

    async fn work_operations(&self, replica: &str) -> Result<Swept> {
        self.works_on_operations_as(replica);
        work::round(self, replica).await
    }

    async fn trim_changes(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| sweeps::trim_changes(tx, most)).await
    }

    async fn trim_events(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| breakers::trim_events(tx, most)).await
    }

    async fn trim_ledger(&self, most: usize) -> Result<Swept> {
        self.submit(Route::system(), move |tx| effects::trim(tx, most)).await
    }

    async fn effect(&self, at: &EffectRef) -> Result<EffectView> {
        let at = at.clone();
        self.inspect(Owner::from(&at.tenant), move |tx| effects::effect(tx.rows, &at)).await
    }

    async fn operation(&self, id: &str) -> Result<OperationView> {
        self.operation_view(number_of(id)?).await
    }

    async fn operation_items(&self, id: &str, call: ItemsCall) -> Result<OperationItemsPage> {
        Backend::operation_items(self, number_of(id)?, call).await
    }

    async fn tenant_health(&self, tenant: &Tenant) -> Result<TenantHealth> {
        Backend::tenant_health(self, tenant, self.policies().limits_of(tenant)).await
    }

    async fn breakers(&self, scope: &TenantScope) -> Result<BreakersAnswer> {
        let scope = scope.clone();
        self.inspect(Owner::from(&scope), move |tx| breakers::breakers(tx, &scope)).await
    }

    async fn tenant_breaker(&self, tenant: &Tenant) -> Result<TenantBreaker> {
        let tenant = tenant.clone();
        self.inspect(Owner::from(&tenant), move |tx| breakers::tenant_breaker(tx, &tenant)).await
    }

    async fn policy(&self, tenant: &Tenant, queue: &QueueName) -> Result<Arc<Policy>> {
        if let Some(policy) = self.policies().find(tenant, queue) {
            return Ok(policy);
        }
        let read_at = self.policies().generation();
        let settings = self.queue_settings(tenant, queue).await?;
        Ok(self.policies().put(read_at, tenant, queue, settings.as_ref()))
    }

    async fn output_schema(&self, at: &RunRef) -> Result<Option<OutputSchema>> {
        if !self.policies().has_output_schemas() {
            return Ok(None);
        }
        match self.queue_of(at).await? {
            Some(queue) => Ok(self.policy(&at.tenant, &queue).await?.detect.output_schema.clone()),
            None => Ok(None),
        }
    }

    async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<QueueView> {
        let put = name.clone();
        self.policies().note_output_schema(&settings);
        self.submit(Route::system(), move |tx| tx.put_queue(&put, settings.clone()).map(|_| ())).await?;
        self.queue_changed();
        self.policies().clear();
        self.queue(&name).await
    }

    async fn put_key(&self, key: KeyRecord) -> Result<()> {
        self.submit(Route::system(), move |tx| Ok(tx.rows.insert_key(&key)?)).await
    }

    async fn put_first_key(&self, key: KeyRecord) -> Result<bool> {
        self.submit(Route::system(), move |tx| tx.put_first_key(&key)).await
    }

    async fn revoke_key(&self, id: &str) -> Result<bool> {
        let id = id.to_owned();
        self.submit(Route::system(), move |tx| Ok(tx.rows.revoke_key(&id, tx.now)?)).await
    }

    async fn ready(&self) -> Result<()> {
        Backend::ready(self).await
    }

    async fn close(&self) {
        Backend::close(self).await;
    }
}
