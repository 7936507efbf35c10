//! Runs on their way to the database: new ones, those that only moved, and those of which more has changed.

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::Severity;
use tokio_postgres::types::ToSql;

use super::connection::Session;
use super::sheet::SheetRun;
use super::write_out::{Sent, each, over, said};
use crate::commands::life::{StateColumns, position};
use crate::commands::numbers::key_hash;

/// A run to be written, and its inner life.
pub(super) type Run<'a> = (&'a SheetRun, &'a [u8]);

pub(super) const INSERT_RUNS: &str = "INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision,
         reason, category, pattern, severity, received_at, updated_at, deferred_until, environment, agent, task_type,
         customer, model, provider, tool, step, idempotency_key, order_key, held_by, merged_into, replays, life, assigned_to)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[],
         $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::bigint[], $14::bigint[], $15::bigint[],
         $16::bigint[], $17::bigint[], $18::bigint[], $19::bytea[], $20::bytea[], $21::bytea[], $22::bytea[], $23::bytea[],
         $24::bytea[], $25::bytea[], $26::bytea[], $27::text[], $28::text[], $29::bytea[], $30::text[], $31::bigint[],
         $32::bytea[], $33::bytea[])";

pub(super) async fn insert_runs(session: &Session, new: &[Run<'_>]) -> Sent {
    if new.is_empty() {
        return Ok(0);
    }
    let states = each(new, |(kept, _)| StateColumns::of(&kept.row.run));
    let columns = |kept: &'_ SheetRun| kept.new.as_ref().map_or(kept.updated_at, |new| new.received_at).as_millis();
    let values: [&(dyn ToSql + Sync); 33] = [
        &each(new, |(kept, _)| kept.row.id),
        &each(new, |(kept, _)| kept.row.tenant),
        &each(new, |(kept, _)| kept.row.queue),
        &each(new, |(kept, _)| key_hash(kept.row.tenant, kept.row.run_id.as_str())),
        &each(new, |(kept, _)| kept.row.run_id.as_str()),
        &each(&states, |state| position(StateName::ALL, &state.state)),
        &each(&states, |state| state.detail),
        &each(&states, |state| state.due.map(Timestamp::as_millis)),
        &each(&states, |state| state.wake.map(Timestamp::as_millis)),
        &each(new, |(kept, _)| i64::from(kept.row.run.attempt)),
        &each(new, |(kept, _)| i64::from(kept.row.run.revision)),
        &each(new, |(kept, _)| &*kept.row.reason),
        &each(new, |(kept, _)| kept.row.category),
        &each(new, |(kept, _)| kept.row.pattern),
        &each(new, |(kept, _)| position(Severity::ALL, &kept.own.severity)),
        &each(new, |(kept, _)| columns(kept)),
        &each(new, |(kept, _)| kept.updated_at.as_millis()),
        &each(new, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        &each(new, |(kept, _)| kept.row.environment.as_str().as_bytes()),
        &each(new, |(kept, _)| said(&kept.own.agent)),
        &each(new, |(kept, _)| said(&kept.own.task_type)),
        &each(new, |(kept, _)| kept.new.as_ref().and_then(|new| said(&new.customer))),
        &each(new, |(kept, _)| said(&kept.row.model)),
        &each(new, |(kept, _)| said(&kept.row.provider)),
        &each(new, |(kept, _)| said(&kept.row.tool)),
        &each(new, |(kept, _)| said(&kept.row.step)),
        &each(new, |(kept, _)| kept.new.as_ref().and_then(|new| new.idempotency_key.as_deref())),
        &each(new, |(kept, _)| kept.own.order_key.as_ref().map(|key| key.as_str())),
        &each(&states, |state| said(&state.held_by)),
        &each(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        &each(new, |(kept, _)| i64::from(kept.row.run.replays)),
        &each(new, |(_, life)| *life),
        &each(new, |(kept, _)| said(&kept.assigned_to)),
    ];
    over(session, new.len(), INSERT_RUNS, &values).await
}

pub(super) const MOVE_RUNS: &str =
    "UPDATE runs SET state = new.state, detail = new.detail, due = new.due, wake = new.wake,
         attempt = new.attempt, revision = new.revision, updated_at = new.updated_at,
         deferred_until = new.deferred_until, held_by = new.held_by, merged_into = new.merged_into,
         replays = new.replays, life = new.life
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
         $8::bigint[], $9::bigint[], $10::bytea[], $11::text[], $12::bigint[], $13::bytea[])
         AS new(id, state, detail, due, wake, attempt, revision, updated_at, deferred_until, held_by, merged_into,
             replays, life)
     WHERE runs.id = new.id";

pub(super) async fn move_runs(session: &Session, moved: &[Run<'_>]) -> Sent {
    if moved.is_empty() {
        return Ok(0);
    }
    let states = each(moved, |(kept, _)| StateColumns::of(&kept.row.run));
    let values: [&(dyn ToSql + Sync); 13] = [
        &each(moved, |(kept, _)| kept.row.id),
        &each(&states, |state| position(StateName::ALL, &state.state)),
        &each(&states, |state| state.detail),
        &each(&states, |state| state.due.map(Timestamp::as_millis)),
        &each(&states, |state| state.wake.map(Timestamp::as_millis)),
        &each(moved, |(kept, _)| i64::from(kept.row.run.attempt)),
        &each(moved, |(kept, _)| i64::from(kept.row.run.revision)),
        &each(moved, |(kept, _)| kept.updated_at.as_millis()),
        &each(moved, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        &each(&states, |state| said(&state.held_by)),
        &each(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        &each(moved, |(kept, _)| i64::from(kept.row.run.replays)),
        &each(moved, |(_, life)| *life),
    ];
    over(session, moved.len(), MOVE_RUNS, &values).await
}

pub(super) const UPDATE_RUNS: &str = "UPDATE runs SET queue = new.queue, state = new.state, detail = new.detail, due = new.due,
         wake = new.wake, attempt = new.attempt, revision = new.revision, reason = new.reason, category = new.category,
         pattern = new.pattern, severity = new.severity, updated_at = new.updated_at,
         deferred_until = new.deferred_until, agent = new.agent, model = new.model, provider = new.provider,
         tool = new.tool, step = new.step, held_by = new.held_by, merged_into = new.merged_into, replays = new.replays,
         life = new.life, assigned_to = new.assigned_to
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
         $8::bigint[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bytea[],
         $16::bytea[], $17::bytea[], $18::bytea[], $19::bytea[], $20::bytea[], $21::text[], $22::bigint[], $23::bytea[],
         $24::bytea[])
         AS new(id, queue, state, detail, due, wake, attempt, revision, reason, category, pattern, severity, updated_at,
             deferred_until, agent, model, provider, tool, step, held_by, merged_into, replays, life, assigned_to)
     WHERE runs.id = new.id";

pub(super) async fn update_runs(session: &Session, known: &[Run<'_>]) -> Sent {
    if known.is_empty() {
        return Ok(0);
    }
    let states = each(known, |(kept, _)| StateColumns::of(&kept.row.run));
    let values: [&(dyn ToSql + Sync); 24] = [
        &each(known, |(kept, _)| kept.row.id),
        &each(known, |(kept, _)| kept.row.queue),
        &each(&states, |state| position(StateName::ALL, &state.state)),
        &each(&states, |state| state.detail),
        &each(&states, |state| state.due.map(Timestamp::as_millis)),
        &each(&states, |state| state.wake.map(Timestamp::as_millis)),
        &each(known, |(kept, _)| i64::from(kept.row.run.attempt)),
        &each(known, |(kept, _)| i64::from(kept.row.run.revision)),
        &each(known, |(kept, _)| &*kept.row.reason),
        &each(known, |(kept, _)| kept.row.category),
        &each(known, |(kept, _)| kept.row.pattern),
        &each(known, |(kept, _)| position(Severity::ALL, &kept.own.severity)),
        &each(known, |(kept, _)| kept.updated_at.as_millis()),
        &each(known, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        &each(known, |(kept, _)| said(&kept.own.agent)),
        &each(known, |(kept, _)| said(&kept.row.model)),
        &each(known, |(kept, _)| said(&kept.row.provider)),
        &each(known, |(kept, _)| said(&kept.row.tool)),
        &each(known, |(kept, _)| said(&kept.row.step)),
        &each(&states, |state| said(&state.held_by)),
        &each(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        &each(known, |(kept, _)| i64::from(kept.row.run.replays)),
        &each(known, |(_, life)| *life),
        &each(known, |(kept, _)| said(&kept.assigned_to)),
    ];
    over(session, known.len(), UPDATE_RUNS, &values).await
}
