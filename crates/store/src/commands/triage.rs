//! What a person does to a run, and the record of it.

use redrive_core::breaker::StateName as BreakerState;
use redrive_core::ids::QueueName;
use redrive_core::lifecycle::{Event, Moved, Outcome, reject_unleasable};
use redrive_core::run::{State, StateName};
use redrive_core::text::{Label, Text};
use redrive_core::verdict::Target;

use crate::codec::encode;
use crate::commands::attempts::{Ending, json};
use crate::commands::batch::Batch;
use crate::commands::rows::NewMove;
use crate::commands::run_row::RunRow;
use crate::commands::under_lease::state_answer;
use crate::commands::{merges, replay};
use crate::error::Result;
use crate::model::{AttemptBody, HourlyKind};
use crate::triage_model::{Act, Triage, Triaged};

/// `POST /v1/runs/{run_id}/` and the verb.
pub(crate) fn triage(batch: &mut Batch<'_>, act: &Act) -> Result<Triaged> {
    let row = batch.require_run(&act.at)?;
    let row = act_on(batch, row, act)?;
    triaged(batch, &row)
}

/// The one way from a person's word to a run's move, whether it is about one run or about many.
pub(crate) fn act_on(batch: &mut Batch<'_>, row: RunRow, act: &Act) -> Result<RunRow> {
    let row = match &act.triage {
        Triage::Replay(replay) => replay::replay(batch, row, act, replay)?,
        Triage::Review => replay::review(batch, row, act)?,
        Triage::Approve { plan_hash, own_too } => replay::approve(batch, row, act, plan_hash, *own_too)?,
        Triage::Reassign { agent, queue } => reassign(batch, row, act, agent.as_ref(), queue.as_ref())?,
        Triage::Assign { to } => assign(batch, row, act, to.as_ref())?,
        Triage::Note => {
            batch.note_move(&row, &row, &act.actor, "note", act.reason.as_ref())?;
            row
        }
        Triage::Cancel => plain(batch, row, act, &Event::Cancel)?,
        Triage::Resolve => plain(batch, row, act, &Event::Resolve)?,
        Triage::Discard => plain(batch, row, act, &Event::Discard)?,
        Triage::Reject => plain(batch, row, act, &Event::Reject)?,
        Triage::Defer { until } => plain(batch, row, act, &Event::Defer { until: *until })?,
        Triage::Unmerge => {
            let into = row.merged_into().cloned();
            let row = plain(batch, row, act, &Event::Unmerge)?;
            if let Some(into) = into {
                merges::take_steps_back(batch, &row, &into, act)?;
            }
            row
        }
        Triage::Merge { into } => {
            let event = merges::merge(batch, &row, into)?;
            plain(batch, row, act, &event)?
        }
    };
    Ok(row)
}

/// A move that changes nothing but where the run is.
fn plain(batch: &mut Batch<'_>, mut row: RunRow, act: &Act, event: &Event<'_>) -> Result<RunRow> {
    let before = row.clone();
    let (_, policy) = batch.rules_of(&row)?;
    let moved = row.ask(event, &policy, batch.now)?;
    batch.carry_out(&row, &moved.effects)?;
    row.run = moved.run;
    if before.run.lease().is_some() {
        end_cancelled(batch, &before, &mut row)?;
    }
    batch.save(&before, &row)?;
    if before.run.state.name() == StateName::Review && row.run.state.name() != StateName::Review {
        batch.forget_request(row.id)?;
    }
    batch.note_move(&before, &row, &act.actor, event.name().as_str(), act.reason.as_ref())?;
    if row.run.state.name() == StateName::Dead && before.run.state.name() != StateName::Dead {
        batch.tally.happened(batch.now, row.tenant, row.queue, HourlyKind::Dead, None);
    }
    Ok(row)
}

