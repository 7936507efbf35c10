//! The trait's verbs over PostgreSQL: what is about one run goes to its line, claims and everything else to theirs, reads to
//! connections of their own.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
use tokio::sync::{oneshot, watch};

use super::committer::To;
use super::connection::{ANSWER_MAX, within};
use super::expected::Expects;
use super::store::{PgStore, read};
use super::{
    changes, detail, duplicates, figures, handing_out, hours, keys, list, operation_list, pattern_detail, pattern_list,
    queue_list, revisions, sent, steps,
};
use crate::breaker_model::BreakerAct;
use crate::commands::batch::Batch;
use crate::commands::lease::{Dealt, Rest};
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
use crate::standing_model::Standing;
use crate::store::Store;
use crate::triage_model::{Act, Replay, Triaged};

impl PgStore {
    /// What the runs carry that a claim is about to get. Where that can't be read now, it is read once they are its own.
    async fn read_beside(&self, told: oneshot::Receiver<Vec<handing_out::Place>>) -> Option<handing_out::Carriage> {
        let places = told.await.ok().filter(|places| !places.is_empty())?;
        let read: Result<handing_out::Carriage> = read!(self, look => handing_out::Carriage::of(&look, &places));
        read.ok()
    }

    /// One command of a lease call, and what is left of the call.
    async fn lease_piece(&self, call: &Arc<LeaseCall>, before: Rest) -> Result<(Vec<LeasedRun>, Option<Rest>)> {
        let (owner, call, (tell, told)) = (Owner::from(&call.scope), call.clone(), oneshot::channel());
        let (mut tell, mut tries) = (Some(tell), 0);
        let deal = move |batch: &mut Batch<'_>| {
            let dealt = lease::lease(batch, &call, &before)?;
            if let Some(tell) = tell.take() {
                let _ = tell.send(dealt.granted.iter().map(handing_out::place).collect::<Vec<_>>());
            }
            tries += 1;
            Ok((dealt, tries))
        };
        // What runs carry is read while their leases are committed: they are locked, so nobody changes it meanwhile.
        let (dealt, carriage) = tokio::join!(
            self.committer.commit_for(owner, To::Claims, Expects::default(), deal),
            self.read_beside(told)
        );
        let (Dealt { granted, rest }, tries) = dealt?;
        if granted.is_empty() {
            return Ok((Vec::new(), rest));
        }
        // A claim that was done anew had let go of its runs: others may have worked on them since they were read.
        let leased = match carriage.filter(|_| tries == 1) {
            Some(carriage) if handing_out::need_no_more(&granted) => carriage.hand_out(granted),
            carriage => read!(self, look => handing_out::complete_leases(&look, granted, carriage)),
        };
        Ok((leased?, rest))
    }
}

// What a command holds is boxed: on its way to the committer and back it is moved half a dozen times.
/// How long a closing store takes to give up its operations.
const RELEASE_MAX: Duration = Duration::from_secs(1);

#[async_trait]
impl Store for PgStore {
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

    async fn report(&self, report: Report) -> Result<Reported> {
        let (expects, report) = (Expects::report(&report), Box::new(report));
        self.write_run(expects, move |batch| report::report(batch, &report)).await
    }

    async fn report_all(&self, reports: Vec<Report>) -> Vec<Result<Reported>> {
        let reports = Arc::new(reports);
        let act = |at: usize| {
            let reports = reports.clone();
            move |batch: &mut Batch<'_>| report::report_of(batch, &reports, at)
        };
        let acts = reports.iter().enumerate().map(|(at, report)| (Expects::report(report), act(at)));
        self.committer.commit_each(acts.collect()).await
    }

    async fn start(&self, start: Start) -> Result<Started> {
        let (expects, start) = (Expects::start(&start), Box::new(start));
        let begun = self.write_run(expects, move |batch| start::start(batch, &start)).await?;
        if begun.is_whole() {
            return Ok(begun.into_started());
        }
        read!(self, look => handing_out::complete_start(&look, begun))
    }

