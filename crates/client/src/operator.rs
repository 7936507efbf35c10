//! Operator calls: runs, statistics, triage, patterns, effects, bulk operations, queues, keys.

use redrive_core::ids::{QueueName, RunId, StepKey, Tenant};
use redrive_core::operation::Steer;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    ApproveRequest, AssignPattern, AssignRequest, BreakerRequest, BreakerView, BreakersAnswer, ChangesAnswer,
    CreateKey, CreatedKey, DeferRequest, DuplicatesAnswer, EffectView, HealthAnswer, ItemOutcome, KeyView, KeysAnswer,
    LimitsAnswer, MergePattern, MergeRequest, MutePattern, OperationItemsPage, OperationRequest, OperationView,
    OperationsPage, PatternDetail, PatternView, PatternsPage, PlanAnswer, QueueSettings, QueueView, QueuesAnswer,
    ReassignRequest, ReconcileRequest, ReplayAnswer, ReplayRequest, ResolvePattern, RevisionView, RunDetail, RunsPage,
    SentAnswer, StateAnswer, StatsAnswer, TenantBreaker, TenantHealth, TenantsAnswer, TriageRequest, UnmergePattern,
};

use crate::client::{ApiRequest, Client, Pairs};
use crate::query::{PatternsQuery, RunPages, RunsQuery, StatsQuery, many, one};

/// Reading.
impl Client {
    /// One page of runs; the next begins at its `next_cursor`.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// use redrive_client::{RunsQuery, core::run::StateName};
    ///
    /// let dead = RunsQuery { state: vec![StateName::Dead], ..RunsQuery::default() };
    /// for run in client.runs(&dead).await?.runs {
    ///     println!("{} {:?}", run.run_id, run.dead_because);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn runs(&self, query: &RunsQuery) -> ApiRequest<RunsPage> {
        let mut pairs = self.tenant_pair();
        pairs.extend(query.pairs());
        self.get(&["runs"], &pairs)
    }

    /// One run, with the newest of its attempts, steps and history.
    pub fn run(&self, run_id: &RunId) -> ApiRequest<RunDetail> {
        self.get(&["runs", run_id.as_str()], &self.tenant_pair())
    }

    /// A run with a page of each of its lists: the newest entries, or those before a cursor.
    pub fn run_pages(&self, run_id: &RunId, pages: &RunPages) -> ApiRequest<RunDetail> {
        let mut pairs = self.tenant_pair();
        one(&mut pairs, "limit", pages.limit);
        one(&mut pairs, "attempts_cursor", pages.attempts_cursor.as_deref());
        one(&mut pairs, "steps_cursor", pages.steps_cursor.as_deref());
        one(&mut pairs, "history_cursor", pages.history_cursor.as_deref());
        self.get(&["runs", run_id.as_str()], &pairs)
    }

    /// The payload sent to an attempt, and how it differs from its revision's.
    pub fn sent(&self, run_id: &RunId, attempt: u32) -> ApiRequest<SentAnswer> {
        self.get(&["runs", run_id.as_str(), "attempts", &attempt.to_string(), "sent"], &self.tenant_pair())
    }

    pub fn tenants(&self, limit: Option<u32>, cursor: Option<&str>) -> ApiRequest<TenantsAnswer> {
        let mut pairs = Vec::new();
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["tenants"], &pairs)
    }

    pub fn tenant_health(&self, tenant: &Tenant) -> ApiRequest<TenantHealth> {
        self.get(&["tenants", tenant.as_str(), "health"], &Vec::new())
    }

    /// Breakers that are open, half open, or have recent failures.
    pub fn breakers(&self) -> ApiRequest<BreakersAnswer> {
        self.get(&["breakers"], &self.tenant_pair())
    }

    pub fn tenant_breaker(&self, tenant: &Tenant) -> ApiRequest<TenantBreaker> {
        self.get(&["tenants", tenant.as_str(), "breaker"], &Vec::new())
    }

    /// Opens or closes a tenant's breaker; operators only.
    pub fn operate_breaker(&self, tenant: &Tenant, request: &BreakerRequest) -> ApiRequest<BreakerView> {
        self.post(&["tenants", tenant.as_str(), "breaker"], request)
    }

    /// Opens or closes the shared breaker of a provider and model; operators only.
    pub fn operate_shared_breaker(&self, request: &BreakerRequest) -> ApiRequest<BreakerView> {
        self.post(&["breakers"], request)
    }

    pub fn health(&self) -> ApiRequest<HealthAnswer> {
        self.get(&["health"], &self.tenant_pair())
    }

    pub fn stats(&self, query: &StatsQuery) -> ApiRequest<StatsAnswer> {
        let mut pairs = self.tenant_pair();
        pairs.extend(query.pairs());
        self.get(&["stats"], &pairs)
    }

    pub fn limits(&self) -> ApiRequest<LimitsAnswer> {
        self.get(&["limits"], &Vec::new())
    }

    /// Runs that changed after `since`; without it, only the current cursor.
    pub fn changes(&self, since: Option<&str>) -> ApiRequest<ChangesAnswer> {
        let mut pairs = self.tenant_pair();
        one(&mut pairs, "since", since);
        self.get(&["changes"], &pairs)
    }
}

