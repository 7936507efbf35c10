//! One run's row as lists show it.

use redrive_core::reason::Category;
use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{RunSummary, Severity};

use crate::shared::columns::{
    Columns, label, label_or_none, number, owned_or_none, parsed, parsed_or_empty, parsed_or_none, time, time_or_none,
    whole,
};
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::word;

/// Of all runs; a condition follows.
pub(crate) const SUMMARY: &str = "SELECT \
     runs.run_id, tenants.name, queues.name, runs.agent, runs.task_type, runs.state, runs.attempt, runs.revision, \
     runs.reason, runs.category, runs.detail, runs.severity, runs.environment, runs.customer, runs.model, \
     runs.provider, runs.tool, runs.step, runs.idempotency_key, head.public_id, head.template, \
     runs.received_at, runs.updated_at, runs.due, runs.held_by, runs.deferred_until, runs.merged_into, runs.replays, \
     runs.assigned_to \
     FROM runs JOIN tenants ON tenants.id = runs.tenant JOIN queues ON queues.id = runs.queue \
     LEFT JOIN patterns own ON own.id = runs.pattern \
     LEFT JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)";

pub(crate) fn summary_of(row: &impl Columns) -> Result<RunSummary> {
    let state = word(StateName::ALL, number(row, 5)?, "state")?;
    Ok(RunSummary {
        run_id: parsed(row, 0, "run_id")?,
        tenant: parsed(row, 1, "tenant")?,
        queue: parsed(row, 2, "queue")?,
        agent: label_or_none(row, 3)?,
        task_type: label_or_none(row, 4)?,
        state,
        attempt: whole(row, 6, "attempt")?,
        revision: whole(row, 7, "revision")?,
        reason: parsed_or_empty(row, 8, "reason")?,
        category: category(number(row, 9)?)?,
        dead_because: dead_because(state, number(row, 10)?)?,
        severity: word(Severity::ALL, number(row, 11)?, "severity")?,
        environment: label(row, 12)?,
        customer: label_or_none(row, 13)?,
        model: label_or_none(row, 14)?,
        provider: label_or_none(row, 15)?,
        tool: label_or_none(row, 16)?,
        step: label_or_none(row, 17)?,
        idempotency_key: parsed_or_none(row, 18, "idempotency_key")?,
        pattern: owned_or_none(row, 19)?,
        template: owned_or_none(row, 20)?,
        received_at: time(row, 21)?,
        updated_at: time(row, 22)?,
        next_attempt_at: time_or_none(row, 23)?,
        held_by: label_or_none(row, 24)?,
        deferred_until: time_or_none(row, 25)?,
        merged_into: parsed_or_none(row, 26, "merged_into")?,
        replays: whole(row, 27, "replays")?,
        assigned_to: label_or_none(row, 28)?,
    })
}

/// -1 before the first failure.
fn category(number: i64) -> Result<Option<Category>> {
    if number == -1 { Ok(None) } else { Ok(word(&Category::ALL, number, "category").map(Some)?) }
}

fn dead_because(state: StateName, detail: i64) -> Result<Option<DeadBecause>> {
    if state == StateName::Dead { Ok(word(DeadBecause::ALL, detail, "dead_because").map(Some)?) } else { Ok(None) }
}