    async fn heartbeat(&self, under: UnderLease) -> Result<Timestamp> {
        self.write_run(Expects::run(&under.at), move |batch| under_lease::heartbeat(batch, &under)).await
    }

    async fn heartbeats(&self, leases: Vec<UnderLease>) -> Vec<Result<Timestamp>> {
        let acts = leases
            .into_iter()
            .map(|under| (Expects::run(&under.at), move |batch: &mut Batch<'_>| under_lease::heartbeat(batch, &under)));
        self.committer.commit_each(acts.collect()).await
    }

    async fn step(&self, under: UnderLease, step: NewStep) -> Result<StepView> {
        self.write_run(Expects::run(&under.at), move |batch| under_lease::step(batch, &under, &step)).await
    }

    async fn succeed(&self, success: Success) -> Result<SucceedAnswer> {
        let success = Box::new(success);
        self.write_run(Expects::run(&success.at), move |batch| under_lease::succeed(batch, &success)).await
    }

    async fn fail(&self, under: UnderLease, failed: FailedAttempt) -> Result<FailureAnswer> {
        let (expects, failed) = (Expects::fail(&under.at, &failed), Box::new(failed));
        self.write_run(expects, move |batch| under_lease::fail(batch, &under, &failed)).await
    }

    async fn release(&self, under: UnderLease) -> Result<StateAnswer> {
        self.write_run(Expects::run(&under.at), move |batch| under_lease::release(batch, &under)).await
    }

    async fn lease(&self, call: LeaseCall) -> Result<Vec<LeasedRun>> {
        let call = Arc::new(call);
        let (mut leased, mut rest) = (Vec::new(), Some(Rest::all(&call)));
        while let Some(before) = rest.take() {
            match self.lease_piece(&call, before).await {
                Ok((more, after)) => {
                    leased.extend(more);
                    rest = after;
                }
                // What was handed out before is the caller's.
                Err(_) if !leased.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(leased)
    }

    async fn keep_sent(&self, sent: Vec<(UnderLease, NewSent)>) -> Vec<Result<()>> {
        let acts = sent.into_iter().map(|(under, sent)| {
            (Expects::run(&under.at), move |batch: &mut Batch<'_>| keep_sent(batch, &under, &sent))
        });
        self.committer.commit_each(acts.collect()).await
    }

    async fn triage(&self, act: Act) -> Result<Triaged> {
        self.write_run(Expects::run(&act.at), move |batch| triage::triage(batch, &act)).await
    }

    async fn plan(&self, at: &RunRef, replay: Replay) -> Result<PlanAnswer> {
        let at = at.clone();
        // A replay looks again: who plans holds up nobody who writes.
        self.batch_readers.read(move |batch| plans::plan(batch, &at, &replay)).await
    }

    async fn reconcile(&self, act: Reconcile) -> Result<EffectView> {
        // Behind what its run's worker has sent: both speak of the same entry.
        let of_run = act.at.run_id.clone().map(|run_id| RunRef { tenant: act.at.tenant.clone(), run_id });
        let reconcile = move |batch: &mut Batch<'_>| effects::reconcile(batch, &act);
        match of_run {
            Some(at) => self.write_run(Expects::run(&at), reconcile).await,
            None => self.write(reconcile).await,
        }
    }

    async fn triage_pattern(&self, act: PatternAct) -> Result<PatternView> {
        let (scope, now) = (act.scope.clone(), self.now());
        let shown = self.write(move |batch| pattern_triage::triage_pattern(batch, &act)).await?;
        read!(self, look => pattern_list::one_pattern(&look, &scope, &shown, now))
    }

    async fn operate_breaker(&self, act: BreakerAct) -> Result<BreakerView> {
        self.write(move |batch| breakers::operate(batch, &act)).await
    }

    async fn release_held(&self, most: usize) -> Result<Swept> {
        self.write(move |batch| breakers::release_held(batch, most)).await
    }

    // Breakers live with the committer: what it answers is how they stand.
    async fn breakers(&self, scope: &TenantScope) -> Result<BreakersAnswer> {
        let scope = scope.clone();
        self.batch_readers.read(move |batch| breakers::breakers(batch, &scope)).await
    }

    async fn tenant_breaker(&self, tenant: &Tenant) -> Result<TenantBreaker> {
        let tenant = tenant.clone();
        self.batch_readers.read(move |batch| breakers::tenant_breaker(batch, &tenant)).await
    }

    async fn create_operation(&self, new: NewOperation, actor: String) -> Result<OperationView> {
        let id = self.write(move |batch| operation_make::make(batch, &new, &actor)).await?;
        operation_work::freeze_at_once(self, id).await?;
        read!(self, look => operation_list::one(&look, id))
    }

    async fn steer_operation(&self, id: &str, by: Steer) -> Result<OperationView> {
        let id = number_of(id)?;
        self.write(move |batch| operation_steer::steer(batch, id, by)).await?;
        read!(self, look => operation_list::one(&look, id))
    }

    async fn stamp(&self, replica: &str) -> Result<()> {
        let replica = replica.to_owned();
        // A replica whose heartbeats are stuck is not there for its workers.
        self.committer.pass_reports().await?;
        self.write(move |batch| sweep::stamp(batch, &replica)).await?;
        // Others may have set queues.
        self.shelf.forget();
        let settings = read!(self, look => queue_list::declared_settings(&look))?;
        settings.iter().for_each(|settings| self.schemas.note(settings));
        Ok(())
    }

    async fn fold_figures(&self) -> Result<Swept> {
        self.fold().await
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
        self.worker.get_or_init(|| replica.to_owned());
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
        read!(self, look => list::list_runs(&look, &scope, &filter, &page, now))
    }

    async fn run_pages(&self, at: &RunRef, call: DetailCall) -> Result<RunDetail> {
        let at = at.clone();
        read!(self, look => detail::run_detail(&look, &at, &call))
    }

    async fn was_worked_on_by(&self, at: &RunRef, key: KeyMark) -> Result<bool> {
        let at = at.clone();
        read!(self, look => detail::was_worked_on_by(&look, &at, key))
    }

    async fn sent(&self, at: &RunRef, attempt: u32) -> Result<Sent> {
        let at = at.clone();
        read!(self, look => sent::sent(&look, &at, attempt))
    }

    async fn revision(&self, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
        let at = at.clone();
        read!(self, look => revisions::revision(&look, &at, revision))
    }

    async fn duplicates(&self, at: &RunRef) -> Result<DuplicatesAnswer> {
        let at = at.clone();
        read!(self, look => duplicates::duplicates(&look, &at))
    }

    async fn effect(&self, at: &EffectRef) -> Result<EffectView> {
        let at = at.clone();
        read!(self, look => steps::effect(&look, &at))
    }

    async fn patterns(&self, scope: &TenantScope, call: PatternsCall) -> Result<PatternsPage> {
        let (scope, now) = (scope.clone(), self.now());
        read!(self, look => pattern_list::list_patterns(&look, &scope, &call, now))
    }

    async fn pattern(&self, scope: &TenantScope, id: &str) -> Result<PatternDetail> {
        let (scope, id, now) = (scope.clone(), id.to_owned(), self.now());
        read!(self, look => pattern_detail::pattern_detail(&look, &scope, &id, now))
    }

    async fn operations(&self, limit: u32, cursor: Option<String>) -> Result<OperationsPage> {
        read!(self, look => operation_list::list(&look, limit, cursor.as_deref()))
    }

    async fn operation(&self, id: &str) -> Result<OperationView> {
        let id = number_of(id)?;
        read!(self, look => operation_list::one(&look, id))
    }

    async fn operation_items(&self, id: &str, call: ItemsCall) -> Result<OperationItemsPage> {
        let id = number_of(id)?;
        read!(self, look => operation_list::items(&look, id, &call))
    }

    async fn tenants(&self, limit: u32, cursor: Option<String>) -> Result<TenantsAnswer> {
        read!(self, look => figures::list_tenants(&look, limit, cursor.as_deref()))
    }

    async fn tenant_health(&self, tenant: &Tenant) -> Result<TenantHealth> {
        let (tenant, limits, now) = (tenant.clone(), self.shelf.limits_of(tenant), self.now());
        read!(self, look => figures::tenant_health(&look, &tenant, limits, now))
    }

    async fn health(&self, scope: &TenantScope) -> Result<HealthAnswer> {
        let (scope, now) = (scope.clone(), self.now());
        read!(self, look => figures::health(&look, &scope, now))
    }

    async fn standing(&self, scope: &TenantScope) -> Result<Standing> {
        let scope = scope.clone();
        read!(self, look => figures::how_it_stands(&look, &scope))
    }

    async fn stats(&self, scope: &TenantScope, call: StatsCall) -> Result<StatsAnswer> {
        let (scope, now) = (scope.clone(), self.now());
        read!(self, look => hours::stats(&look, &scope, &call, now))
    }

    async fn changes(&self, scope: &TenantScope, since: Option<String>) -> Result<ChangesAnswer> {
        let scope = scope.clone();
        self.log_changes().await?;
        read!(self, look => changes::changes(&look, &scope, since.as_deref()))
    }

    async fn queues(&self, limit: u32, cursor: Option<String>) -> Result<QueuesAnswer> {
        read!(self, look => queue_list::list_queues(&look, limit, cursor.as_deref()))
    }

    async fn queue(&self, name: &QueueName) -> Result<QueueView> {
        let name = name.clone();
        read!(self, look => queue_list::one_queue(&look, &name))
    }

    async fn policy(&self, tenant: &Tenant, queue: &QueueName) -> Result<Arc<Policy>> {
        if let Some(policy) = self.shelf.find(tenant, queue) {
            return Ok(policy);
        }
        let (asked, name) = (self.shelf.ask(), queue.clone());
        let settings = read!(self, look => queue_list::settings_of(&look, &name))?;
        Ok(self.shelf.put(asked, tenant, queue, settings.as_ref()))
    }

    async fn output_schema(&self, at: &RunRef) -> Result<Option<OutputSchema>> {
        if !self.schemas.any() {
            return Ok(None);
        }
        let run = at.clone();
        let queue = read!(self, look => queue_list::queue_of(&look, &run))?;
        match queue {
            Some(queue) => Ok(self.policy(&at.tenant, &queue).await?.detect.output_schema.clone()),
            None => Ok(None),
        }
    }

    async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<QueueView> {
        let put = name.clone();
        self.schemas.note(&settings);
        self.write(move |batch| batch.put_queue(&put, settings.clone()).map(|_| ())).await?;
        self.shared.queues_set.fetch_add(1, Ordering::SeqCst);
        self.shelf.forget();
        self.queue(&name).await
    }

    async fn keys(&self) -> Result<Vec<KeyRecord>> {
        read!(self, look => keys::list_keys(&look))
    }

    async fn key_by_hash(&self, hash: [u8; 32]) -> Result<Option<KeyRecord>> {
        let read = async {
            let view = self.key_readers.view().await?;
            let answer = keys::key_by_hash(&view.look(), &hash).await;
            view.done(answer).await
        };
        within(ANSWER_MAX, read).await
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
        if let Some(replica) = self.worker.get().cloned() {
            // Another goes on with its operations at once; without this, when the claim ends.
            let release = self.write(move |batch| batch.rows.release_claims(Some(&replica)));
            if !matches!(tokio::time::timeout(RELEASE_MAX, release).await, Ok(Ok(()))) {
                tracing::debug!("claims on operations not released");
            }
        }
        self.committer.close().await;
        self.batch_readers.close().await;
        self.telling.close().await;
        self.readers.close();
        self.key_readers.close();
        drop(self.folding.lock().await.take());
    }
}