/// Another agent, another queue, or both; the run waits where it waited.
fn reassign(
    batch: &mut Batch<'_>,
    mut row: RunRow,
    act: &Act,
    agent: Option<&Label>,
    queue: Option<&QueueName>,
) -> Result<RunRow> {
    let before = row.clone();
    row.run = reassigned(batch, &row, queue)?.run;
    let target = Target { agent: agent.cloned(), model: None, queue: queue.cloned() };
    batch.redirect(&mut row, &target)?;
    let (_, policy) = batch.rules_of(&row)?;
    reject_unleasable(&mut row.run, &policy);
    batch.save(&before, &row)?;
    batch.keep_place(&row, &target)?;
    batch.wake |= row.run.due_at().is_some();
    if row.run.state.name() == StateName::Dead && before.run.state.name() != StateName::Dead {
        batch.note_rejected(&before, &row)?;
    }
    let to = [agent.map(|agent| format!("agent {agent}")), queue.map(|queue| format!("queue {queue}"))];
    let to = to.into_iter().flatten().collect::<Vec<_>>().join(", ");
    note_with(batch, &before, &row, act, "reassign", &format!("To {to}."))?;
    Ok(row)
}

/// Whether a run may go to another agent, or to the queue named.
pub(crate) fn reassigned(batch: &mut Batch<'_>, row: &RunRow, queue: Option<&QueueName>) -> Result<Moved> {
    let queue = batch.target_queue(row, queue)?;
    let policy = batch.replay_rules(row, &queue)?;
    let severity = batch.severity_for(row, &policy)?;
    Ok(row.ask(&Event::Reassign { severity }, &policy, batch.now)?)
}

fn assign(batch: &mut Batch<'_>, mut row: RunRow, act: &Act, to: Option<&Label>) -> Result<RunRow> {
    let (_, policy) = batch.rules_of(&row)?;
    row.run = row.ask(&Event::Assign, &policy, batch.now)?.run;
    batch.save_life(&row)?;
    batch.rows.set_assigned(row.id, to, batch.now)?;
    batch.tally.moved(row.id, Some(&row.standing()), &row.standing());
    let said = to.map_or_else(|| "To nobody.".to_owned(), |to| format!("To {to}."));
    note_with(batch, &row, &row, act, "assign", &said)?;
    Ok(row)
}

/// What was done, and then why, in one note: a reader should not have to look for either.
pub(crate) fn note_with(
    batch: &mut Batch<'_>,
    before: &RunRow,
    row: &RunRow,
    act: &Act,
    event: &str,
    what: &str,
) -> Result<()> {
    let note = match &act.reason {
        // Their token stays as it came: only ours is put before it.
        Some(reason) => {
            let what = Text::from(what);
            let what = what.token().strip_suffix('"').unwrap_or_default();
            Text::from_token(format!("{what} {}", reason.token().strip_prefix('"').unwrap_or_default()))
        }
        None => Some(Text::from(what)),
    };
    batch.note_move(before, row, &act.actor, event, note.as_ref())
}

fn triaged(batch: &mut Batch<'_>, row: &RunRow) -> Result<Triaged> {
    let answer = state_answer(batch, row, row.run.state.name())?;
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

/// The attempt that was under way has its record, though its worker has not been heard.
fn end_cancelled(batch: &mut Batch<'_>, before: &RunRow, row: &mut RunRow) -> Result<()> {
    let body = encode(json(&AttemptBody::default())?.as_bytes());
    let ending = Ending {
        attempt: before.run.attempt,
        late: false,
        outcome: Outcome::Cancelled,
        epoch: Some(before.run.epoch),
        digest: None,
        fingerprint: None,
        pattern: None,
        pattern_new: false,
        verdict: None,
        breaker: BreakerState::Closed,
        body: &body,
    };
    batch.keep_attempt(before, row, &ending)?;
    row.worker = None;
    row.start_id = None;
    Ok(())
}

impl Batch<'_> {
    /// Writes a move that is not an attempt into the history.
    pub(crate) fn note_move(
        &mut self,
        before: &RunRow,
        row: &RunRow,
        actor: &str,
        event: &str,
        note: Option<&Text>,
    ) -> Result<()> {
        let (from, to) = (before.run.state.name(), row.run.state.name());
        self.rows.insert_move(&NewMove { run: row.id, actor, event, from, to, note }, self.now)
    }
}