/// Administration.
impl Client {
    pub fn queues(&self, limit: Option<u32>, cursor: Option<&str>) -> ApiRequest<QueuesAnswer> {
        let mut pairs = Vec::new();
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["queues"], &pairs)
    }

    pub fn queue(&self, name: &QueueName) -> ApiRequest<QueueView> {
        self.get(&["queues", name.as_str()], &Vec::new())
    }

    /// Replaces a queue's settings; creates the queue if needed.
    pub fn put_queue(&self, name: &QueueName, settings: &QueueSettings) -> ApiRequest<QueueView> {
        self.put(&["queues", name.as_str()], settings)
    }

    pub fn keys(&self) -> ApiRequest<KeysAnswer> {
        self.get(&["keys"], &Vec::new())
    }

    /// Creates a key; only this answer shows its secret.
    pub fn create_key(&self, key: &CreateKey) -> ApiRequest<CreatedKey> {
        self.post(&["keys"], key)
    }

    pub fn revoke_key(&self, id: &str) -> ApiRequest<KeyView> {
        self.delete(&["keys", id])
    }
}

/// Reading before a decision.
impl Client {
    /// Plans a replay without doing it.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive_client::wire::ReplayRequest;
    ///
    /// let plan = client.plan(&"task-42".parse()?, &ReplayRequest::default()).await?;
    /// let same = ReplayRequest { plan_hash: Some(plan.hash.as_str().into()), ..ReplayRequest::default() };
    /// client.replay(&"task-42".parse()?, &same).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn plan(&self, run_id: &RunId, request: &ReplayRequest) -> ApiRequest<PlanAnswer> {
        self.post(&["runs", run_id.as_str(), "plan"], &self.naming_tenant(request))
    }

    /// One revision of a payload and its origin.
    pub fn revision(&self, run_id: &RunId, revision: u32) -> ApiRequest<RevisionView> {
        self.get(&["runs", run_id.as_str(), "revisions", &revision.to_string()], &self.tenant_pair())
    }

    /// Likely duplicates of a run.
    pub fn duplicates(&self, run_id: &RunId) -> ApiRequest<DuplicatesAnswer> {
        self.get(&["runs", run_id.as_str(), "duplicates"], &self.tenant_pair())
    }
}

