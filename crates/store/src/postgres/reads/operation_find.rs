//! What operations look for beside the writer: the next piece of a set, the items whose turn it is, what became of
//! those that were moved.

use std::collections::{HashMap, HashSet};

use redrive_core::lifecycle::Outcome;
use redrive_core::operation::settled;
use redrive_core::patch::Operation;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, CanaryState, ItemOutcome, OperationSample, OperationState, Sort};

use crate::postgres::connection::failure::classify;
use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{Columns as _, bytes, number, packed_json_or_none, parsed, text, whole};
use crate::postgres::reads::filter::wanted;
use crate::postgres::reads::lanes::{ASK_TEMPLATE, HIT, hit};
use crate::postgres::reads::params::Params;
use crate::postgres::reads::payloads::payload_of;
use crate::postgres::reads::predicate::Answered;
use crate::postgres::reads::scan::{Place, Scan};
use crate::postgres::rows::operations::stood;
use crate::shared::changes::run_numbers;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::operations::{NewOperation, Over};
use redrive_engine::model::{RunFilter, RunRef, TenantScope};
use redrive_engine::operations::freeze::{FreezeSlice, LOOKS_MAX, PIECE_RUNS};
use redrive_engine::operations::guard::UNREADABLE;
use redrive_engine::operations::moves::{Item, MoveSlice, room};
use redrive_engine::operations::patch::{Made, PIECE_MAX_BYTES, Patched, SAMPLES_MAX, patch_of, patched};
use redrive_engine::operations::row::OperationRow;
use redrive_engine::operations::settle::{CHANGED_LOOKS_MAX, CanaryItems, Outcomes, Settled};
use redrive_engine::runs::document::{position, word};

/// Commits of the log that one look reads.
const COMMITS: u32 = 500;

/// Looks for the next piece.
pub(crate) async fn find_piece(
    snapshot: &Snapshot<'_>,
    row: &OperationRow,
    spec: &NewOperation,
) -> Result<FreezeSlice> {
    let mut found = match &spec.over {
        Over::Filter(filter) => by_filter(snapshot, row, filter).await?,
        Over::Runs(runs) => by_name(snapshot, row, runs).await?,
    };
    let Some(patch) = patch_of(&spec.bulk) else { return Ok(found) };
    let (mut bytes, shown) = (0, samples(snapshot, row.id).await?.len());
    for at in 0..found.runs.len() {
        let Some((run, _)) = found.runs.get(at) else { break };
        let last = *run;
        let show = shown + found.samples.len() < SAMPLES_MAX;
        let (made_of_it, sample) = patched_run(snapshot, last, patch, show).await?;
        bytes += made_of_it.bytes();
        if let Some((_, made)) = found.runs.get_mut(at) {
            *made = made_of_it;
        }
        found.samples.extend(sample);
        if bytes > PIECE_MAX_BYTES && at + 1 < found.runs.len() && matches!(spec.over, Over::Filter(_)) {
            found.runs.truncate(at + 1);
            (found.to, found.whole) = (last, false);
        }
    }
    Ok(found)
}

async fn samples(snapshot: &Snapshot<'_>, id: i64) -> Result<Vec<OperationSample>> {
    let found = snapshot.row("SELECT samples FROM operations WHERE id = $1", &[&id]).await?;
    let samples = found.map(|row| packed_json_or_none(&row, 0, "samples")).transpose()?;
    Ok(samples.flatten().unwrap_or_default())
}

