//! What became of the runs that an operation moved. The log of changes, which every commit writes anyway, tells which
//! runs to look at: runs of no operation cost nothing where they fail or succeed, and no item is looked at again and
//! again.

use redrive_core::lifecycle::Outcome;
use redrive_core::operation::{Judged, Seen, judge, settled};
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, CanaryState, ItemOutcome, Joined, NamedRun, OperationState};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;
use crate::operation_model::NewOperation;
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::changes::run_numbers;
use crate::sqlite::columns::parsed;
use crate::sqlite::life::{position, word};
use crate::sqlite::lookup::span_of;
use crate::sqlite::operation_move::settle_item;
use crate::sqlite::operation_row::{self, OperationRow};

/// Changed runs that one round looks at.
const LOOKS_MAX: usize = 4_000;
const JOINED_NAMED: usize = 20;
const JOINED_MAX: u64 = 1_000;

/// What the log of changes told.
pub(super) struct Outcomes {
    from: i64,
    to: i64,
    runs: Vec<(i64, StateName)>,
    /// There is more to read.
    pub(super) more: bool,
    /// What the canary's first attempts came to.
    canary: Option<Seen>,
}

impl Outcomes {
    /// The canary is looked at: once it has passed, the rest goes at once.
    pub(super) fn judges(&self) -> bool {
        self.canary.is_some()
    }

    /// Whether it is worth a commit.
    pub(super) fn tell(&self, row: &OperationRow, spec: &NewOperation, now: Timestamp) -> bool {
        let time_is_up = row.settle_until.is_some_and(|until| until <= now);
        let judged = match (&self.canary, &spec.canary) {
            (Some(seen), Some(canary)) => judge(canary, *seen, canary_is_up(row, now)) != Judged::Waiting,
            (Some(_) | None, _) => false,
        };
        !self.runs.is_empty() || self.more || time_is_up || judged || (row.all_moved && row.unsettled() == 0)
    }
}

fn canary_is_up(row: &OperationRow, now: Timestamp) -> bool {
    row.canary_until.is_some_and(|until| until <= now)
}

pub(super) fn find(conn: &Connection, row: &OperationRow, spec: &NewOperation) -> Result<Outcomes> {
    let mut outcomes =
        Outcomes { from: row.changes_seen, to: row.changes_seen, runs: Vec::new(), more: false, canary: None };
    if row.unsettled() > 0 {
        follow(conn, row, &mut outcomes)?;
    }
    // Judged only while it runs: looked at in a pause it would be worth a commit, over and over, and change nothing.
    let awaited =
        row.state == OperationState::Running && row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some();
    if let Some(canary) = spec.canary.as_ref().filter(|_| awaited) {
        outcomes.canary = Some(first_attempts(conn, row.id, canary)?);
    }
    Ok(outcomes)
}

fn follow(conn: &Connection, row: &OperationRow, outcomes: &mut Outcomes) -> Result<()> {
    let mut read = conn.prepare_cached("SELECT seq, runs FROM changes WHERE seq > ?1 ORDER BY seq")?;
    let mut rows = read.query([row.changes_seen])?;
    let mut looks = 0;
    while let Some(found) = rows.next()? {
        if looks >= LOOKS_MAX {
            outcomes.more = true;
            break;
        }
        outcomes.to = found.get(0)?;
        for run in run_numbers(found.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)? {
            looks += 1;
            if let Some(state) = moved_and_settled(conn, row.id, run)? {
                outcomes.runs.push((run, state));
            }
        }
    }
    Ok(())
}

fn moved_and_settled(conn: &Connection, operation: i64, run: i64) -> Result<Option<StateName>> {
    let mut find = conn.prepare_cached(
        "SELECT runs.state FROM operation_items AS item JOIN runs ON runs.id = item.run
         WHERE item.operation = ?1 AND item.run = ?2 AND item.outcome = ?3",
    )?;
    let moved = position(ItemOutcome::ALL, &ItemOutcome::Moved);
    let state: Option<i64> = find.query_row(params![operation, run, moved], |row| row.get(0)).optional()?;
    let state = state.map(|state| word(StateName::ALL, state, "state")).transpose()?;
    Ok(state.filter(|state| settled(*state).is_some()))
}

/// The first attempt of each canary run after it was moved; few enough to look at all of them.
fn first_attempts(conn: &Connection, operation: i64, canary: &Canary) -> Result<Seen> {
    let mut find = conn.prepare_cached(
        "SELECT run, attempt FROM operation_items WHERE operation = ?1 AND outcome IN (?2, ?3, ?4) ORDER BY run LIMIT ?5",
    )?;
    let [moved, succeeded, failed] = [ItemOutcome::Moved, ItemOutcome::Succeeded, ItemOutcome::Failed]
        .map(|outcome| position(ItemOutcome::ALL, &outcome));
    let mut rows = find.query(params![operation, moved, succeeded, failed, canary.size])?;
    let mut first =
        conn.prepare_cached("SELECT outcome FROM attempts WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT 1")?;
    let mut seen = Seen::default();
    while let Some(row) = rows.next()? {
        let (run, attempt): (i64, i64) = (row.get(0)?, row.get(1)?);
        let (start, end) = span_of(run);
        let outcome: Option<i64> = first.query_row([start + attempt, end], |row| row.get(0)).optional()?;
        match outcome.map(|outcome| word(Outcome::ALL, outcome, "outcome")).transpose()? {
            Some(Outcome::Succeeded) => seen.succeeded += 1,
            Some(Outcome::Failed | Outcome::Cancelled) => seen.failed += 1,
            None => seen.open += 1,
        }
    }
    Ok(seen)
}