/// Triage.
impl Client {
    /// Replays a run, with the given changes.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive_client::wire::ReplayRequest;
    ///
    /// let why = ReplayRequest { reason: Some("the key was rotated".into()), ..ReplayRequest::default() };
    /// client.replay(&"task-42".parse()?, &why).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn replay(&self, run_id: &RunId, request: &ReplayRequest) -> ApiRequest<ReplayAnswer> {
        self.post(&["runs", run_id.as_str(), "replay"], &self.naming_tenant(request))
    }

    fn naming_tenant(&self, request: &ReplayRequest) -> ReplayRequest {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        ReplayRequest { tenant, ..request.clone() }
    }

    pub fn cancel(&self, run_id: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "cancel", reason)
    }

    pub fn resolve(&self, run_id: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "resolve", reason)
    }

    pub fn discard(&self, run_id: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "discard", reason)
    }

    /// Adds a note to the run's history.
    pub fn note(&self, run_id: &RunId, note: &str) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "note", Some(note))
    }

    /// Puts a run into review.
    pub fn review(&self, run_id: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "review", reason)
    }

    pub fn reject(&self, run_id: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "reject", reason)
    }

    pub fn unmerge(&self, run_id: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        self.decide(run_id, "unmerge", reason)
    }

    /// Approves the plan with this hash, and no other.
    pub fn approve(&self, run_id: &RunId, plan_hash: &str, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        let (tenant, plan_hash) = (self.tenant().cloned(), Label::from(plan_hash));
        let request = ApproveRequest { tenant, plan_hash, reason: reason.map(Text::from) };
        self.post(&["runs", run_id.as_str(), "approve"], &request)
    }

    pub fn defer(&self, run_id: &RunId, until: Timestamp, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        let request = DeferRequest { tenant: self.tenant().cloned(), until, reason: reason.map(Text::from) };
        self.post(&["runs", run_id.as_str(), "defer"], &request)
    }

    pub fn reassign(
        &self,
        run_id: &RunId,
        agent: Option<&str>,
        queue: Option<&QueueName>,
        reason: Option<&str>,
    ) -> ApiRequest<StateAnswer> {
        let (agent, queue, reason) = (agent.map(Label::from), queue.cloned(), reason.map(Text::from));
        let request = ReassignRequest { tenant: self.tenant().cloned(), agent, queue, reason };
        self.post(&["runs", run_id.as_str(), "reassign"], &request)
    }

    /// Assigns a run; none removes the assignee.
    pub fn assign(&self, run_id: &RunId, to: Option<&str>, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        let (to, reason) = (to.map(Label::from), reason.map(Text::from));
        let request = AssignRequest { tenant: self.tenant().cloned(), to, reason };
        self.post(&["runs", run_id.as_str(), "assign"], &request)
    }

    /// Merges a run into a duplicate of the same tenant.
    pub fn merge(&self, run_id: &RunId, into: &RunId, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        let (into, reason) = (into.clone(), reason.map(Text::from));
        let request = MergeRequest { tenant: self.tenant().cloned(), into, reason };
        self.post(&["runs", run_id.as_str(), "merge"], &request)
    }

    fn decide(&self, run_id: &RunId, verb: &str, reason: Option<&str>) -> ApiRequest<StateAnswer> {
        let request = TriageRequest { tenant: self.tenant().cloned(), reason: reason.map(Text::from) };
        self.post(&["runs", run_id.as_str(), verb], &request)
    }
}

impl Client {
    /// One page of patterns; a key that spans tenants and names none gets one row per fingerprint.
    pub fn patterns(&self, query: &PatternsQuery) -> ApiRequest<PatternsPage> {
        let mut pairs = self.tenant_pair();
        pairs.extend(query.pairs());
        self.get(&["patterns"], &pairs)
    }

    /// By its id, or by a fingerprint.
    pub fn pattern(&self, id: &str) -> ApiRequest<PatternDetail> {
        self.get(&["patterns", id], &self.tenant_pair())
    }

    pub fn acknowledge_pattern(&self, id: &str, reason: Option<&str>) -> ApiRequest<PatternView> {
        let request = TriageRequest { tenant: self.tenant().cloned(), reason: reason.map(Text::from) };
        self.post(&["patterns", id, "acknowledge"], &request)
    }