async fn by_filter(snapshot: &Snapshot<'_>, row: &OperationRow, filter: &RunFilter) -> Result<FreezeSlice> {
    let from = row.prepared_to;
    let mut found = FreezeSlice { from, to: from, runs: Vec::new(), missing: 0, samples: Vec::new(), whole: true };
    let Some(mut wanted) = wanted(snapshot, &TenantScope::All, filter, Sort::Received, row.created_at).await? else {
        return Ok(found);
    };
    let (first, last) = wanted.ids.unwrap_or((1, i64::MAX));
    wanted.ids = Some((first, last.min(row.last_run)));
    let mut scan = Scan::begin(snapshot, &wanted, Sort::Received, Some(Place(from, 0)), PIECE_RUNS).await?;
    for _ in 0..LOOKS_MAX {
        let Some(candidate) = scan.next().await? else { return Ok(found) };
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

async fn by_name(snapshot: &Snapshot<'_>, row: &OperationRow, runs: &[RunRef]) -> Result<FreezeSlice> {
    let from = usize::try_from(row.prepared_to).unwrap_or(usize::MAX);
    let piece = runs.get(from..).unwrap_or_default();
    let piece = piece.get(..PIECE_RUNS).unwrap_or(piece);
    let to = from + piece.len();
    let (tenants, names): (Vec<&str>, Vec<&str>) =
        piece.iter().map(|at| (at.tenant.as_str(), at.run_id.as_str())).unzip();
    // A name as a range of one: the planner then has no choice but the index of names.
    let sql = "SELECT run.id FROM (
                   SELECT tenants.id AS q_tenant, q_run, place
                   FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (q_name, q_run, place)
                   JOIN tenants ON tenants.name = q_name OFFSET 0) AS q
               CROSS JOIN LATERAL (
                   SELECT id FROM runs WHERE tenant = q_tenant AND run_id >= q_run AND run_id <= q_run
                   ORDER BY run_id LIMIT 1) AS run
               ORDER BY place";
    let rows = snapshot.rows(sql, &[&tenants, &names]).await?;
    let found = rows.iter().map(|row| Ok((number(row, 0)?, Made::Nothing))).collect::<Result<Vec<_>>>()?;
    Ok(FreezeSlice {
        from: row.prepared_to,
        to: i64::try_from(to).unwrap_or(i64::MAX),
        missing: u64::try_from(piece.len() - found.len()).unwrap_or(0),
        runs: found,
        samples: Vec::new(),
        whole: to >= runs.len(),
    })
}

/// The items whose turn it is.
pub(crate) async fn find_turn(
    snapshot: &Snapshot<'_>,
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
    let most = i64::try_from(room).unwrap_or(i64::MAX);
    let rows = snapshot.rows(sql, &[&row.id, &row.moved_to, &waiting, &most]).await?;
    turn.last = rows.len() < room;
    let (patch, mut bytes) = (patch_of(&spec.bulk), 0);
    for found in &rows {
        if bytes > PIECE_MAX_BYTES {
            turn.last = false;
            break;
        }
        let run = number(found, 0)?;
        let made = match patch {
            Some(patch) => patched_run(snapshot, run, patch, false).await?.0,
            None => Made::Nothing,
        };
        bytes += made.bytes();
        turn.items.push(Item { run, stood: stood(found)?, made });
    }
    Ok(turn)
}

/// Patches the payload of a run as it is.
async fn patched_run(
    snapshot: &Snapshot<'_>,
    run: i64,
    patch: (&[Operation], usize),
    show: bool,
) -> Result<(Made, Option<OperationSample>)> {
    let sql = "SELECT runs.revision, runs.run_id, tenants.name FROM runs JOIN tenants ON tenants.id = runs.tenant
               WHERE runs.id = $1";
    let Some(row) = snapshot.row(sql, &[&run]).await? else { return Ok((Made::Nothing, None)) };
    let read = (whole(&row, 0, "revision"), parsed(&row, 1, "run_id"), parsed(&row, 2, "tenant"));
    let (Ok(from_revision), Ok(run_id), Ok(tenant)) = read else { return Ok((Made::Not(UNREADABLE), None)) };
    let payload = payload_of(snapshot, run, from_revision).await.map_err(classify);
    Ok(patched(Patched { from_revision, run_id, tenant, payload }, patch, show)?)
}

/// What has become of what was moved.
pub(crate) async fn find_outcomes(
    snapshot: &Snapshot<'_>,
    row: &OperationRow,
    spec: &NewOperation,
    from: i64,
) -> Result<Outcomes> {
    let mut outcomes = Outcomes::after(row, from);
    if row.unsettled() > 0 {
        follow(snapshot, row, &mut outcomes).await?;
    }
    // Judged only while it runs: looked at in a pause it would be worth a commit, over and over, and change nothing.
    let awaited =
        row.state == OperationState::Running && row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some();
    if let Some(canary) = spec.canary.as_ref().filter(|_| awaited) {
        outcomes.canary = Some(canary_look(snapshot, row.id, canary).await?);
    }
    Ok(outcomes)
}

async fn follow(snapshot: &Snapshot<'_>, row: &OperationRow, outcomes: &mut Outcomes) -> Result<()> {
    let sql = format!("SELECT seq, runs FROM changes WHERE seq > $1 ORDER BY seq LIMIT {COMMITS}");
    let mut looks = 0;
    loop {
        let commits = snapshot.rows(&sql, &[&outcomes.to]).await?;
        if commits.is_empty() {
            return Ok(());
        }
        let mut runs = Vec::new();
        for commit in &commits {
            runs.extend(run_numbers(bytes(commit, 1)?)?);
        }
        let ended = moved(snapshot, row, &runs).await?;
        for commit in &commits {
            if looks >= CHANGED_LOOKS_MAX {
                outcomes.more = true;
                return Ok(());
            }
            outcomes.to = number(commit, 0)?;
            for run in run_numbers(bytes(commit, 1)?)? {
                looks += 1;
                outcomes.runs.extend(ended.get(&run));
            }
        }
    }
}

/// Items that were moved and have come to an end. An operation's own moves are in the log as well: most of what is named
/// there still waits, which its run alone says. Of the canary it is the first attempt that says it.
async fn moved(snapshot: &Snapshot<'_>, operation: &OperationRow, runs: &[i64]) -> Result<HashMap<i64, Settled>> {
    let moved = position(ItemOutcome::ALL, &ItemOutcome::Moved);
    let ended = StateName::ALL.iter().filter(|state| settled(**state).is_some());
    let ended: Vec<i64> = ended.map(|state| position(StateName::ALL, state)).collect();
    let sql = format!(
        "SELECT q_run, run.state, CASE WHEN q_run <= $5 THEN {FIRST_ATTEMPT} ELSE -1 END
         FROM unnest($2::bigint[]) AS q(q_run) CROSS JOIN LATERAL (
             SELECT state FROM runs WHERE id = q_run AND (state = ANY($4) OR id <= $5) OFFSET 0) AS run
         CROSS JOIN LATERAL (
             SELECT run, attempt, outcome FROM operation_items
             WHERE operation = $1 AND run >= q_run AND run <= q_run ORDER BY run LIMIT 1) AS item
         WHERE item.outcome = $3"
    );
    let rows = snapshot.rows(&sql, &[&operation.id, &runs, &moved, &ended, &operation.canary_last]).await?;
    let mut found = HashMap::new();
    for row in &rows {
        let run = number(row, 0)?;
        // Of a run whose state can't be read nobody knows an outcome.
        let Ok(state) = word(StateName::ALL, number(row, 1)?, "state") else { continue };
        let ended = if run <= operation.canary_last {
            Settled::at_first(run, outcome_of(number(row, 2)?)?, state)
        } else {
            Settled::by_state(run, state)
        };
        found.extend(ended.map(|ended| (run, ended)));
    }
    Ok(found)
}

/// How the first attempt of an item ended after it was moved; -1 where none has.
const FIRST_ATTEMPT: &str = "coalesce((SELECT attempts.outcome FROM attempts
     WHERE attempts.run = item.run AND attempts.attempt > item.attempt
     ORDER BY attempts.attempt LIMIT 1), -1)";

