//! What operations look for beside the writer: the next piece of a set, the items whose turn it is, what became of
//! those that were moved.

use std::collections::HashSet;

use redrive_core::lifecycle::Outcome;
use redrive_core::patch::Operation;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, CanaryState, ItemOutcome, OperationSample, OperationState, Sort};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use crate::sqlite::connection::classify;
use crate::sqlite::reads::changes::run_numbers;
use crate::sqlite::reads::columns::{parsed, whole};
use crate::sqlite::reads::filter::wanted;
use crate::sqlite::reads::lanes::hit;
use crate::sqlite::reads::lookup::run_number;
use crate::sqlite::reads::payloads::payload_of;
use crate::sqlite::reads::predicate::Answered;
use crate::sqlite::reads::scan::{Place, Scan, candidate};
use crate::sqlite::reads::words::Templates;
use crate::sqlite::rows::operations::samples_of;
use redrive_engine::error::{BoxError, Error, PortResult as Result};
use redrive_engine::model::operations::{NewOperation, Over};
use redrive_engine::model::{RunFilter, RunRef, TenantScope};
use redrive_engine::operations::freeze::{FreezeSlice, LOOKS_MAX, PIECE_RUNS};
use redrive_engine::operations::guard::UNREADABLE;
use redrive_engine::operations::moves::{Item, MoveSlice, room};
use redrive_engine::operations::patch::{Made, PIECE_MAX_BYTES, Patched, SAMPLES_MAX, patch_of, patched};
use redrive_engine::operations::row::OperationRow;
use redrive_engine::operations::settle::{CHANGED_LOOKS_MAX, CanaryItems, Outcomes, Settled};
use redrive_engine::ports::rows::FrozenState;
use redrive_engine::runs::document::{position, word};

