//! One run's row as lists show it.

use redrive_core::reason::Category;
use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{RunSummary, Severity};
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::{label, label_or_none, parsed, parsed_or_empty, parsed_or_none, time, time_or_none, whole};
use super::life::word;
use crate::error::{Error, Result};

const BY_NUMBER: &str = "SELECT \
     runs.run_id, tenants.name, queues.name, runs.agent, runs.task_type, runs.state, runs.attempt, runs.revision, \
     runs.reason, runs.category, runs.detail, runs.severity, runs.environment, runs.customer, runs.model, \
     runs.provider, runs.tool, runs.step, runs.idempotency_key, head.public_id, head.template, \
     runs.received_at, runs.updated_at, runs.due, runs.held_by, runs.deferred_until, runs.merged_into, runs.replays, \
     runs.assigned_to \
     FROM runs JOIN tenants ON tenants.id = runs.tenant JOIN queues ON queues.id = runs.queue \
     LEFT JOIN patterns own ON own.id = runs.pattern \
     LEFT JOIN patterns head ON head.id = coalesce(own.merged_into, own.id) WHERE runs.id = ?";

/// The runs of these numbers, in their order; one that is gone is left out.
pub(super) fn summaries(conn: &Connection, numbers: &[i64]) -> Result<Vec<RunSummary>> {
    let mut find = conn.prepare_cached(BY_NUMBER)?;
    let mut runs = Vec::with_capacity(numbers.len());
    for number in numbers {
        if let Some(row) = find.query([number])?.next()? {
            runs.push(summary_of(row)?);
        }
    }
    Ok(runs)
}

pub(super) fn summary(conn: &Connection, number: i64) -> Result<RunSummary> {
    let mut find = conn.prepare_cached(BY_NUMBER)?;
    find.query_row([number], |row| Ok(summary_of(row))).optional()?.ok_or(Error::NotFound("run"))?
}

fn summary_of(row: &Row<'_>) -> Result<RunSummary> {
    let state = word(StateName::ALL, row.get(5)?, "state")?;
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
        category: category(row.get(9)?)?,
        dead_because: dead_because(state, row.get(10)?)?,
        severity: word(Severity::ALL, row.get(11)?, "severity")?,
        environment: label(row, 12)?,
        customer: label_or_none(row, 13)?,
        model: label_or_none(row, 14)?,
        provider: label_or_none(row, 15)?,
        tool: label_or_none(row, 16)?,
        step: label_or_none(row, 17)?,
        idempotency_key: parsed_or_none(row, 18, "idempotency_key")?,
        pattern: row.get(19)?,
        template: row.get(20)?,
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
    if number == -1 { Ok(None) } else { word(&Category::ALL, number, "category").map(Some) }
}

fn dead_because(state: StateName, detail: i64) -> Result<Option<DeadBecause>> {
    if state == StateName::Dead { word(DeadBecause::ALL, detail, "dead_because").map(Some) } else { Ok(None) }
}