/// Keeps what was told, judges the canary and ends what is over. None when somebody else has done so meanwhile.
pub(super) fn keep(
    batch: &mut Batch<'_>,
    id: i64,
    replica: &str,
    spec: &NewOperation,
    outcomes: &Outcomes,
) -> Result<Option<usize>> {
    let mut row = operation_row::find(batch.conn, id)?;
    if row.changes_seen != outcomes.from || row.is_anothers(replica, batch.now) {
        return Ok(None);
    }
    for (run, state) in &outcomes.runs {
        let Some(outcome) = settled(*state) else { continue };
        let failed = outcome == ItemOutcome::Failed;
        if !settle_item(batch, id, *run, outcome, failed.then(|| state.as_str()))? {
            continue;
        }
        if failed {
            row.failed += 1;
        } else {
            row.succeeded += 1;
        }
    }
    row.changes_seen = outcomes.to;
    if let (Some(seen), Some(canary)) = (outcomes.canary, &spec.canary)
        && row.state == OperationState::Running
        && row.canary == Some(CanaryState::Waiting)
    {
        judge_canary(batch, &mut row, canary, seen)?;
    }
    row.hold(replica, batch.now);
    conclude(&mut row, batch.now);
    batch.save_operation(&row)?;
    Ok(Some(outcomes.runs.len()))
}

fn judge_canary(batch: &Batch<'_>, row: &mut OperationRow, canary: &Canary, seen: Seen) -> Result<()> {
    match judge(canary, seen, canary_is_up(row, batch.now)) {
        Judged::Waiting => {}
        Judged::Passed => row.canary = Some(CanaryState::Passed),
        Judged::Failed { because } => {
            let joined = joined(batch.conn, row)?;
            let more = match joined.count {
                0 => String::new(),
                1 => " 1 new run has failed the same way since.".to_owned(),
                n => format!(" {n} new runs have failed the same way since."),
            };
            row.canary = Some(CanaryState::Failed);
            row.state = OperationState::Stopped;
            row.stopped_because = Some(format!("{because}{more}"));
            row.joined = Some(json(&joined)?);
            row.ended_at = Some(batch.now);
        }
    }
    Ok(())
}

/// Runs that came after the set was frozen, and have the pattern of one that the canary moved.
fn joined(conn: &Connection, row: &OperationRow) -> Result<Joined> {
    let mut patterns = conn.prepare_cached(
        "SELECT DISTINCT runs.pattern FROM operation_items AS item JOIN runs ON runs.id = item.run
         WHERE item.operation = ?1 AND item.run <= ?2 AND runs.pattern IS NOT NULL LIMIT 100",
    )?;
    let patterns: Vec<i64> = patterns.query_map([row.id, row.moved_to], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut find = conn.prepare_cached(
        "SELECT tenants.name, runs.run_id FROM runs INDEXED BY runs_pattern JOIN tenants ON tenants.id = runs.tenant
         WHERE runs.pattern = ?1 AND runs.id > ?2 ORDER BY runs.id LIMIT ?3",
    )?;
    let mut joined = Joined::default();
    for pattern in patterns {
        let left = JOINED_MAX - joined.count;
        let mut rows = find.query(params![pattern, row.last_run, i64::try_from(left).unwrap_or(0)])?;
        while let Some(found) = rows.next()? {
            joined.count += 1;
            if joined.runs.len() < JOINED_NAMED {
                joined.runs.push(NamedRun { tenant: parsed(found, 0, "tenant")?, run_id: parsed(found, 1, "run_id")? });
            }
        }
    }
    joined.capped = joined.count == JOINED_MAX;
    Ok(joined)
}

/// Ends what is over: nothing more will move, and no outcome is awaited any longer.
pub(super) fn conclude(row: &mut OperationRow, now: Timestamp) {
    let settled = row.unsettled() == 0 || row.settle_until.is_some_and(|until| until <= now);
    match row.state {
        // A pause holds moves up, and there are none left.
        OperationState::Running | OperationState::Paused if row.all_moved && settled => {
            row.state = OperationState::Completed;
            row.ended_at = Some(now);
            row.open = false;
        }
        OperationState::Stopped | OperationState::Cancelled => {
            if row.settle_until.is_none() {
                row.settle_until = Some(now.plus_ms(AFTER_ALL_MS));
            }
            row.open = row.unsettled() > 0 && row.settle_until.is_some_and(|until| until > now);
        }
        OperationState::Preview => row.open = row.preparing,
        OperationState::Running | OperationState::Paused => row.open = true,
        OperationState::Completed => row.open = false,
    }
}

/// How long outcomes of what a stopped operation had moved are still counted.
const AFTER_ALL_MS: u64 = 900_000;
