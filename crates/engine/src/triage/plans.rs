//! What a plan is made from, read where nothing can change meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::ids::{QueueName, StepKey};
use redrive_core::ledger::{VersionChange, versions_changed};
use redrive_core::plan::{GoesTo, OpenBreaker, Permit, Plan, Proposed, Situation, permit, plan as make, replay_rules};
use redrive_core::policy::Policy;
use redrive_core::run::State;
use redrive_core::text::Label;
use redrive_core::wire::{PlanAnswer, Severity, Versions};

use crate::error::{Error, Result};
use crate::ledger::steps::{StepRow, recorded_versions};
use crate::model::triage::Replay;
use crate::model::{AttemptOrigin, RunRef};
use crate::runs::run_row::RunRow;
use crate::tx::{Queue, Tx};

/// `GET …/plan`, `POST …/plan`.
pub fn plan(tx: &mut Tx<'_>, at: &RunRef, replay: &Replay) -> Result<PlanAnswer> {
    let row = tx.require_run(at)?;
    let mut proposed = replay.proposed();
    if proposed.is_nothing() && matches!(row.run.state, State::Review(_)) {
        proposed = tx.asked_for(&row)?.map(|asked| asked.replay.proposed()).unwrap_or_default();
    }
    let Planned { plan, .. } = tx.plan_of(&row, &proposed)?;
    Ok(PlanAnswer {
        run_id: row.run_id.clone(),
        tenant: tx.tenant_name(row.tenant)?,
        hash: plan.hash,
        revision: plan.revision,
        steps: plan.steps,
        versions_changed: plan.versions_changed,
        held_by: plan.held_by,
        approval_needed: plan.approval_needed,
        refused: plan.refused.map(|refused| refused.code().to_owned()),
        warnings: plan.warnings,
    })
}

/// A plan, and the rules that its replay obeys.
pub struct Planned {
    pub plan: Plan,
    pub policy: Arc<Policy>,
}

/// Whether a replay may be made, by which rules, and what it takes back.
pub struct Permitted {
    pub permit: Permit,
    pub policy: Arc<Policy>,
    /// Plain steps that are to be done again.
    pub again: Vec<StepKey>,
}

impl From<Planned> for Permitted {
    fn from(Planned { plan, policy }: Planned) -> Self {
        let permit = Permit { refused: plan.refused, approval_needed: plan.approval_needed };
        Self { permit, policy, again: plan.again }
    }
}

impl Tx<'_> {
    /// As much of a plan as a replay needs that nobody looks at first: a thousand of them must not cost a thousand plans.
    pub fn permit_of(&mut self, row: &RunRow, proposed: &Proposed) -> Result<Permitted> {
        if proposed.from_step.is_some() {
            return self.plan_of(row, proposed).map(Permitted::from);
        }
        let queue = self.target_queue(row, proposed.target.queue.as_ref())?;
        let policy = self.replay_rules(row, &queue)?;
        let severity = self.severity_for(row, &policy)?;
        Ok(Permitted { permit: permit(&row.run, proposed, severity, &policy), policy, again: Vec::new() })
    }

    pub fn plan_of(&mut self, row: &RunRow, proposed: &Proposed) -> Result<Planned> {
        let queue = self.target_queue(row, proposed.target.queue.as_ref())?;
        let policy = self.replay_rules(row, &queue)?;
        let own = self.rows.own_of(row.id)?.ok_or(Error::NotFound("run"))?;
        let entries = self.rows.steps_of_run(row.id)?;
        let steps = entries.iter().map(StepRow::fact).collect::<Result<Vec<_>>>()?;
        let agent = proposed.target.agent.as_ref().or(own.agent.as_ref());
        let model = proposed.target.model.as_ref().or(row.model.as_ref());
        let situation = Situation {
            run: &row.run,
            steps: &steps,
            proposed,
            target: GoesTo {
                queue: queue.name.as_str(),
                agent: agent.map(Label::as_str),
                model: model.map(Label::as_str),
            },
            versions_changed: self.versions_changed(row, queue.id, &entries)?,
            severity: own.severity,
            policy: &policy,
            busy: match &own.order_key {
                Some(key) => self.rows.busy(row.tenant, key, row.id)?,
                None => None,
            },
            breaker: self.breaker_on_the_way(row, model, &policy)?,
        };
        let plan = make(&situation).map_err(|_| Error::NoSuchStep)?;
        Ok(Planned { plan, policy })
    }

    /// The breaker that stands open where the attempt goes, which may be another model.
    fn breaker_on_the_way(
        &mut self,
        row: &RunRow,
        model: Option<&Label>,
        policy: &Policy,
    ) -> Result<Option<OpenBreaker>> {
        let goes = RunRow { model: model.cloned(), ..row.clone() };
        self.open_breaker(&goes, policy)
    }

    /// The queue named, which has to be there, or the run's own.
    pub fn target_queue(&mut self, row: &RunRow, named: Option<&QueueName>) -> Result<Queue> {
        let Some(name) = named else { return self.queue_by_id(row.queue) };
        self.queue_seen_by(row.tenant, name)?.ok_or(Error::NotFound("queue"))
    }

    /// What a replay into a queue obeys: its rules, and those of every queue that the run has been in since its last attempt.
    pub fn replay_rules(&mut self, row: &RunRow, goes_to: &Queue) -> Result<Arc<Policy>> {
        let mut been_in = Vec::new();
        if row.queue != goes_to.id {
            been_in.push(self.rules_of(row)?.1);
        }
        for name in &row.run.left_queues.names {
            if let Some(queue) = self.find_queue(name)?.filter(|queue| queue.id != goes_to.id) {
                been_in.push(self.policy(&queue, row.tenant)?);
            }
        }
        let policy = self.policy(goes_to, row.tenant)?;
        Ok(replay_rules(&row.run, policy, &been_in))
    }

    /// The run's severity, looked up only where the policy asks for it.
    pub fn severity_for(&mut self, row: &RunRow, policy: &Policy) -> Result<Severity> {
        match policy.approval.from_severity {
            Some(_) => Ok(self.rows.own_of(row.id)?.ok_or(Error::NotFound("run"))?.severity),
            None => Ok(Severity::Normal),
        }
    }

    /// What the work so far was done with, against what the workers of its queue have; where those said nothing, against
    /// the newest that the tenant has met.
    fn versions_changed(&mut self, row: &RunRow, queue: i64, entries: &[StepRow]) -> Result<Vec<VersionChange>> {
        let mut before = recorded_versions(entries)?;
        before.push(self.last_versions(row)?);
        let now: Versions = match self.rows.worker_versions(queue, row.tenant)? {
            Some(text) => parsed(&text, "worker versions")?,
            None => {
                let kinds: BTreeSet<&String> = before.iter().flat_map(|versions| versions.keys()).collect();
                self.newest_seen(row.tenant, kinds)?
            }
        };
        Ok(versions_changed(&before, &now))
    }

    /// As the worker of the last attempt said; where none did, as the run was reported with.
    fn last_versions(&mut self, row: &RunRow) -> Result<Versions> {
        if let Some(origin) = self.rows.last_origin(row.id)? {
            let origin: AttemptOrigin = parsed(&origin, "origin")?;
            if !origin.versions.is_empty() {
                return Ok(origin.versions);
            }
        }
        Ok(self.about_of(row.id, row.run.revision)?.versions)
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::Unexpected(format!("{what}: {e}")))
}
