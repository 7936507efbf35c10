//! The items' turns. Each goes through the very code of the single verb, in one commit with its outcome and the
//! operation's cursor: a crash repeats none and misses none.

use redrive_core::operation::{Pace, allowance};
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, ItemOutcome, OperationState};
use rusqlite::{Connection, params};

use crate::error::Result;
use crate::model::RunRef;
use crate::operation_model::NewOperation;
use crate::sqlite::batch::Batch;
use crate::sqlite::failpoint;
use crate::sqlite::life::position;
use crate::sqlite::operation_freeze::PIECE_RUNS;
use crate::sqlite::operation_guard::{CHANGED, GONE, obstacle, refusal};
use crate::sqlite::operation_list::public_id;
use crate::sqlite::operation_patch::{Made, PIECE_MAX_BYTES, bind, patch_of, patched, verb};
use crate::sqlite::operation_row::{self, OperationRow, add};
use crate::sqlite::operation_settle::conclude;
use crate::sqlite::rows::RunRow;
use crate::sqlite::triage::act_on;
use crate::triage_model::{Act, Triage};

/// The next items.
pub(super) struct Turn {
    from: i64,
    items: Vec<Item>,
    last: bool,
}

/// A run of the set, and what the fix makes of it.
struct Item {
    run: i64,
    /// State, attempt and revision when the set was frozen: written once, so they may be read beside the writer.
    stood: (i64, u32, u32),
    made: Made,
}

impl Turn {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.last
    }
}

/// How many may go now.
fn room(row: &OperationRow, spec: &NewOperation, now: Timestamp) -> usize {
    let (may, _) = allowance(spec.rate_per_s, row.pace, now);
    let may = match (row.canary, &spec.canary) {
        (Some(CanaryState::Waiting), Some(canary)) => may.min(u64::from(canary.size).saturating_sub(row.moved)),
        (Some(CanaryState::Waiting | CanaryState::Passed | CanaryState::Failed) | None, _) => may,
    };
    usize::try_from(may).unwrap_or(usize::MAX).min(PIECE_RUNS)
}

pub(super) fn find(conn: &Connection, row: &OperationRow, spec: &NewOperation, now: Timestamp) -> Result<Turn> {
    let room = room(row, spec, now);
    let mut turn = Turn { from: row.moved_to, items: Vec::new(), last: false };
    if room == 0 {
        return Ok(turn);
    }
    let mut find = conn.prepare_cached(
        "SELECT run, state, attempt, revision FROM operation_items
         WHERE operation = ?1 AND run > ?2 AND outcome = ?3 ORDER BY run LIMIT ?4",
    )?;
    let waiting = position(ItemOutcome::ALL, &ItemOutcome::Waiting);
    let runs = find.query_map(params![row.id, row.moved_to, waiting, room], |found| {
        Ok((found.get(0)?, (found.get(1)?, found.get(2)?, found.get(3)?)))
    })?;
    let runs: Vec<(i64, (i64, u32, u32))> = runs.collect::<Result<_, _>>()?;
    turn.last = runs.len() < room;
    let (patch, mut bytes) = (patch_of(&spec.bulk), 0);
    for (run, stood) in runs {
        if bytes > PIECE_MAX_BYTES {
            turn.last = false;
            break;
        }
        let made = match patch {
            Some(patch) => patched(conn, run, patch, false)?.0,
            None => Made::Nothing,
        };
        bytes += made.bytes();
        turn.items.push(Item { run, stood, made });
    }
    Ok(turn)
}

/// Moves a piece, if the operation still stands where it was looked at and nobody has stopped it.
pub(super) fn take(
    batch: &mut Batch<'_>,
    id: i64,
    replica: &str,
    spec: &NewOperation,
    turn: &Turn,
) -> Result<Option<usize>> {
    let mut row = operation_row::find(batch.conn, id)?;
    let ours = row.state == OperationState::Running && !row.preparing && !row.is_anothers(replica, batch.now);
    if !ours || row.moved_to != turn.from {
        return Ok(None);
    }
    let (_, pace) = allowance(spec.rate_per_s, row.pace, batch.now);
    let before = row.moved;
    let mut act = act_of(&row, spec)?;
    for item in &turn.items {
        match move_one(batch, &mut act, item)? {
            Some(why) => {
                row.skipped += 1;
                add(&mut row.tallies.skipped, why, 1);
                settle_item(batch, id, item.run, ItemOutcome::Skipped, Some(why))?;
            }
            None => {
                row.moved += 1;
                settle_item(batch, id, item.run, ItemOutcome::Moved, None)?;
            }
        }
        row.moved_to = item.run;
        failpoint::pass("mid_operation");
    }
    row.all_moved = turn.last;
    row.pace = Pace { moved: pace.moved + (row.moved - before), ..pace };
    after_moves(&mut row, spec, batch.now);
    row.hold(replica, batch.now);
    conclude(&mut row, batch.now);
    batch.save_operation(&row)?;
    Ok(Some(turn.items.len()))
}

