//! Moves the items of an operation through the code of the single action. An item, its outcome and the cursor share a
//! commit, so that a crash repeats and skips nothing.

use redrive_core::operation::{Pace, allowance};
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, ItemOutcome, OperationState};

use crate::error::Result;
use crate::failpoint;
use crate::model::RunRef;
use crate::model::operations::NewOperation;
use crate::model::triage::{Triage, TriageAct};
use crate::operations::freeze::{PIECE_RUNS, still_matching};
use crate::operations::guard::{CHANGED, DECIDED_SINCE, GONE, NO_LONGER_MATCHES, UNREADABLE, obstacle, refusal};
use crate::operations::patch::{Made, bind, verb};
use crate::operations::row;
use crate::operations::row::{OperationRow, add, public_id};
use crate::operations::settle::conclude;
use crate::ports::rows::FrozenState;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside::unless_corrupt;
use crate::triage::verbs::act_on;
use crate::tx::Tx;

/// An item to move.
pub struct Item {
    pub run: i64,
    /// The run when the set was frozen.
    pub stood: FrozenState,
    /// Its fixed payload.
    pub made: Made,
}

/// The next items after a position of the cursor.
pub struct MoveSlice {
    pub from: i64,
    pub items: Vec<Item>,
    pub last: bool,
}

impl MoveSlice {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.last
    }
}

/// How many items may move now, by rate and canary.
pub fn room(row: &OperationRow, spec: &NewOperation, now: Timestamp) -> usize {
    let (may, _) = allowance(spec.rate_per_s, row.pace, now);
    let may = match (row.canary, &spec.canary) {
        (Some(CanaryState::Waiting), Some(canary)) => may.min(u64::from(canary.size).saturating_sub(row.moved)),
        (Some(CanaryState::Waiting | CanaryState::Passed | CanaryState::Failed) | None, _) => may,
    };
    usize::try_from(may).map_or(PIECE_RUNS, |may| may.min(PIECE_RUNS))
}

/// Moves a slice. None if the operation was stopped or another replica has moved it meanwhile.
pub fn move_slice(
    tx: &mut Tx<'_>,
    id: i64,
    replica: &str,
    spec: &NewOperation,
    slice: &MoveSlice,
) -> Result<Option<usize>> {
    let mut row = row::operation(tx, id)?;
    let ours = row.state == OperationState::Running && !row.preparing && !row.is_anothers(replica, tx.now);
    if !ours || row.moved_to != slice.from {
        return Ok(None);
    }
    let (_, pace) = allowance(spec.rate_per_s, row.pace, tx.now);
    let before = row.moved;
    let mut act = act_of(&row, spec)?;
    let runs: Vec<i64> = slice.items.iter().map(|item| item.run).collect();
    tx.rows.lock_items(id, &runs)?;
    let matching = still_matching(tx, &row, spec, &runs)?;
    for item in &slice.items {
        let run = item.run;
        let matches = matching.as_ref().is_none_or(|found| found.contains(&run));
        let outcome = move_one(tx, &mut act, item, matches)?;
        match outcome {
            Some(why) => {
                row.skipped += 1;
                add(&mut row.tallies.skipped, why, 1);
                settle_item(tx, id, run, ItemOutcome::Skipped, Some(why))?;
            }
            None => {
                row.moved += 1;
                settle_item(tx, id, run, ItemOutcome::Moved, None)?;
            }
        }
        row.moved_to = run;
        failpoint::pass("mid_operation");
    }
    row.all_moved = slice.last;
    if row.canary == Some(CanaryState::Waiting) {
        row.canary_last = row.moved_to;
    }
    row.pace = Pace { moved: pace.moved + (row.moved - before), ..pace };
    after_moves(&mut row, spec, tx.now);
    row.hold(replica, tx.now);
    conclude(&mut row, tx.now);
    tx.rows.update_operation(&row)?;
    Ok(Some(slice.items.len()))
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

/// The action, by the actor of the operation; the reason begins with its id.
fn act_of(row: &OperationRow, spec: &NewOperation) -> Result<TriageAct> {
    let named = format!("Operation {}.", public_id(row.id));
    let reason = match &spec.reason {
        Some(reason) => {
            let reason = reason.token().strip_prefix('"').unwrap_or_default();
            Text::from_token(format!("\"{named} {reason}"))
        }
        None => Some(Text::from(named.as_str())),
    };
    let nobody = RunRef { tenant: "default".parse().map_err(unnamed)?, run_id: "-".parse().map_err(unnamed)? };
    Ok(TriageAct { at: nobody, triage: verb(&spec.bulk)?, actor: row.actor.clone(), reason })
}

fn unnamed(e: impl std::fmt::Display) -> crate::error::Error {
    crate::error::Error::Unexpected(e.to_string())
}

/// The code of why the item did not move; none if it moved.
fn move_one(tx: &mut Tx<'_>, act: &mut TriageAct, item: &Item, matches: bool) -> Result<Option<&'static str>> {
    let row = match unless_corrupt(tx.rows.run_by_number(item.run))? {
        Ok(Some(row)) => row,
        Ok(None) => return Ok(Some(GONE)),
        Err(_) => return Ok(Some(UNREADABLE)),
    };
    bind(&mut act.triage, item.made.clone(), row.run.revision);
    if let Some(why) = changed_since(item.stood, &row, &act.triage, matches) {
        return Ok(Some(obstacle(tx, &row, &act.triage)?.unwrap_or(why)));
    }
    if let Made::Not(why) = item.made {
        return Ok(Some(why));
    }
    act.at = RunRef { tenant: tx.tenant_name(row.tenant)?, run_id: row.run_id.clone() };
    match act_on(tx, row, act) {
        Ok(_) => Ok(None),
        Err(error) => refusal(error).map(Some),
    }
}

/// The code of a change since the set was frozen: a person's decision, or another state or attempt. A payload only changes
/// by a decision. An assignment does not depend on the state.
fn changed_since(stood: FrozenState, row: &RunRow, triage: &Triage, matches: bool) -> Option<&'static str> {
    let now = FrozenState::of(&row.run);
    if stood.decisions != now.decisions {
        return Some(DECIDED_SINCE);
    }
    if !matches {
        return Some(NO_LONGER_MATCHES);
    }
    (stood != now && !matches!(triage, Triage::Assign { .. })).then_some(CHANGED)
}

/// True if this was the first outcome of the item.
pub fn settle_item(tx: &mut Tx<'_>, operation: i64, run: i64, outcome: ItemOutcome, why: Option<&str>) -> Result<bool> {
    let before = match outcome {
        ItemOutcome::Succeeded | ItemOutcome::Failed => ItemOutcome::Moved,
        ItemOutcome::Waiting | ItemOutcome::Moved | ItemOutcome::Skipped | ItemOutcome::Ineligible => {
            ItemOutcome::Waiting
        }
    };
    Ok(tx.rows.move_item(operation, run, before, outcome, why)?)
}
