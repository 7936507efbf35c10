//! What a person does to a run, and the record of it.

use redrive_core::lifecycle::{Event, Outcome};
use redrive_core::run::StateName;
use redrive_core::text::Text;
use rusqlite::params;

use crate::codec::encode;
use crate::error::Result;
use crate::model::{Act, AttemptBody, HourlyKind, Triage, Triaged};
use crate::sqlite::attempts::{Ending, json};
use crate::sqlite::batch::Batch;
use crate::sqlite::life::position;
use crate::sqlite::rows::RunRow;
use crate::sqlite::under_lease::state_answer;

/// `POST …/replay`, `cancel`, `resolve`, `discard`, `note`.
pub(super) fn triage(batch: &mut Batch<'_>, act: &Act) -> Result<Triaged> {
    let mut row = batch.require_run(&act.at)?;
    let before = row.clone();
    let event = match act.triage {
        Triage::Replay { force } => Event::Replay { by_person: true, force },
        Triage::Cancel => Event::Cancel,
        Triage::Resolve => Event::Resolve,
        Triage::Discard => Event::Discard,
        Triage::Note => {
            batch.note_move(&before, &row, &act.actor, "note", act.reason.as_ref())?;
            return triaged(batch, &row);
        }
    };
    let (_, policy) = batch.rules_of(&row)?;
    let moved = row.ask(&event, &policy, batch.now)?;
    batch.carry_out(&row, &moved.effects)?;
    row.run = moved.run;
    if before.run.lease().is_some() {
        end_cancelled(batch, &before, &mut row)?;
    }
    batch.save(&before, &row)?;
    batch.note_move(&before, &row, &act.actor, event.name().as_str(), act.reason.as_ref())?;
    if row.run.state.name() == StateName::Dead && before.run.state.name() != StateName::Dead {
        batch.tally.happened(batch.now, row.tenant, row.queue, HourlyKind::Dead, "");
    }
    triaged(batch, &row)
}

fn triaged(batch: &mut Batch<'_>, row: &RunRow) -> Result<Triaged> {
    let answer = state_answer(batch, row, row.run.state.name())?;
    Ok(Triaged { answer, attempt: row.run.attempt, revision: row.run.revision })
}

/// The attempt that was under way has its record, though its worker has not been heard.
fn end_cancelled(batch: &mut Batch<'_>, before: &RunRow, row: &mut RunRow) -> Result<()> {
    let body = encode(json(&AttemptBody::default())?.as_bytes());
    let ending = Ending {
        attempt: before.run.attempt,
        outcome: Outcome::Cancelled,
        epoch: Some(before.run.epoch),
        digest: None,
        fingerprint: None,
        pattern: None,
        pattern_new: false,
        verdict: None,
        body: &body,
    };
    batch.keep_attempt(before, row, &ending)?;
    row.worker = None;
    row.start_id = None;
    Ok(())
}

impl Batch<'_> {
    /// Writes a move that is not an attempt into the history.
    pub(super) fn note_move(
        &mut self,
        before: &RunRow,
        row: &RunRow,
        actor: &str,
        event: &str,
        note: Option<&Text>,
    ) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO history (run, at, actor, event, from_state, to_state, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        insert.execute(params![
            row.id,
            self.now.as_millis(),
            actor,
            event,
            position(StateName::ALL, &before.run.state.name()),
            position(StateName::ALL, &row.run.state.name()),
            note.map(|note| encode(note.token().as_bytes())),
        ])?;
        Ok(())
    }
}