fn outcome_of(column: i64) -> Result<Option<Outcome>> {
    if column == -1 { Ok(None) } else { Ok(word(Outcome::ALL, column, "outcome").map(Some)?) }
}

/// The canary's runs: few enough to look at all of them.
async fn canary_look(snapshot: &Snapshot<'_>, operation: i64, canary: &Canary) -> Result<CanaryItems> {
    let outcomes = [ItemOutcome::Moved, ItemOutcome::Succeeded, ItemOutcome::Failed]
        .map(|outcome| position(ItemOutcome::ALL, &outcome));
    let sql = format!(
        "SELECT item.run, item.outcome, {FIRST_ATTEMPT}, (SELECT runs.state FROM runs WHERE runs.id = item.run)
         FROM operation_items AS item WHERE item.operation = $1 AND item.outcome = ANY($2)
         ORDER BY item.run LIMIT $3"
    );
    let rows = snapshot.rows(&sql, &[&operation, &outcomes.as_slice(), &i64::from(canary.size)]).await?;
    let mut found = CanaryItems::default();
    for row in &rows {
        let recorded = word(ItemOutcome::ALL, number(row, 1)?, "outcome")?;
        let state = row.number_or_none(3)?.and_then(|state| word(StateName::ALL, state, "state").ok());
        found.note(number(row, 0)?, recorded, outcome_of(number(row, 2)?)?, state);
    }
    Ok(found)
}

/// Those of the runs that the filter finds.
pub(crate) async fn matching(
    snapshot: &Snapshot<'_>,
    filter: &RunFilter,
    made_at: Timestamp,
    runs: &[i64],
) -> Result<HashSet<i64>> {
    let mut found = HashSet::new();
    let Some(wanted) = wanted(snapshot, &TenantScope::All, filter, Sort::Received, made_at).await? else {
        return Ok(found);
    };
    let mut params = Params::default();
    let hit = hit(&wanted, Answered::default(), &mut params);
    let among = params.numbers(runs);
    let sql = format!("SELECT runs.id, ({hit})::bigint, runs.pattern FROM runs WHERE runs.id = ANY({among})");
    let mut by_template: HashMap<i64, Vec<i64>> = HashMap::new();
    for row in snapshot.rows_of(&sql, &params).await? {
        let run = number(&row, 0)?;
        match (number(&row, 1)?, row.number_or_none(2)?) {
            (HIT, _) => drop(found.insert(run)),
            (ASK_TEMPLATE, Some(pattern)) => by_template.entry(pattern).or_default().push(run),
            _ => {}
        }
    }
    if let Some(words) = wanted.words.as_ref().filter(|_| !by_template.is_empty()) {
        let patterns: Vec<i64> = by_template.keys().copied().collect();
        for row in snapshot.rows("SELECT id, template FROM patterns WHERE id = ANY($1)", &[&patterns]).await? {
            if words.are_in(text(&row, 1)?) {
                found.extend(by_template.remove(&number(&row, 0)?).unwrap_or_default());
            }
        }
    }
    Ok(found)
}
