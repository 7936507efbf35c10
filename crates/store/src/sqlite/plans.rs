//! What a plan is made from, read where nothing can change meanwhile.

use std::collections::BTreeSet;

use redrive_core::ids::{RunId, StepKey};
use redrive_core::ledger::{VersionChange, versions_changed};
use redrive_core::plan::{GoesTo, OpenBreaker, Permit, Plan, Proposed, Situation, permit, plan as make};
use redrive_core::policy::{Policy, ReplayApproval};
use redrive_core::run::State;
use redrive_core::text::Label;
use redrive_core::wire::{PlanAnswer, Severity, Versions};
use rusqlite::{OptionalExtension, params};

use crate::error::{Error, Result};
use crate::model::{AttemptOrigin, RunRef};
use crate::sqlite::batch::{Batch, Queue};
use crate::sqlite::columns::{json, label_or_none, text};
use crate::sqlite::life::word;
use crate::sqlite::lookup::span_of;
use crate::sqlite::rows::RunRow;
use crate::sqlite::steps::{StepRow, entries_of, recorded_versions};
use crate::sqlite::versions::newest_seen;
use crate::triage_model::Replay;

/// `GET …/plan`, `POST …/plan`.
pub(super) fn plan(batch: &mut Batch<'_>, at: &RunRef, replay: &Replay) -> Result<PlanAnswer> {
    let row = batch.require_run(at)?;
    let mut proposed = replay.proposed();
    if proposed.is_nothing() && matches!(row.run.state, State::Review(_)) {
        proposed = batch.asked_for(&row)?.map(|asked| asked.replay.proposed()).unwrap_or_default();
    }
    let Planned { plan, .. } = batch.plan_of(&row, &proposed)?;
    Ok(PlanAnswer {
        run_id: row.run_id.clone(),
        tenant: batch.tenant_name(row.tenant)?,
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

/// A plan, and the rules of where its attempt goes.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) policy: std::sync::Arc<Policy>,
}

/// Whether a replay may be made, by which rules, and what it takes back.
pub(super) struct Permitted {
    pub(super) permit: Permit,
    pub(super) policy: std::sync::Arc<Policy>,
    /// Plain steps that are to be done again.
    pub(super) again: Vec<StepKey>,
}

impl From<Planned> for Permitted {
    fn from(Planned { plan, policy }: Planned) -> Self {
        let permit = Permit { refused: plan.refused, approval_needed: plan.approval_needed };
        Self { permit, policy, again: plan.again }
    }
}

/// What the run's row holds that only a plan reads.
struct Own {
    agent: Option<Label>,
    order_key: Option<String>,
    severity: Severity,
}

impl Batch<'_> {
    /// As much of a plan as a replay needs that nobody looks at first: a thousand of them must not cost a thousand plans.
    pub(super) fn permit_of(&mut self, row: &RunRow, proposed: &Proposed) -> Result<Permitted> {
        if proposed.from_step.is_some() {
            return self.plan_of(row, proposed).map(Permitted::from);
        }
        let queue = self.target_queue(row, proposed)?;
        let policy = self.policy(&queue, row.tenant)?;
        let severity = match policy.approval.replay {
            ReplayApproval::Severity(_) => self.own_of(row)?.severity,
            ReplayApproval::Never | ReplayApproval::Unsafe | ReplayApproval::Always => Severity::Normal,
        };
        Ok(Permitted { permit: permit(&row.run, proposed, severity, &policy), policy, again: Vec::new() })
    }

    pub(super) fn plan_of(&mut self, row: &RunRow, proposed: &Proposed) -> Result<Planned> {
        let queue = self.target_queue(row, proposed)?;
        let policy = self.policy(&queue, row.tenant)?;
        let own = self.own_of(row)?;
        let entries = entries_of(self.conn, row.id)?;
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
            busy: self.busy(row, own.order_key.as_deref())?,
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
    fn target_queue(&mut self, row: &RunRow, proposed: &Proposed) -> Result<Queue> {
        let Some(name) = &proposed.target.queue else { return self.queue_by_id(row.queue) };
        self.find_queue(name)?.ok_or(Error::NotFound("queue"))
    }

    fn own_of(&self, row: &RunRow) -> Result<Own> {
        let mut find = self.conn.prepare_cached("SELECT agent, order_key, severity FROM runs WHERE id = ?1")?;
        let mut rows = find.query([row.id])?;
        let found = rows.next()?.ok_or(Error::NotFound("run"))?;
        Ok(Own {
            agent: label_or_none(found, 0)?,
            order_key: found.get(1)?,
            severity: word(Severity::ALL, found.get(2)?, "severity")?,
        })
    }

    /// What the work so far was done with, against what the workers of its queue have; where those said nothing, against
    /// the newest that the tenant has met.
    fn versions_changed(&self, row: &RunRow, queue: i64, entries: &[StepRow]) -> Result<Vec<VersionChange>> {
        let mut before = recorded_versions(entries)?;
        before.push(self.last_versions(row)?);
        let mut find = self.conn.prepare_cached("SELECT worker_versions FROM queues WHERE id = ?1")?;
        let workers: Option<String> = find.query_row([queue], |found| found.get(0))?;
        let now: Versions = match workers {
            Some(text) => json(&text, "worker versions")?,
            None => {
                let kinds: BTreeSet<&String> = before.iter().flat_map(|versions| versions.keys()).collect();
                newest_seen(self.conn, row.tenant, kinds)?
            }
        };
        Ok(versions_changed(&before, &now))
    }

    /// As the worker of the last attempt said; where none did, as the run was reported with.
    fn last_versions(&self, row: &RunRow) -> Result<Versions> {
        let (first, last) = span_of(row.id);
        let mut find = self
            .conn
            .prepare_cached("SELECT origin FROM attempts WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1")?;
        let mut rows = find.query([first, last])?;
        if let Some(found) = rows.next()? {
            let origin: AttemptOrigin = json(text(found, 0)?, "origin")?;
            if !origin.versions.is_empty() {
                return Ok(origin.versions);
            }
        }
        Ok(self.about_of(row.id, row.run.revision)?.versions)
    }

    fn busy(&self, row: &RunRow, order_key: Option<&str>) -> Result<Option<RunId>> {
        let Some(order_key) = order_key else { return Ok(None) };
        let mut find = self.conn.prepare_cached(
            "SELECT run_id FROM runs INDEXED BY runs_order
             WHERE tenant = ?1 AND order_key = ?2 AND order_key IS NOT NULL AND wake IS NOT NULL AND id <> ?3 LIMIT 1",
        )?;
        let found: Option<String> =
            find.query_row(params![row.tenant, order_key, row.id], |found| found.get(0)).optional()?;
        Ok(found.and_then(|id| id.parse().ok()))
    }
}
