//! The set, frozen piece by piece: found beside the writer by run number (never by offset: what moves meanwhile is
//! neither skipped nor met twice), judged and kept in one commit with the place to go on from. Here is what the writer does.

use std::collections::HashSet;

use redrive_core::wire::{ItemOutcome, OperationSample, OperationState};

use crate::Map;
use crate::error::Result;
use crate::model::operations::{NewOperation, Over};
use crate::operations::guard::{NOT_FOUND, UNREADABLE, obstacle};
use crate::operations::patch::{Made, bind, verb};
use crate::operations::row;
use crate::operations::row::{OperationRow, add};
use crate::ports::rows::Stood;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// Runs of one piece, so that none holds up the writer for long.
pub const PIECE_RUNS: usize = 1_000;
/// Rows that one piece may look at.
pub const LOOKS_MAX: usize = 20_000;

/// What was found from one place to the next.
pub struct FreezeSlice {
    pub from: i64,
    pub to: i64,
    pub runs: Vec<(i64, Made)>,
    /// Named, and not there.
    pub missing: u64,
    pub samples: Vec<OperationSample>,
    pub whole: bool,
}

/// Of runs that were found by a filter a moment ago: those that it still finds. None where they were named one by one.
pub fn still_matching(
    tx: &mut Tx<'_>,
    row: &OperationRow,
    spec: &NewOperation,
    runs: &[i64],
) -> Result<Option<HashSet<i64>>> {
    match &spec.over {
        Over::Filter(filter) => Ok(tx.rows.still_match(filter, row.created_at, runs).map(Some)?),
        Over::Runs(_) => Ok(None),
    }
}

/// Judges and keeps a piece. False when somebody else has got further meanwhile, and nothing is kept.
pub fn keep(tx: &mut Tx<'_>, id: i64, spec: &NewOperation, found: &FreezeSlice) -> Result<bool> {
    let mut row = row::operation(tx, id)?;
    let wanted = match row.state {
        OperationState::Preview | OperationState::Running | OperationState::Paused => true,
        OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => false,
    };
    if !wanted || !row.preparing || row.prepared_to != found.from {
        return Ok(false);
    }
    let mut triage = verb(&spec.bulk)?;
    let runs: Vec<i64> = found.runs.iter().map(|(run, _)| *run).collect();
    let stand = tx.rows.runs_as_they_stand(id, &runs)?;
    let unreadable = stand.corrupt.len();
    let stand: Map<i64, RunRow> = stand.rows.into_iter().map(|row| (row.id, row)).collect();
    let matching = still_matching(tx, &row, spec, &runs)?;
    for (run, made) in &found.runs {
        let Some(run_row) = stand.get(run).filter(|_| matching.as_ref().is_none_or(|found| found.contains(run))) else {
            continue;
        };
        bind(&mut triage, made.clone(), run_row.run.revision);
        let why = match (obstacle(tx, run_row, &triage)?, made) {
            (Some(why), _) => Some(why),
            (None, Made::Not(why)) => Some(*why),
            (None, Made::Nothing | Made::Fixed(_)) => None,
        };
        let outcome = if why.is_some() { ItemOutcome::Ineligible } else { ItemOutcome::Waiting };
        let stood = Stood::of(&run_row.run);
        // Named twice is meant once.
        if !tx.rows.insert_item(id, *run, outcome, why, stood)? {
            continue;
        }
        row.matched += 1;
        add(&mut row.tallies.reasons, if run_row.reason.is_empty() { "none" } else { &run_row.reason }, 1);
        match why {
            Some(why) => add(&mut row.tallies.ineligible, why, 1),
            None => row.eligible += 1,
        }
    }
    if found.missing > 0 {
        add(&mut row.tallies.ineligible, NOT_FOUND, found.missing);
    }
    if unreadable > 0 {
        add(&mut row.tallies.ineligible, UNREADABLE, u64::try_from(unreadable).unwrap_or(u64::MAX));
    }
    if !found.samples.is_empty() {
        let mut samples = tx.rows.samples_of(id)?;
        samples.extend(found.samples.iter().cloned());
        tx.rows.put_samples(id, &samples)?;
    }
    row.prepared_to = found.to;
    row.preparing = !found.whole;
    // A whole preview waits for a person.
    row.open = row.preparing || row.state != OperationState::Preview;
    tx.rows.update_operation(&row)?;
    Ok(true)
}
