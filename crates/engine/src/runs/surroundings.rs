//! The context of a decision (spend, breakers, queue, agent) and the target that it picks. Loaded only where the policy
//! needs it, so that an ordinary failure costs no extra reads.

use redrive_core::policy::Policy;
use redrive_core::reason::{Category, Reason};
use redrive_core::strategy::Failure;
use redrive_core::verdict::Target;

use crate::breakers::gate;
use crate::counters;
use crate::error::Result;
use crate::model::NewRun;
use crate::names::tenant_names;
use crate::runs::run_row::RunRow;
use crate::tx::{QueueRow, Tx};

/// Loads what the policy needs to decide on `failure`; `new` is set for a run that is not in the store yet.
pub fn load_surroundings(
    tx: &mut Tx<'_>,
    row: &mut RunRow,
    (queue, policy): (&QueueRow, &Policy),
    failure: &Failure,
    new: Option<&NewRun>,
) -> Result<()> {
    load_tenant_surroundings(tx, row, policy)?;
    let routed = !policy.ladder.is_empty() || policy.fallback_queue.is_some() || !policy.agents.is_empty();
    let changed = failure.category != Category::Transient || policy.strategies.contains_key(&failure.reason);
    if !changed || !(routed || failure.reason == Reason::ContextOverflow) {
        return Ok(());
    }
    let around = &mut row.run.around;
    around.model.clone_from(&row.model);
    if !routed {
        return Ok(());
    }
    around.queue = Some(queue.name.clone());
    (around.agent, around.task_type) = match new {
        Some(new) => (new.agent.clone(), new.task_type.clone()),
        None => tx.rows.own_of(row.id)?.map(|own| (own.agent, own.task_type)).unwrap_or_default(),
    };
    Ok(())
}

/// Loads the tenant's spend, where a budget limits it, and the breakers that hold its retries.
pub fn load_tenant_surroundings(tx: &mut Tx<'_>, row: &mut RunRow, policy: &Policy) -> Result<()> {
    if policy.budget.look_at_the_tenant() {
        row.run.around.tenant_spent = counters::spent_today(tx, row.tenant)?;
    }
    gate::load_holds(tx, row, policy)
}

/// Applies the target of a verdict or a replay to the row.
pub fn redirect(tx: &mut Tx<'_>, row: &mut RunRow, target: &Target) -> Result<()> {
    if target.model.is_some() {
        row.model.clone_from(&target.model);
    }
    if let Some(queue) = &target.queue {
        let to = tenant_names::queue_sent_to(tx, row.tenant, queue)?.id;
        if to != row.queue {
            let from = tx.queue_by_id(row.queue)?.name;
            row.run.leave_queue(&from);
            row.queue = to;
        }
    }
    Ok(())
}

/// Writes the agent and queue of a target, which other updates leave out.
pub fn keep_place(tx: &mut Tx<'_>, row: &RunRow, target: &Target) -> Result<()> {
    if target.agent.is_none() && target.queue.is_none() {
        return Ok(());
    }
    Ok(tx.rows.set_place(row.id, target.agent.as_ref(), row.queue)?)
}
