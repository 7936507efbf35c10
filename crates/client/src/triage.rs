//! What people decide on a run: look at the plan, replay with a fix, say yes or no, hand on, join.

use redrive_core::ids::{QueueName, RunId};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    ApproveRequest, AssignRequest, DeferRequest, DuplicatesAnswer, MergeRequest, PlanAnswer, ReassignRequest,
    ReplayAnswer, ReplayRequest, RevisionView, StateAnswer, TriageRequest,
};

use crate::call::Call;
use crate::client::Client;

/// Looking before deciding.
impl Client {
    /// What a replay would do; nothing is done.
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
    pub fn plan(&self, run_id: &RunId, request: &ReplayRequest) -> Call<PlanAnswer> {
        self.post(&["runs", run_id.as_str(), "plan"], &self.naming_tenant(request))
    }

    /// A payload as it was at a revision, and how it came to be.
    pub fn revision(&self, run_id: &RunId, revision: u32) -> Call<RevisionView> {
        self.get(&["runs", run_id.as_str(), "revisions", &revision.to_string()], &self.tenant_pair())
    }

    /// Runs that look like the same work.
    pub fn duplicates(&self, run_id: &RunId) -> Call<DuplicatesAnswer> {
        self.get(&["runs", run_id.as_str(), "duplicates"], &self.tenant_pair())
    }
}

/// Deciding.
impl Client {
    /// Sends a run round again, with whatever is to be different.
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
    pub fn replay(&self, run_id: &RunId, request: &ReplayRequest) -> Call<ReplayAnswer> {
        self.post(&["runs", run_id.as_str(), "replay"], &self.naming_tenant(request))
    }

    fn naming_tenant(&self, request: &ReplayRequest) -> ReplayRequest {
        let tenant = request.tenant.clone().or_else(|| self.tenant().cloned());
        ReplayRequest { tenant, ..request.clone() }
    }

    pub fn cancel(&self, run_id: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        self.decide(run_id, "cancel", reason)
    }

    pub fn resolve(&self, run_id: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        self.decide(run_id, "resolve", reason)
    }

    pub fn discard(&self, run_id: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        self.decide(run_id, "discard", reason)
    }

    /// Adds a note to the run's history; nothing moves.
    pub fn note(&self, run_id: &RunId, note: &str) -> Call<StateAnswer> {
        self.decide(run_id, "note", Some(note))
    }

    /// Puts a run aside for somebody to decide on.
    pub fn review(&self, run_id: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        self.decide(run_id, "review", reason)
    }

    pub fn reject(&self, run_id: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        self.decide(run_id, "reject", reason)
    }

    pub fn unmerge(&self, run_id: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        self.decide(run_id, "unmerge", reason)
    }

    /// Says yes to the plan of this hash, and to no other.
    pub fn approve(&self, run_id: &RunId, plan_hash: &str, reason: Option<&str>) -> Call<StateAnswer> {
        let (tenant, plan_hash) = (self.tenant().cloned(), Label::from(plan_hash));
        let request = ApproveRequest { tenant, plan_hash, reason: reason.map(Text::from) };
        self.post(&["runs", run_id.as_str(), "approve"], &request)
    }

    pub fn defer(&self, run_id: &RunId, until: Timestamp, reason: Option<&str>) -> Call<StateAnswer> {
        let request = DeferRequest { tenant: self.tenant().cloned(), until, reason: reason.map(Text::from) };
        self.post(&["runs", run_id.as_str(), "defer"], &request)
    }

    pub fn reassign(
        &self,
        run_id: &RunId,
        agent: Option<&str>,
        queue: Option<&QueueName>,
        reason: Option<&str>,
    ) -> Call<StateAnswer> {
        let (agent, queue, reason) = (agent.map(Label::from), queue.cloned(), reason.map(Text::from));
        let request = ReassignRequest { tenant: self.tenant().cloned(), agent, queue, reason };
        self.post(&["runs", run_id.as_str(), "reassign"], &request)
    }

    /// Gives a run somebody who looks after it; none takes it from them.
    pub fn assign(&self, run_id: &RunId, to: Option<&str>, reason: Option<&str>) -> Call<StateAnswer> {
        let (to, reason) = (to.map(Label::from), reason.map(Text::from));
        let request = AssignRequest { tenant: self.tenant().cloned(), to, reason };
        self.post(&["runs", run_id.as_str(), "assign"], &request)
    }

    /// Says that a run is the same work as another of its tenant.
    pub fn merge(&self, run_id: &RunId, into: &RunId, reason: Option<&str>) -> Call<StateAnswer> {
        let (into, reason) = (into.clone(), reason.map(Text::from));
        let request = MergeRequest { tenant: self.tenant().cloned(), into, reason };
        self.post(&["runs", run_id.as_str(), "merge"], &request)
    }

    fn decide(&self, run_id: &RunId, verb: &str, reason: Option<&str>) -> Call<StateAnswer> {
        let request = TriageRequest { tenant: self.tenant().cloned(), reason: reason.map(Text::from) };
        self.post(&["runs", run_id.as_str(), verb], &request)
    }
}
