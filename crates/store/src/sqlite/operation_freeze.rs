//! The set, frozen piece by piece: found beside the writer by run number (never by offset: what moves meanwhile is
//! neither skipped nor met twice), judged and kept in one commit with the place to go on from.

use redrive_core::run::StateName;
use redrive_core::wire::{ItemOutcome, OperationSample, OperationState, Sort};
use rusqlite::{Connection, params};

use crate::codec::encode;
use crate::error::{Error, Result};
use crate::model::{RunFilter, RunRef, TenantScope};
use crate::operation_model::{NewOperation, Over};
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::columns::packed_json_or_none;
use crate::sqlite::filter::wanted;
use crate::sqlite::life::position;
use crate::sqlite::lookup::run_number;
use crate::sqlite::operation_guard::{NOT_FOUND, obstacle};
use crate::sqlite::operation_patch::{Made, PIECE_MAX_BYTES, SAMPLES_MAX, bind, patch_of, patched, verb};
use crate::sqlite::operation_row::{self, OperationRow, add};
use crate::sqlite::scan::{Place, Scan};

/// Runs of one piece: enough to share a commit among many, few enough not to hold up the writer for long.
pub(super) const PIECE_RUNS: usize = 1_000;
/// Rows that one piece may look at.
const LOOKS_MAX: usize = 20_000;

/// What was found from one place to the next.
pub(super) struct Found {
    from: i64,
    to: i64,
    runs: Vec<(i64, Made)>,
    /// Named, and not there.
    missing: u64,
    samples: Vec<OperationSample>,
    whole: bool,
}

/// Looks for the next piece.
pub(super) fn find(conn: &Connection, row: &OperationRow, spec: &NewOperation) -> Result<Found> {
    let mut found = match &spec.over {
        Over::Filter(filter) => by_filter(conn, row, filter)?,
        Over::Runs(runs) => by_name(conn, row, runs)?,
    };
    let Some(patch) = patch_of(&spec.bulk) else { return Ok(found) };
    let (mut bytes, shown) = (0, samples_of(conn, row.id)?.len());
    for at in 0..found.runs.len() {
        let Some((run, made)) = found.runs.get_mut(at) else { break };
        let show = shown + found.samples.len() < SAMPLES_MAX;
        let (made_of_it, sample) = patched(conn, *run, patch, show)?;
        bytes += made_of_it.bytes();
        *made = made_of_it;
        found.samples.extend(sample);
        let last = *run;
        if bytes > PIECE_MAX_BYTES && at + 1 < found.runs.len() && matches!(spec.over, Over::Filter(_)) {
            found.runs.truncate(at + 1);
            (found.to, found.whole) = (last, false);
        }
    }
    Ok(found)
}

fn by_filter(conn: &Connection, row: &OperationRow, filter: &RunFilter) -> Result<Found> {
    let from = row.prepared_to;
    let mut found = Found { from, to: from, runs: Vec::new(), missing: 0, samples: Vec::new(), whole: true };
    let Some(mut wanted) = wanted(conn, &TenantScope::All, filter, Sort::Received, row.created_at)? else {
        return Ok(found);
    };
    let (first, last) = wanted.ids.unwrap_or((1, i64::MAX));
    wanted.ids = Some((first, last.min(row.last_run)));
    let mut scan = Scan::begin(conn, &wanted, Sort::Received, Some(Place(from, 0)), PIECE_RUNS)?;
    for _ in 0..LOOKS_MAX {
        let Some(candidate) = scan.next()? else { return Ok(found) };
        // One more than a piece holds tells whether anything is left.
        if candidate.hit && found.runs.len() == PIECE_RUNS {
            break;
        }
        found.to = candidate.run;
        if candidate.hit {
            found.runs.push((candidate.run, Made::Nothing));
        }
    }
    found.whole = false;
    Ok(found)
}

fn by_name(conn: &Connection, row: &OperationRow, runs: &[RunRef]) -> Result<Found> {
    let from = usize::try_from(row.prepared_to).unwrap_or(usize::MAX);
    let piece = runs.get(from..).unwrap_or_default();
    let piece = piece.get(..PIECE_RUNS).unwrap_or(piece);
    let to = from + piece.len();
    let mut found = Found {
        from: row.prepared_to,
        to: i64::try_from(to).unwrap_or(i64::MAX),
        runs: Vec::with_capacity(piece.len()),
        missing: 0,
        samples: Vec::new(),
        whole: to >= runs.len(),
    };
    for at in piece {
        match run_number(conn, at) {
            Ok(run) => found.runs.push((run, Made::Nothing)),
            Err(Error::NotFound(_)) => found.missing += 1,
            Err(failed) => return Err(failed),
        }
    }
    Ok(found)
}

pub(super) fn samples_of(conn: &Connection, id: i64) -> Result<Vec<OperationSample>> {
    let mut find = conn.prepare_cached("SELECT samples FROM operations WHERE id = ?1")?;
    let mut rows = find.query([id])?;
    let samples = rows.next()?.map(|row| packed_json_or_none(row, 0, "samples")).transpose()?;
    Ok(samples.flatten().unwrap_or_default())
}

/// Judges and keeps a piece. False when somebody else has got further meanwhile, and nothing is kept.
pub(super) fn keep(batch: &mut Batch<'_>, id: i64, spec: &NewOperation, found: &Found) -> Result<bool> {
    let mut row = operation_row::find(batch.conn, id)?;
    let wanted = match row.state {
        OperationState::Preview | OperationState::Running | OperationState::Paused => true,
        OperationState::Stopped | OperationState::Cancelled | OperationState::Completed => false,
    };
    if !wanted || !row.preparing || row.prepared_to != found.from {
        return Ok(false);
    }
    let mut triage = verb(&spec.bulk)?;
    for (run, made) in &found.runs {
        let Some(run_row) = batch.run_by_number(*run)? else { continue };
        bind(&mut triage, made.clone(), run_row.run.revision);
        let why = match (obstacle(batch, &run_row, &triage)?, made) {
            (Some(why), _) => Some(why),
            (None, Made::Not(why)) => Some(*why),
            (None, Made::Nothing | Made::Fixed(_)) => None,
        };
        let outcome = if why.is_some() { ItemOutcome::Ineligible } else { ItemOutcome::Waiting };
        let mut insert = batch.conn.prepare_cached(
            "INSERT INTO operation_items (operation, run, outcome, why, state, attempt, revision)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        )?;
        let state = position(StateName::ALL, &run_row.run.state.name());
        let (attempt, revision) = (run_row.run.attempt, run_row.run.revision);
        let outcome = position(ItemOutcome::ALL, &outcome);
        // Named twice is meant once.
        if insert.execute(params![id, run, outcome, why, state, attempt, revision])? == 0 {
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
    if !found.samples.is_empty() {
        let mut samples = samples_of(batch.conn, id)?;
        samples.extend(found.samples.iter().cloned());
        let mut update = batch.conn.prepare_cached("UPDATE operations SET samples = ?2 WHERE id = ?1")?;
        update.execute(params![id, encode(json(&samples)?.as_bytes())])?;
    }
    row.prepared_to = found.to;
    row.preparing = !found.whole;
    // A whole preview waits for a person.
    row.open = row.preparing || row.state != OperationState::Preview;
    batch.save_operation(&row)?;
    Ok(true)
}
