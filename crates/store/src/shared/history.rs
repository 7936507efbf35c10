//! What happened to a run: moves that are not attempts, merged with the attempts.

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::HistoryEntry;

use crate::shared::columns::{Columns, json, number, owned, packed_json_or_none, packed_note, text, time};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ledger::steps::WORKER;
use redrive_engine::model::AttemptOrigin;
use redrive_engine::runs::document::word;

/// Who acted when nobody gave a name.
pub(crate) const REPORTER: &str = "reporter";

/// Who ended an attempt. A worker names itself, so its name never stands alone: it could read like an operator's key.
fn ended_by(origin: &AttemptOrigin) -> String {
    origin.worker.as_ref().map_or_else(|| REPORTER.to_owned(), |name| format!("{WORKER}:{name}"))
}

/// Of what [`moved`] reads; a condition follows.
pub(crate) const MOVES: &str = "SELECT at, actor, event, from_state, to_state, note, id FROM history";
/// Of what [`ended`] reads; a condition follows. Without the bodies, which may be large.
pub(crate) const ENDS: &str = "SELECT recorded_at, origin, outcome, state, verdict, attempt FROM attempts";

pub(crate) fn received(at: Timestamp) -> HistoryEntry {
    HistoryEntry { at, actor: REPORTER.to_owned(), event: "received".to_owned(), from: None, to: None, note: None }
}

/// What the end of an attempt is in the run's history, with its number.
pub(crate) fn ended(row: &impl Columns) -> Result<(i64, HistoryEntry)> {
    let origin: AttemptOrigin = json(text(row, 1)?, "origin")?;
    let verdict: Option<Verdict> = packed_json_or_none(row, 4, "verdict")?;
    let entry = HistoryEntry {
        at: time(row, 0)?,
        actor: ended_by(&origin),
        event: word(Outcome::ALL, number(row, 2)?, "outcome")?.to_string(),
        from: origin.began_at.map(|_| StateName::Running),
        to: Some(word(StateName::ALL, number(row, 3)?, "state")?),
        note: verdict.map(|verdict| Text::from(verdict.why.as_str())),
    };
    Ok((number(row, 5)?, entry))
}

/// A move that is no attempt, with its number.
pub(crate) fn moved(row: &impl Columns) -> Result<(i64, HistoryEntry)> {
    let entry = HistoryEntry {
        at: time(row, 0)?,
        actor: owned(row, 1)?,
        event: owned(row, 2)?,
        from: Some(word(StateName::ALL, number(row, 3)?, "state")?),
        to: Some(word(StateName::ALL, number(row, 4)?, "state")?),
        note: packed_note(row, 5)?,
    };
    Ok((number(row, 6)?, entry))
}
