//! What operations read beside the writer: the next piece of their set, the items whose turn it is, and the outcomes of
//! moved items.

use std::collections::{HashMap, HashSet};

use redrive_core::lifecycle::Outcome;
use redrive_core::operation::settled;
use redrive_core::patch::PatchOperation;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, ItemOutcome, OperationSample, Sort};

use super::changes::commits_after;
use super::columns::{Columns, number, parsed, whole};
use super::filter::resolve;
use super::operations::operation_samples;
use super::payloads::payload_of;
use super::reader::{SqlParam, SqlParams, StoreReader};
use super::scan::{ListPosition, RunScan, matching_runs};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::operations::{NewOperation, Over};
use redrive_engine::model::{RunFilter, RunRef, TenantScope};
use redrive_engine::operations::freeze::{FreezeSlice, LOOKS_MAX, PIECE_RUNS};
use redrive_engine::operations::guard::UNREADABLE;
use redrive_engine::operations::moves::{Item, MoveSlice, room};
use redrive_engine::operations::patch::{Made, PIECE_MAX_BYTES, Patched, SAMPLES_MAX, patch_of, patched};
use redrive_engine::operations::row::OperationRow;
use redrive_engine::operations::settle::{CHANGED_LOOKS_MAX, CanaryItems, Outcomes, Settled, awaits_canary};
use redrive_engine::ports::rows::FrozenState;
use redrive_engine::runs::document::{position, word};

/// The next piece of an operation's set.
pub(crate) async fn find_piece(
    reader: &impl StoreReader,
    row: &OperationRow,
    spec: &NewOperation,
) -> Result<FreezeSlice> {
    let mut found = match &spec.over {
        Over::Filter(filter) => by_filter(reader, row, filter).await?,
        Over::Runs(runs) => by_name(reader, row, runs).await?,
    };
    let Some(patch) = patch_of(&spec.bulk) else { return Ok(found) };
    let shown = operation_samples(reader, row.id).await?.len();
    let (mut bytes, mut cut) = (0, None);
    for (at, (run, made)) in found.runs.iter_mut().enumerate() {
        let show = shown + found.samples.len() < SAMPLES_MAX;
        let (fixed, sample) = patched_run(reader, *run, patch, show).await?;
        bytes += fixed.bytes();
        *made = fixed;
        found.samples.extend(sample);
        if bytes > PIECE_MAX_BYTES && matches!(spec.over, Over::Filter(_)) {
            cut = Some(at + 1);
            break;
        }
    }
    if let Some(runs) = cut.filter(|runs| *runs < found.runs.len()) {
        found.cut(runs);
    }
    Ok(found)
}

async fn by_filter(reader: &impl StoreReader, row: &OperationRow, filter: &RunFilter) -> Result<FreezeSlice> {
    let mut found = FreezeSlice::after(row);
    let resolved = resolve(reader, &TenantScope::All, filter, Sort::Received, row.created_at).await?;
    let Some(mut filter) = resolved else { return Ok(found) };
    let (first, last) = filter.ids.unwrap_or((1, i64::MAX));
    filter.ids = Some((first, last.min(row.last_run)));
    let after = ListPosition(row.prepared_to, 0);
    let mut scan = RunScan::begin(reader, &filter, Sort::Received, Some(after), PIECE_RUNS).await?;
    for _ in 0..LOOKS_MAX {
        let Some(examined) = scan.next().await? else { return Ok(found) };
        // One match more than fits tells that the piece is not the last.
        if examined.is_match && found.runs.len() == PIECE_RUNS {
            break;
        }
        found.to = examined.run;
        if examined.is_match {
            found.runs.push((examined.run, Made::Nothing));
        }
    }
    found.whole = false;
    Ok(found)
}

