//! Loads what a plan depends on, in one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_core::ids::{QueueName, StepKey};
use redrive_core::ledger::{self, VersionChange};
use redrive_core::plan::{AttemptTarget, OpenBreaker, Permit, Plan, PlanInput, Proposed, permit, plan as make};
use redrive_core::policy::Policy;
use redrive_core::run::State;
use redrive_core::text::Label;
use redrive_core::wire::{PlanAnswer, Severity, Versions};

use crate::breakers::gate;
use crate::error::{Error, Result};
use crate::ledger::steps::{StepRow, recorded_versions};
use crate::model::triage::Replay;
use crate::model::{AttemptOrigin, RunRef};
use crate::names::tenant_names;
use crate::names::versions;
use crate::runs::revisions;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::triage::reviews;
use crate::tx::{QueueRow, Tx};

/// `GET …/plan`, `POST …/plan`.
pub fn plan(tx: &mut Tx<'_>, at: &RunRef, replay: &Replay) -> Result<PlanAnswer> {
    let row = run_row::require_run(tx, at)?;
    let mut proposed = replay.proposed();
    if proposed.is_nothing() && matches!(row.run.state, State::Review(_)) {
        proposed = reviews::asked_for(tx, &row)?.map(|asked| asked.replay.proposed()).unwrap_or_default();
    }
    let Planned { plan, .. } = plan_of(tx, &row, &proposed)?;
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

/// A plan, and the policy of its replay.
pub struct Planned {
    pub plan: Plan,
    pub policy: Arc<Policy>,
}

/// Whether a replay is permitted, by which policy, and which steps it repeats.
pub struct Permitted {
    pub permit: Permit,
    pub policy: Arc<Policy>,
    /// Plain steps to repeat.
    pub again: Vec<StepKey>,
}

impl From<Planned> for Permitted {
    fn from(Planned { plan, policy }: Planned) -> Self {
        let permit = Permit { refused: plan.refused, approval_needed: plan.approval_needed };
        Self { permit, policy, again: plan.again }
    }
}

/// The part of a plan that a replay needs; bulk operations must not compute whole plans.
pub fn permit_of(tx: &mut Tx<'_>, row: &RunRow, proposed: &Proposed) -> Result<Permitted> {
    if proposed.from_step.is_some() {
        return plan_of(tx, row, proposed).map(Permitted::from);
    }
    let queue = target_queue(tx, row, proposed.target.queue.as_ref())?;
    let policy = replay_rules(tx, row, &queue)?;
    let severity = severity_for(tx, row, &policy)?;
    Ok(Permitted { permit: permit(&row.run, proposed, severity, &policy), policy, again: Vec::new() })
}

pub fn plan_of(tx: &mut Tx<'_>, row: &RunRow, proposed: &Proposed) -> Result<Planned> {
    let queue = target_queue(tx, row, proposed.target.queue.as_ref())?;
    let policy = replay_rules(tx, row, &queue)?;
    let own = tx.rows.own_of(row.id)?.ok_or(Error::NotFound("run"))?;
    let entries = tx.rows.steps_of_run(row.id)?;
    let steps = entries.iter().map(StepRow::fact).collect::<Result<Vec<_>>>()?;
    let agent = proposed.target.agent.as_ref().or(own.agent.as_ref());
    let model = proposed.target.model.as_ref().or(row.model.as_ref());
    let situation = PlanInput {
        run: &row.run,
        steps: &steps,
        proposed,
        target: AttemptTarget {
            queue: queue.name.as_str(),
            agent: agent.map(Label::as_str),
            model: model.map(Label::as_str),
        },
        versions_changed: versions_changed(tx, row, queue.id, &entries)?,
        severity: own.severity,
        policy: &policy,
        busy: match &own.order_key {
            Some(key) => tx.rows.busy(row.tenant, key, row.id)?,
            None => None,
        },
        breaker: breaker_at_target(tx, row, model, &policy)?,
    };
    let plan = make(&situation).map_err(|_| Error::NoSuchStep)?;
    Ok(Planned { plan, policy })
}

/// The open breaker at the target, which may be another model.
fn breaker_at_target(
    tx: &mut Tx<'_>,
    row: &RunRow,
    model: Option<&Label>,
    policy: &Policy,
) -> Result<Option<OpenBreaker>> {
    let target = RunRow { model: model.cloned(), ..row.clone() };
    gate::open_breaker(tx, &target, policy)
}

/// The named queue, which must exist, or the run's own.
pub fn target_queue(tx: &mut Tx<'_>, row: &RunRow, named: Option<&QueueName>) -> Result<QueueRow> {
    let Some(name) = named else { return tx.queue_by_id(row.queue) };
    tenant_names::queue_seen_by(tx, row.tenant, name)?.ok_or(Error::NotFound("queue"))
}

/// The policy of a replay into a queue, combined with those of the queues that the run was in since its last attempt.
pub fn replay_rules(tx: &mut Tx<'_>, row: &RunRow, goes_to: &QueueRow) -> Result<Arc<Policy>> {
    let mut left = Vec::new();
    if row.queue != goes_to.id {
        left.push(run_row::rules_of(tx, row)?.1);
    }
    for name in &row.run.left_queues.names {
        if let Some(queue) = tx.find_queue(name)?.filter(|queue| queue.id != goes_to.id) {
            left.push(tx.policy(&queue, row.tenant)?);
        }
    }
    let policy = tx.policy(goes_to, row.tenant)?;
    Ok(redrive_core::plan::replay_rules(&row.run, policy, &left))
}

/// The run's severity; read only if the policy depends on it.
pub fn severity_for(tx: &mut Tx<'_>, row: &RunRow, policy: &Policy) -> Result<Severity> {
    match policy.approval.from_severity {
        Some(_) => Ok(tx.rows.own_of(row.id)?.ok_or(Error::NotFound("run"))?.severity),
        None => Ok(Severity::Normal),
    }
}

/// The versions of the recorded work that differ from those of the queue's workers, or from the newest that the tenant has
/// used.
fn versions_changed(tx: &mut Tx<'_>, row: &RunRow, queue: i64, entries: &[StepRow]) -> Result<Vec<VersionChange>> {
    let mut before = recorded_versions(entries)?;
    before.push(last_versions(tx, row)?);
    let now: Versions = match tx.rows.worker_versions(queue, row.tenant)? {
        Some(text) => parsed(&text, "worker versions")?,
        None => {
            let kinds: BTreeSet<&String> = before.iter().flat_map(|versions| versions.keys()).collect();
            versions::newest_seen(tx, row.tenant, kinds)?
        }
    };
    Ok(ledger::versions_changed(&before, &now))
}

/// The versions of the last attempt, or those that the run was reported with.
fn last_versions(tx: &mut Tx<'_>, row: &RunRow) -> Result<Versions> {
    if let Some(origin) = tx.rows.last_origin(row.id)? {
        let origin: AttemptOrigin = parsed(&origin, "origin")?;
        if !origin.versions.is_empty() {
            return Ok(origin.versions);
        }
    }
    Ok(revisions::about_of(tx, row.id, row.run.revision)?.versions)
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::Unexpected(format!("{what}: {e}")))
}