fn after_moves(row: &mut OperationRow, spec: &NewOperation, now: Timestamp) {
    if let (Some(CanaryState::Waiting), Some(canary)) = (row.canary, &spec.canary)
        && (row.all_moved || row.moved >= u64::from(canary.size))
        && row.canary_until.is_none()
    {
        row.canary_until = Some(now.plus_ms(canary.wait_ms));
    }
    if row.all_moved {
        row.settle_until = Some(now.plus_ms(spec.settle_ms));
    }
}

/// Who acts is whoever made the operation; its id stands before the reason.
fn act_of(row: &OperationRow, spec: &NewOperation) -> Result<Act> {
    let named = format!("Operation {}.", public_id(row.id));
    let reason = match &spec.reason {
        Some(reason) => {
            let said = reason.token().strip_prefix('"').unwrap_or_default();
            Text::from_token(format!("\"{named} {said}"))
        }
        None => Some(Text::from(named.as_str())),
    };
    let nobody = RunRef { tenant: "default".parse().map_err(unnamed)?, run_id: "-".parse().map_err(unnamed)? };
    Ok(Act { at: nobody, triage: verb(&spec.bulk)?, actor: row.actor.clone(), reason })
}

fn unnamed(e: impl std::fmt::Display) -> crate::error::Error {
    crate::error::Error::Unexpected(e.to_string())
}

/// None: it moved. Otherwise the code of why it did not.
fn move_one(batch: &mut Batch<'_>, act: &mut Act, item: &Item) -> Result<Option<&'static str>> {
    let Some(row) = batch.run_by_number(item.run)? else { return Ok(Some(GONE)) };
    bind(&mut act.triage, item.made.clone(), row.run.revision);
    if is_changed(item, &row, &act.triage) {
        return Ok(Some(obstacle(batch, &row, &act.triage)?.unwrap_or(CHANGED)));
    }
    if let Made::Not(why) = &item.made {
        return Ok(Some(why));
    }
    act.at = RunRef { tenant: batch.tenant_name(row.tenant)?, run_id: row.run_id.clone() };
    match act_on(batch, row, act) {
        Ok(_) => Ok(None),
        Err(error) => refusal(error).map(Some),
    }
}

/// What was looked at is what is moved: a run that is not where it was when the set was frozen is left alone. Who looks
/// after a run does not depend on where it is.
fn is_changed(item: &Item, row: &RunRow, triage: &Triage) -> bool {
    let stands = (position(StateName::ALL, &row.run.state.name()), row.run.attempt, row.run.revision);
    !matches!(triage, Triage::Assign { .. }) && item.stood != stands
}

/// True when it was the first word on the item.
pub(super) fn settle_item(
    batch: &Batch<'_>,
    operation: i64,
    run: i64,
    outcome: ItemOutcome,
    why: Option<&str>,
) -> Result<bool> {
    let before = match outcome {
        ItemOutcome::Succeeded | ItemOutcome::Failed => ItemOutcome::Moved,
        ItemOutcome::Waiting | ItemOutcome::Moved | ItemOutcome::Skipped | ItemOutcome::Ineligible => {
            ItemOutcome::Waiting
        }
    };
    let mut update = batch.conn.prepare_cached(
        "UPDATE operation_items SET outcome = ?3, why = ?4 WHERE operation = ?1 AND run = ?2 AND outcome = ?5",
    )?;
    let [to, from] = [outcome, before].map(|outcome| position(ItemOutcome::ALL, &outcome));
    Ok(update.execute(params![operation, run, to, why, from])? == 1)
}