    /// Marks a pattern as fixed. If it recurs with the fix, it returns as a regression.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// use redrive_client::wire::ResolvePattern;
    ///
    /// let fixed = ResolvePattern { in_version: [("worker".into(), "abc123".into())].into(), ..Default::default() };
    /// client.resolve_pattern("p0123456789abcdef", &fixed).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolve_pattern(&self, id: &str, request: &ResolvePattern) -> ApiRequest<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "resolve"], &ResolvePattern { tenant, ..request.clone() })
    }

    pub fn mute_pattern(&self, id: &str, request: &MutePattern) -> ApiRequest<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "mute"], &MutePattern { tenant, ..request.clone() })
    }

    pub fn assign_pattern(&self, id: &str, request: &AssignPattern) -> ApiRequest<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "assign"], &AssignPattern { tenant, ..request.clone() })
    }

    pub fn note_pattern(&self, id: &str, note: &str) -> ApiRequest<PatternView> {
        let request = TriageRequest { tenant: self.tenant().cloned(), reason: Some(Text::from(note)) };
        self.post(&["patterns", id, "note"], &request)
    }

    /// Merges a pattern into another and returns the target.
    pub fn merge_pattern(&self, id: &str, request: &MergePattern) -> ApiRequest<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "merge"], &MergePattern { tenant, ..request.clone() })
    }

    pub fn unmerge_pattern(&self, id: &str, request: &UnmergePattern) -> ApiRequest<PatternView> {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        self.post(&["patterns", id, "unmerge"], &UnmergePattern { tenant, ..request.clone() })
    }
}

impl Client {
    /// A ledger entry by its key; `run_id` where the key is only unique within its run.
    pub fn effect(&self, key: &StepKey, run_id: Option<&RunId>) -> ApiRequest<EffectView> {
        self.get(&["effects", key.as_str()], &self.of_run(run_id))
    }

    /// Records the outcome of an effect in doubt. Its run keeps its state and can then be replayed.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive_client::wire::{EffectOutcome, ReconcileRequest};
    ///
    /// let found = ReconcileRequest {
    ///     tenant: None,
    ///     outcome: EffectOutcome::NotDone,
    ///     output: None,
    ///     reason: Some("the bank knows of no such charge".into()),
    /// };
    /// client.reconcile(&"task-42:charge".parse()?, None, &found).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reconcile(&self, key: &StepKey, run_id: Option<&RunId>, found: &ReconcileRequest) -> ApiRequest<EffectView> {
        let tenant = found.tenant.clone().or_else(|| self.tenant().cloned());
        let request = ReconcileRequest { tenant, ..found.clone() };
        let mut pairs = Pairs::new();
        one(&mut pairs, "run_id", run_id);
        self.post(&["effects", key.as_str(), "reconcile"], &request).query(&pairs)
    }

    fn of_run(&self, run_id: Option<&RunId>) -> Pairs {
        let mut pairs = self.tenant_pair();
        one(&mut pairs, "run_id", run_id);
        pairs
    }
}

impl Client {
    /// Creates an operation; with `dry_run` only a preview.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// use redrive_client::core::operation::Steer;
    /// use redrive_client::wire::{OneOrMany, OperationAction, OperationFilter, OperationRequest};
    ///
    /// let filter = OperationFilter { state: Some(OneOrMany::One("dead".into())), ..Default::default() };
    /// let preview = OperationRequest { filter, dry_run: true, ..OperationRequest::new(OperationAction::Replay) };
    /// let preview = client.create_operation(&preview).await?;
    /// client.steer_operation(&preview.id, Steer::Start).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_operation(&self, request: &OperationRequest) -> ApiRequest<OperationView> {
        let mut request = request.clone();
        request.filter.tenant = request.filter.tenant.or_else(|| self.tenant().cloned());
        self.post(&["operations"], &request)
    }

    /// Newest first.
    pub fn operations(&self, limit: Option<u32>, cursor: Option<&str>) -> ApiRequest<OperationsPage> {
        let mut pairs = Pairs::new();
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["operations"], &pairs)
    }

    pub fn operation(&self, id: &str) -> ApiRequest<OperationView> {
        self.get(&["operations", id], &Pairs::new())
    }

    /// The items of an operation with their outcomes.
    pub fn operation_items(
        &self,
        id: &str,
        outcomes: &[ItemOutcome],
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> ApiRequest<OperationItemsPage> {
        let mut pairs = Pairs::new();
        many(&mut pairs, "outcome", outcomes);
        one(&mut pairs, "limit", limit);
        one(&mut pairs, "cursor", cursor);
        self.get(&["operations", id, "items"], &pairs)
    }

    /// Starts, pauses, resumes or cancels it.
    pub fn steer_operation(&self, id: &str, by: Steer) -> ApiRequest<OperationView> {
        self.post_nothing(&["operations", id, by.as_str()])
    }
}
