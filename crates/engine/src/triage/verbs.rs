//! Actions of a person on a run, with their history.

use redrive_core::breaker::BreakerStateName;
use redrive_core::ids::QueueName;
use redrive_core::lifecycle::{Event, Moved, Outcome, reject_unleasable};
use redrive_core::run::{State, StateName};
use redrive_core::text::{Label, Text};
use redrive_core::verdict::Target;

use crate::attempt::under_lease::state_answer;
use crate::codec::encode;
use crate::error::Result;
use crate::ledger::steps;
use crate::model::triage::{Triage, TriageAct, Triaged};
use crate::model::{AttemptBody, HourlyKind};
use crate::ports::rows::NewMove;
use crate::runs::attempts::{AttemptEnd, AttemptRecord, json};
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::sweeps;
use crate::triage::plans;
use crate::triage::reviews;
use crate::triage::{merges, replay};
use crate::tx::Tx;

/// `POST /v1/runs/{run_id}/{action}`.
pub fn triage(tx: &mut Tx<'_>, act: &TriageAct) -> Result<Triaged> {
    let row = run_row::require_run(tx, &act.at)?;
    let row = act_on(tx, row, act)?;
    triaged(tx, &row)
}

/// Applies an action to a run, for single actions and bulk operations alike.
pub fn act_on(tx: &mut Tx<'_>, row: RunRow, act: &TriageAct) -> Result<RunRow> {
    let row = match &act.triage {
        Triage::Replay(replay) => replay::replay(tx, row, act, replay)?,
        Triage::Review => replay::review(tx, row, act)?,
        Triage::Approve { plan_hash, own_too } => replay::approve(tx, row, act, plan_hash, *own_too)?,
        Triage::Reassign { agent, queue } => reassign(tx, row, act, agent.as_ref(), queue.as_ref())?,
        Triage::Assign { to } => assign(tx, row, act, to.as_ref())?,
        Triage::Note => {
            note_move(tx, &row, &row, &act.actor, "note", act.reason.as_ref())?;
            row
        }
        Triage::Cancel => plain(tx, row, act, &Event::Cancel)?,
        Triage::Resolve => plain(tx, row, act, &Event::Resolve)?,
        Triage::Discard => plain(tx, row, act, &Event::Discard)?,
        Triage::Reject => plain(tx, row, act, &Event::Reject)?,
        Triage::Defer { until } => plain(tx, row, act, &Event::Defer { until: *until })?,
        Triage::Unmerge => {
            let into = row.merged_into().cloned();
            let row = plain(tx, row, act, &Event::Unmerge)?;
            if let Some(into) = into {
                merges::take_steps_back(tx, &row, &into, act)?;
            }
            row
        }
        Triage::Merge { into } => {
            let event = merges::merge(tx, &row, into)?;
            plain(tx, row, act, &event)?
        }
    };
    Ok(row)
}

/// An action that only changes the state.
fn plain(tx: &mut Tx<'_>, mut row: RunRow, act: &TriageAct, event: &Event<'_>) -> Result<RunRow> {
    let before = row.clone();
    let (_, policy) = run_row::rules_of(tx, &row)?;
    let moved = row.ask(event, &policy, tx.now)?;
    steps::carry_out(tx, &row, &moved.effects)?;
    row.run = moved.run;
    if before.run.lease().is_some() {
        end_cancelled(tx, &before, &mut row)?;
    }
    run_row::save(tx, &before, &row)?;
    if before.run.state.name() == StateName::Review && row.run.state.name() != StateName::Review {
        reviews::forget_request(tx, row.id)?;
    }
    note_move(tx, &before, &row, &act.actor, event.name().as_str(), act.reason.as_ref())?;
    if row.run.state.name() == StateName::Dead && before.run.state.name() != StateName::Dead {
        tx.counters.happened(tx.now, row.tenant, row.queue, HourlyKind::Dead, None);
    }
    Ok(row)
}