async fn by_name(reader: &impl StoreReader, row: &OperationRow, runs: &[RunRef]) -> Result<FreezeSlice> {
    let from = usize::try_from(row.prepared_to).unwrap_or(usize::MAX);
    let piece = runs.get(from..).unwrap_or_default();
    let piece = piece.get(..PIECE_RUNS).unwrap_or(piece);
    let to = from.saturating_add(piece.len());
    let numbers = reader.run_numbers(piece).await?;
    Ok(FreezeSlice {
        to: i64::try_from(to).unwrap_or(i64::MAX),
        missing: u64::try_from(piece.len() - numbers.len()).unwrap_or(0),
        runs: numbers.into_iter().map(|run| (run, Made::Nothing)).collect(),
        whole: to >= runs.len(),
        ..FreezeSlice::after(row)
    })
}

/// The items whose turn it is.
pub(crate) async fn find_turn(
    reader: &impl StoreReader,
    row: &OperationRow,
    spec: &NewOperation,
    now: Timestamp,
) -> Result<MoveSlice> {
    let room = room(row, spec, now);
    let mut turn = MoveSlice { from: row.moved_to, items: Vec::new(), last: false };
    if room == 0 {
        return Ok(turn);
    }
    let waiting = position(ItemOutcome::ALL, &ItemOutcome::Waiting);
    let sql = "SELECT run, state, attempt, decisions FROM operation_items
         WHERE operation = $1 AND run > $2 AND outcome = $3 ORDER BY run LIMIT $4";
    let limit = i64::try_from(room).unwrap_or(i64::MAX);
    let values = [row.id.into(), row.moved_to.into(), waiting.into(), limit.into()];
    let found = reader.rows(sql, &values).await?.read(|row| Ok((number(row, 0)?, stood(row)?)))?;
    turn.last = found.len() < room;
    let (patch, mut bytes) = (patch_of(&spec.bulk), 0);
    for (run, stood) in found {
        if bytes > PIECE_MAX_BYTES {
            turn.last = false;
            break;
        }
        let made = match patch {
            Some(patch) => patched_run(reader, run, patch, false).await?.0,
            None => Made::Nothing,
        };
        bytes += made.bytes();
        turn.items.push(Item { run, stood, made });
    }
    Ok(turn)
}

fn stood(row: &impl Columns) -> Result<FrozenState> {
    Ok(FrozenState {
        state: word(StateName::ALL, number(row, 1)?, "state")?,
        attempt: whole(row, 2, "attempt")?,
        decisions: whole(row, 3, "decisions")?,
    })
}

/// Patches the current payload of a run.
async fn patched_run<R: StoreReader>(
    reader: &R,
    run: i64,
    patch: (&[PatchOperation], usize),
    show: bool,
) -> Result<(Made, Option<OperationSample>)> {
    let sql = "SELECT runs.revision, runs.run_id, tenants.name FROM runs JOIN tenants ON tenants.id = runs.tenant
               WHERE runs.id = $1";
    let read = reader.row(sql, &[run.into()]).await?.read(|row| {
        let columns = (whole(row, 0, "revision"), parsed(row, 1, "run_id"), parsed(row, 2, "tenant"));
        let (Ok(from_revision), Ok(run_id), Ok(tenant)) = columns else { return Ok(None) };
        Ok(Some((from_revision, run_id, tenant)))
    });
    let Some(found) = read? else { return Ok((Made::Nothing, None)) };
    let Some((from_revision, run_id, tenant)) = found else { return Ok((Made::Not(UNREADABLE), None)) };
    let payload = payload_of(reader, run, from_revision).await.map_err(R::classify);
    Ok(patched(Patched { from_revision, run_id, tenant, payload }, patch, show)?)
}

/// The outcomes that the change log shows after `from`.
pub(crate) async fn find_outcomes(
    reader: &impl StoreReader,
    row: &OperationRow,
    spec: &NewOperation,
    from: i64,
) -> Result<Outcomes> {
    let mut outcomes = Outcomes::after(row, from);
    if row.unsettled() > 0 {
        follow_changes(reader, row, &mut outcomes).await?;
    }
    if let Some(canary) = spec.canary.as_ref().filter(|_| awaits_canary(row)) {
        outcomes.canary = Some(canary_look(reader, row.id, canary).await?);
    }
    Ok(outcomes)
}

