//! The history of a run: its attempts, merged with moves that are no attempts.

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::HistoryEntry;

use super::columns::{Columns, json, number, owned, packed_json_or_none, packed_note, text, time};
use super::cursor::seal_numbers;
use super::pages::{Before, question};
use super::reader::SqlReader;
use redrive_engine::error::PortResult as Result;
use redrive_engine::ledger::steps::WORKER;
use redrive_engine::model::{AttemptOrigin, RunRef};
use redrive_engine::runs::document::word;

/// Who acted when nobody gave a name.
pub(crate) const REPORTER: &str = "reporter";

/// A worker names itself, so its name gets a prefix: without one it could look like an operator's key.
fn ended_by(origin: &AttemptOrigin) -> String {
    origin.worker.as_ref().map_or_else(|| REPORTER.to_owned(), |name| format!("{WORKER}:{name}"))
}

/// The columns of [`moved`].
const MOVES: &str = "SELECT at, actor, event, from_state, to_state, note, id FROM history
     WHERE run = $1 AND id < $2 ORDER BY id DESC LIMIT $3";
/// The columns of [`ended`], without the bodies, which may be large.
const ENDS: &str = "SELECT recorded_at, origin, outcome, state, verdict, attempt FROM attempts
     WHERE run = $1 AND attempt < $2 ORDER BY attempt DESC LIMIT $3";

/// A page of history, and the cursor of the next one.
pub(crate) async fn history_of(
    reader: &impl SqlReader,
    run: i64,
    at: &RunRef,
    received_at: Timestamp,
    before: &Before,
) -> Result<(Vec<HistoryEntry>, Option<String>)> {
    let [attempt, id] = before.history;
    let ends = reader.rows(ENDS, &[run.into(), attempt.into(), before.rows().into()]).await?.read(ended)?;
    let moves = reader.rows(MOVES, &[run.into(), id.into(), before.rows().into()]).await?.read(moved)?;
    Ok(history(before, at, received_at, ends, moves))
}

fn received(at: Timestamp) -> HistoryEntry {
    HistoryEntry { at, actor: REPORTER.to_owned(), event: "received".to_owned(), from: None, to: None, note: None }
}

/// The end of an attempt, with its number.
fn ended(row: &impl Columns) -> Result<(i64, HistoryEntry)> {
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
fn moved(row: &impl Columns) -> Result<(i64, HistoryEntry)> {
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

/// Merges attempts and moves, each the newest first, by time. Each list keeps its own order, so that the next page begins
/// at the right entries even if a clock went back.
fn history(
    before: &Before,
    at: &RunRef,
    received_at: Timestamp,
    attempts: Vec<(i64, HistoryEntry)>,
    moves: Vec<(i64, HistoryEntry)>,
) -> (Vec<HistoryEntry>, Option<String>) {
    let (mut attempts, mut moves) = (attempts.into_iter().peekable(), moves.into_iter().peekable());
    let (mut entries, mut ends) = (Vec::new(), before.history);
    while entries.len() < before.limit {
        let moved_last = match (attempts.peek(), moves.peek()) {
            (Some((_, attempt)), Some((_, moved))) => moved.at >= attempt.at,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => break,
        };
        let next = if moved_last { moves.next() } else { attempts.next() };
        if let Some((number, entry)) = next {
            ends[usize::from(moved_last)] = number;
            entries.push(entry);
        }
    }
    let full = entries.len() >= before.limit;
    if !full {
        entries.push(received(received_at));
    }
    entries.reverse();
    entries.sort_by_key(|entry| entry.at);
    (entries, full.then(|| seal_numbers(&question("history", at), &ends)))
}

#[cfg(test)]
mod tests {
    use redrive_engine::model::DetailCall;

    use super::*;

    fn at() -> RunRef {
        RunRef { tenant: "acme".parse().unwrap(), run_id: "r".parse().unwrap() }
    }

    #[test]
    fn pages_of_history_hold_every_entry_once() {
        let entry = |at: i64| HistoryEntry {
            at: Timestamp::from_millis(at),
            actor: "a".into(),
            event: at.to_string(),
            from: None,
            to: None,
            note: None,
        };
        // The clock went back between the second and the third attempt.
        let attempts: Vec<(i64, HistoryEntry)> = vec![(4, entry(70)), (3, entry(20)), (2, entry(60)), (1, entry(10))];
        let moves: Vec<(i64, HistoryEntry)> = vec![(12, entry(70)), (11, entry(30))];
        let mut call = DetailCall { limit: 2, ..DetailCall::default() };
        let mut seen = Vec::new();
        loop {
            let before = Before::of(&call, &at()).unwrap();
            let older = |all: &[(i64, HistoryEntry)], end: i64| {
                all.iter().filter(|(number, _)| *number < end).cloned().collect::<Vec<_>>()
            };
            let [attempt, moved] = before.history;
            let (entries, next) =
                history(&before, &at(), Timestamp::from_millis(0), older(&attempts, attempt), older(&moves, moved));
            assert!(entries.len() <= 2 && entries.is_sorted_by_key(|entry| entry.at));
            seen.extend(entries.into_iter().map(|entry| entry.event));
            match next {
                Some(next) => call.history_cursor = Some(next),
                None => break,
            }
        }
        seen.sort();
        assert_eq!(seen, ["10", "20", "30", "60", "70", "70", "received"]);
    }
}