/// Moves the run to another agent or queue; its due time stays.
fn reassign(
    tx: &mut Tx<'_>,
    mut row: RunRow,
    act: &TriageAct,
    agent: Option<&Label>,
    queue: Option<&QueueName>,
) -> Result<RunRow> {
    let before = row.clone();
    row.run = reassigned(tx, &row, queue)?.run;
    let target = Target { agent: agent.cloned(), model: None, queue: queue.cloned() };
    run_row::redirect(tx, &mut row, &target)?;
    let (_, policy) = run_row::rules_of(tx, &row)?;
    reject_unleasable(&mut row.run, &policy);
    run_row::save(tx, &before, &row)?;
    run_row::keep_place(tx, &row, &target)?;
    tx.wake |= row.run.due_at().is_some();
    if row.run.state.name() == StateName::Dead && before.run.state.name() != StateName::Dead {
        sweeps::note_rejected(tx, &before, &row)?;
    }
    let to = [agent.map(|agent| format!("agent {agent}")), queue.map(|queue| format!("queue {queue}"))];
    let to = to.into_iter().flatten().collect::<Vec<_>>().join(", ");
    note_with(tx, &before, &row, act, "reassign", &format!("To {to}."))?;
    Ok(row)
}

/// The transition of a reassignment, if it is allowed.
pub fn reassigned(tx: &mut Tx<'_>, row: &RunRow, queue: Option<&QueueName>) -> Result<Moved> {
    let queue = plans::target_queue(tx, row, queue)?;
    let policy = plans::replay_rules(tx, row, &queue)?;
    let severity = plans::severity_for(tx, row, &policy)?;
    Ok(row.ask(&Event::Reassign { severity }, &policy, tx.now)?)
}

fn assign(tx: &mut Tx<'_>, mut row: RunRow, act: &TriageAct, to: Option<&Label>) -> Result<RunRow> {
    let (_, policy) = run_row::rules_of(tx, &row)?;
    row.run = row.ask(&Event::Assign, &policy, tx.now)?.run;
    run_row::save_life(tx, &row)?;
    tx.rows.set_assigned(row.id, to, tx.now)?;
    tx.counters.moved(row.id, Some(&row.counted()), &row.counted());
    let note = to.map_or_else(|| "To nobody.".to_owned(), |to| format!("To {to}."));
    note_with(tx, &row, &row, act, "assign", &note)?;
    Ok(row)
}

/// Records an action with one note: what was done, then the reason.
pub fn note_with(
    tx: &mut Tx<'_>,
    before: &RunRow,
    row: &RunRow,
    act: &TriageAct,
    event: &str,
    what: &str,
) -> Result<()> {
    let note = match &act.reason {
        // The reason stays byte for byte.
        Some(reason) => {
            let what = Text::from(what);
            let what = what.token().strip_suffix('"').unwrap_or_default();
            Text::from_token(format!("{what} {}", reason.token().strip_prefix('"').unwrap_or_default()))
        }
        None => Some(Text::from(what)),
    };
    note_move(tx, before, row, &act.actor, event, note.as_ref())
}

fn triaged(tx: &mut Tx<'_>, row: &RunRow) -> Result<Triaged> {
    let answer = state_answer(tx, row, row.run.state.name())?;
    let review = match &row.run.state {
        State::Review(review) => Some((review.plan_hash.clone(), review.expires_at)),
        State::Scheduled(_)
        | State::Running(_)
        | State::Dead { .. }
        | State::Succeeded
        | State::Recovered
        | State::Resolved
        | State::Discarded
        | State::Merged(_) => None,
    };
    Ok(Triaged { answer, attempt: row.run.attempt, revision: row.run.revision, review })
}

/// Records the cancelled attempt.
fn end_cancelled(tx: &mut Tx<'_>, before: &RunRow, row: &mut RunRow) -> Result<()> {
    let body = encode(json(&AttemptBody::default())?.as_bytes());
    let ended = AttemptEnd { number: before.run.attempt, epoch: Some(before.run.epoch) };
    let record = AttemptRecord::new(before, row, ended, Outcome::Cancelled, BreakerStateName::Closed, &body)?;
    tx.rows.put_attempt(&record, tx.now)?;
    row.worker = None;
    row.start_id = None;
    Ok(())
}

/// Adds an entry to the history of a run.
pub fn note_move(
    tx: &mut Tx<'_>,
    before: &RunRow,
    row: &RunRow,
    actor: &str,
    event: &str,
    note: Option<&Text>,
) -> Result<()> {
    let (from, to) = (before.run.state.name(), row.run.state.name());
    Ok(tx.rows.insert_move(&NewMove { run: row.id, actor, event, from, to, note }, tx.now)?)
}