/// Looks for the next piece.
pub(crate) fn find_piece(conn: &Connection, row: &OperationRow, spec: &NewOperation) -> Result<FreezeSlice> {
    let mut found = match &spec.over {
        Over::Filter(filter) => by_filter(conn, row, filter)?,
        Over::Runs(runs) => by_name(conn, row, runs)?,
    };
    let Some(patch) = patch_of(&spec.bulk) else { return Ok(found) };
    let (mut bytes, shown) = (0, samples_of(conn, row.id)?.len());
    for at in 0..found.runs.len() {
        let Some((run, made)) = found.runs.get_mut(at) else { break };
        let show = shown + found.samples.len() < SAMPLES_MAX;
        let (made_of_it, sample) = patched_run(conn, *run, patch, show)?;
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

fn by_filter(conn: &Connection, row: &OperationRow, filter: &RunFilter) -> Result<FreezeSlice> {
    let from = row.prepared_to;
    let mut found = FreezeSlice { from, to: from, runs: Vec::new(), missing: 0, samples: Vec::new(), whole: true };
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

fn by_name(conn: &Connection, row: &OperationRow, runs: &[RunRef]) -> Result<FreezeSlice> {
    let from = usize::try_from(row.prepared_to).unwrap_or(usize::MAX);
    let piece = runs.get(from..).unwrap_or_default();
    let piece = piece.get(..PIECE_RUNS).unwrap_or(piece);
    let to = from + piece.len();
    let mut found = FreezeSlice {
        from: row.prepared_to,
        to: i64::try_from(to).unwrap_or(i64::MAX),
        runs: Vec::with_capacity(piece.len()),
        missing: 0,
        samples: Vec::new(),
        whole: to >= runs.len(),
    };
    for at in piece {
        match run_number(conn, at).map_err(Error::from) {
            Ok(run) => found.runs.push((run, Made::Nothing)),
            Err(Error::NotFound(_)) => found.missing += 1,
            Err(failed) => return Err(failed.into()),
        }
    }
    Ok(found)
}

/// The items whose turn it is.
pub(crate) fn find_turn(
    conn: &Connection,
    row: &OperationRow,
    spec: &NewOperation,
    now: Timestamp,
) -> Result<MoveSlice> {
    let room = room(row, spec, now);
    let mut turn = MoveSlice { from: row.moved_to, items: Vec::new(), last: false };
    if room == 0 {
        return Ok(turn);
    }
    let mut find = conn.prepare_cached(
        "SELECT run, state, attempt, decisions FROM operation_items
         WHERE operation = ?1 AND run > ?2 AND outcome = ?3 ORDER BY run LIMIT ?4",
    )?;
    let waiting = position(ItemOutcome::ALL, &ItemOutcome::Waiting);
    let found = find.query_and_then(params![row.id, row.moved_to, waiting, room], |row| {
        Ok::<_, BoxError>((row.get(0)?, stood(row)?))
    })?;
    let found: Vec<(i64, FrozenState)> = found.collect::<Result<_>>()?;
    turn.last = found.len() < room;
    let (patch, mut bytes) = (patch_of(&spec.bulk), 0);
    for (run, stood) in found {
        if bytes > PIECE_MAX_BYTES {
            turn.last = false;
            break;
        }
        let made = match patch {
            Some(patch) => patched_run(conn, run, patch, false)?.0,
            None => Made::Nothing,
        };
        bytes += made.bytes();
        turn.items.push(Item { run, stood, made });
    }
    Ok(turn)
}

fn stood(row: &Row<'_>) -> Result<FrozenState> {
    Ok(FrozenState { state: word(StateName::ALL, row.get(1)?, "state")?, attempt: row.get(2)?, decisions: row.get(3)? })
}

/// Patches the payload of a run as it is.
fn patched_run(
    conn: &Connection,
    run: i64,
    patch: (&[Operation], usize),
    show: bool,
) -> Result<(Made, Option<OperationSample>)> {
    let mut find = conn.prepare_cached(
        "SELECT runs.revision, runs.run_id, tenants.name FROM runs JOIN tenants ON tenants.id = runs.tenant
         WHERE runs.id = ?1",
    )?;
    let found = find.query_row([run], |row| {
        Ok(whole(row, 0, "revision")
            .and_then(|revision: u32| Ok((revision, parsed(row, 1, "run_id")?, parsed(row, 2, "tenant")?))))
    });
    let found = match found.optional()?.transpose() {
        Ok(found) => found,
        Err(_) => return Ok((Made::Not(UNREADABLE), None)),
    };
    let Some((from_revision, run_id, tenant)) = found else {
        return Ok((Made::Nothing, None));
    };
    let payload = payload_of(conn, run, from_revision).map_err(classify);
    Ok(patched(Patched { from_revision, run_id, tenant, payload }, patch, show)?)
}

/// What has become of what was moved.
pub(crate) fn find_outcomes(conn: &Connection, row: &OperationRow, spec: &NewOperation, from: i64) -> Result<Outcomes> {
    let mut outcomes = Outcomes::after(row, from);
    if row.unsettled() > 0 {
        follow(conn, row, &mut outcomes)?;
    }
    // Judged only while it runs: looked at in a pause it would be worth a commit, over and over, and change nothing.
    let awaited =
        row.state == OperationState::Running && row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some();
    if let Some(canary) = spec.canary.as_ref().filter(|_| awaited) {
        outcomes.canary = Some(canary_look(conn, row.id, canary)?);
    }
    Ok(outcomes)
}

fn follow(conn: &Connection, row: &OperationRow, outcomes: &mut Outcomes) -> Result<()> {
    let mut read = conn.prepare_cached("SELECT seq, runs FROM changes WHERE seq > ?1 ORDER BY seq")?;
    let mut rows = read.query([outcomes.to])?;
    let mut looks = 0;
    while let Some(found) = rows.next()? {
        if looks >= CHANGED_LOOKS_MAX {
            outcomes.more = true;
            break;
        }
        outcomes.to = found.get(0)?;
        for run in run_numbers(found.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)? {
            looks += 1;
            outcomes.runs.extend(moved_and_settled(conn, row, run)?);
        }
    }
    Ok(())
}

fn moved_and_settled(conn: &Connection, operation: &OperationRow, run: i64) -> Result<Option<Settled>> {
    let mut find = conn.prepare_cached(
        "SELECT runs.state, item.attempt FROM operation_items AS item JOIN runs ON runs.id = item.run
         WHERE item.operation = ?1 AND item.run = ?2 AND item.outcome = ?3",
    )?;
    let moved = position(ItemOutcome::ALL, &ItemOutcome::Moved);
    let found = find.query_row(params![operation.id, run, moved], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((state, attempt)) = found.optional()? else { return Ok(None) };
    // Of a run whose state can't be read nobody knows an outcome.
    let Ok(state) = word(StateName::ALL, state, "state") else { return Ok(None) };
    if run <= operation.canary_last {
        return Ok(Settled::at_first(run, first_attempt(conn, run, attempt)?, state));
    }
    Ok(Settled::by_state(run, state))
}

/// How the first attempt after one ended.
fn first_attempt(conn: &Connection, run: i64, after: i64) -> Result<Option<Outcome>> {
    let mut first =
        conn.prepare_cached("SELECT outcome FROM attempts WHERE run = ?1 AND attempt > ?2 ORDER BY attempt LIMIT 1")?;
    let outcome: Option<i64> = first.query_row([run, after], |row| row.get(0)).optional()?;
    Ok(outcome.map(|outcome| word(Outcome::ALL, outcome, "outcome")).transpose()?)
}

/// The canary's runs: few enough to look at all of them.
fn canary_look(conn: &Connection, operation: i64, canary: &Canary) -> Result<CanaryItems> {
    let mut find = conn.prepare_cached(
        "SELECT item.run, item.attempt, item.outcome, runs.state
         FROM operation_items AS item LEFT JOIN runs ON runs.id = item.run
         WHERE item.operation = ?1 AND item.outcome IN (?2, ?3, ?4) ORDER BY item.run LIMIT ?5",
    )?;
    let [moved, succeeded, failed] = [ItemOutcome::Moved, ItemOutcome::Succeeded, ItemOutcome::Failed]
        .map(|outcome| position(ItemOutcome::ALL, &outcome));
    let mut rows = find.query(params![operation, moved, succeeded, failed, canary.size])?;
    let mut look = CanaryItems::default();
    while let Some(row) = rows.next()? {
        let run: i64 = row.get(0)?;
        let recorded = word(ItemOutcome::ALL, row.get(2)?, "outcome")?;
        let state: Option<i64> = row.get(3)?;
        let state = state.and_then(|state| word(StateName::ALL, state, "state").ok());
        look.note(run, recorded, first_attempt(conn, run, row.get(1)?)?, state);
    }
    Ok(look)
}

/// Those of the runs that the filter finds.
pub(crate) fn matching(
    conn: &Connection,
    filter: &RunFilter,
    made_at: Timestamp,
    runs: &[i64],
) -> Result<HashSet<i64>> {
    let mut found = HashSet::new();
    let Some(wanted) = wanted(conn, &TenantScope::All, filter, Sort::Received, made_at)? else { return Ok(found) };
    let (hit, values) = hit(&wanted, Answered::default());
    let mut find = conn.prepare_cached(&format!("SELECT id, 0, {hit}, pattern FROM runs WHERE id = ?"))?;
    let mut templates = Templates::default();
    for run in runs {
        let run = Value::from(*run);
        let mut rows = find.query(params_from_iter(values.iter().chain([&run])))?;
        let Some(row) = rows.next()? else { continue };
        let candidate = candidate(conn, row, Sort::Received, wanted.words.as_ref(), &mut templates)?;
        if candidate.hit {
            found.insert(candidate.run);
        }
    }
    Ok(found)
}