async fn follow_changes(reader: &impl StoreReader, row: &OperationRow, outcomes: &mut Outcomes) -> Result<()> {
    let mut examined = 0;
    loop {
        let commits = commits_after(reader, outcomes.to).await?;
        if commits.is_empty() {
            return Ok(());
        }
        let mut runs = Vec::new();
        for commit in commits {
            if examined >= CHANGED_LOOKS_MAX {
                outcomes.more = true;
                break;
            }
            outcomes.to = commit.seq;
            examined += commit.runs.len();
            runs.extend(commit.runs);
        }
        let settled = settled_items(reader, row, &runs).await?;
        outcomes.runs.extend(runs.iter().filter_map(|run| settled.get(run)));
        if outcomes.more {
            return Ok(());
        }
    }
}

/// The moved items among these runs that have an outcome. Most runs in the log are the operation's own moves, which
/// still wait.
async fn settled_items(
    reader: &impl StoreReader,
    operation: &OperationRow,
    runs: &[i64],
) -> Result<HashMap<i64, Settled>> {
    let ended = StateName::ALL.iter().filter(|state| settled(**state).is_some());
    let ended: Vec<i64> = ended.map(|state| position(StateName::ALL, state)).collect();
    let mut found = HashMap::new();
    let mut distinct = runs.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    for item in reader.moved_items(operation, &distinct, &ended).await? {
        // A run whose state is unreadable has no known outcome.
        let Ok(state) = word(StateName::ALL, item.state, "state") else { continue };
        let first_attempt = item.first_attempt.map(|outcome| word(Outcome::ALL, outcome, "outcome")).transpose()?;
        let settled = Settled::of_item(operation, item.run, first_attempt, state);
        found.extend(settled.map(|settled| (item.run, settled)));
    }
    Ok(found)
}

/// How the first attempt of `item` after its move ended.
pub(crate) const FIRST_ATTEMPT: &str = "(SELECT attempts.outcome FROM attempts
     WHERE attempts.run = item.run AND attempts.attempt > item.attempt ORDER BY attempts.attempt LIMIT 1)";

/// The items of the canary, which are few.
async fn canary_look<R: StoreReader>(reader: &R, operation: i64, canary: &Canary) -> Result<CanaryItems> {
    let outcomes = [ItemOutcome::Moved, ItemOutcome::Succeeded, ItemOutcome::Failed]
        .map(|outcome| position(ItemOutcome::ALL, &outcome));
    let mut params = SqlParams::default();
    let sql = format!(
        "SELECT item.run, item.outcome, {FIRST_ATTEMPT}, (SELECT runs.state FROM runs WHERE runs.id = item.run)
         FROM operation_items AS item WHERE item.operation = {} AND {} ORDER BY item.run LIMIT {}",
        params.add(operation),
        R::one_of("item.outcome", SqlParam::Numbers(outcomes.to_vec()), &mut params),
        params.add(canary.size)
    );
    let mut look = CanaryItems::default();
    reader.rows(&sql, params.values()).await?.read(|row| {
        let recorded = word(ItemOutcome::ALL, number(row, 1)?, "outcome")?;
        let first_attempt = row.number_or_none(2)?.map(|outcome| word(Outcome::ALL, outcome, "outcome")).transpose()?;
        let state = row.number_or_none(3)?.and_then(|state| word(StateName::ALL, state, "state").ok());
        look.note(number(row, 0)?, recorded, first_attempt, state);
        Ok(())
    })?;
    Ok(look)
}

/// Those of the runs that the filter of an operation finds.
pub(crate) async fn matching(
    reader: &impl StoreReader,
    filter: &RunFilter,
    made_at: Timestamp,
    runs: &[i64],
) -> Result<HashSet<i64>> {
    let resolved = resolve(reader, &TenantScope::All, filter, Sort::Received, made_at).await?;
    let Some(filter) = resolved else { return Ok(HashSet::new()) };
    Ok(matching_runs(reader, &filter, runs).await?.into_iter().collect())
}
