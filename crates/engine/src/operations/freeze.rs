//! Freezes the set slice by slice. Reads beside the writer find runs by number, never by offset, so that concurrent changes
//! neither skip nor repeat a run; one commit tests and stores a slice together with the cursor.

use std::collections::HashSet;

use redrive_core::wire::{ItemOutcome, OperationSample, OperationState};

use crate::Map;
use crate::error::Result;
use crate::model::operations::{NewOperation, Over};
use crate::operations::guard::{NOT_FOUND, UNREADABLE, obstacle};
use crate::operations::patch::{Made, bind, verb};
use crate::operations::row;
use crate::operations::row::{OperationRow, add};
use crate::ports::rows::FrozenState;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// Runs of one slice, so that none blocks the writer for long.
pub const PIECE_RUNS: usize = 1_000;
/// Rows that the read of one slice may examine.
pub const LOOKS_MAX: usize = 20_000;

/// Candidates between two positions of the cursor.
pub struct FreezeSlice {
    pub from: i64,
    pub to: i64,
    pub runs: Vec<(i64, Made)>,
    /// Named runs that do not exist.
    pub missing: u64,
    pub samples: Vec<OperationSample>,
    /// The last slice of the set.
    pub whole: bool,
}

impl FreezeSlice {
    /// An empty slice after the last one.
    pub fn after(row: &OperationRow) -> Self {
        let from = row.prepared_to;
        Self { from, to: from, runs: Vec::new(), missing: 0, samples: Vec::new(), whole: true }
    }

    /// Ends the slice after its first `runs`; the rest belongs to the next one.
    pub fn cut(&mut self, runs: usize) {
        self.runs.truncate(runs);
        self.to = self.runs.last().map_or(self.from, |(run, _)| *run);
        self.whole = false;
    }
}

/// The runs that the filter still matches; none for a set of named runs.
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

/// Tests and stores a slice. False, without a change, if another replica has stored it meanwhile.
pub fn store_slice(tx: &mut Tx<'_>, id: i64, spec: &NewOperation, slice: &FreezeSlice) -> Result<bool> {
    let mut row = row::operation(tx, id)?;
    let wanted = match row.state {
        OperationState::Preview | OperationState::Running | OperationState::Paused => true,
        OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => false,
    };
    if !wanted || !row.preparing || row.prepared_to != slice.from {
        return Ok(false);
    }
    let mut triage = verb(&spec.bulk)?;
    let runs: Vec<i64> = slice.runs.iter().map(|(run, _)| *run).collect();
    let current = tx.rows.runs_as_they_stand(id, &runs)?;
    let unreadable = current.corrupt.len();
    let current: Map<i64, RunRow> = current.rows.into_iter().map(|row| (row.id, row)).collect();
    let matching = still_matching(tx, &row, spec, &runs)?;
    for (run, made) in &slice.runs {
        let Some(run_row) = current.get(run).filter(|_| matching.as_ref().is_none_or(|found| found.contains(run)))
        else {
            continue;
        };
        bind(&mut triage, made.clone(), run_row.run.revision);
        let why = match (obstacle(tx, run_row, &triage)?, made) {
            (Some(why), _) => Some(why),
            (None, Made::Not(why)) => Some(*why),
            (None, Made::Nothing | Made::Fixed(_)) => None,
        };
        let outcome = if why.is_some() { ItemOutcome::Ineligible } else { ItemOutcome::Waiting };
        let stood = FrozenState::of(&run_row.run);
        // A run that is named twice is one item.
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
    if slice.missing > 0 {
        add(&mut row.tallies.ineligible, NOT_FOUND, slice.missing);
    }
    if unreadable > 0 {
        add(&mut row.tallies.ineligible, UNREADABLE, unreadable as u64);
    }
    if !slice.samples.is_empty() {
        let mut samples = tx.rows.samples_of(id)?;
        samples.extend(slice.samples.iter().cloned());
        tx.rows.put_samples(id, &samples)?;
    }
    row.prepared_to = slice.to;
    row.preparing = !slice.whole;
    // A complete preview waits for a person.
    row.open = row.preparing || row.state != OperationState::Preview;
    tx.rows.update_operation(&row)?;
    Ok(true)
}
