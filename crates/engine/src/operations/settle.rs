//! Outcomes of the runs that an operation moved. The change log tells which runs to check, so that other runs cost nothing
//! and no item is polled.

use std::sync::{Mutex, MutexGuard, PoisonError};

use redrive_core::lifecycle::Outcome;
use redrive_core::operation::{CanaryOutcomes, CanaryVerdict, judge, settled, settled_at_first};
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, CanaryState, ItemOutcome, Joined, OperationState};

use crate::Map;
use crate::error::Result;
use crate::model::operations::NewOperation;
use crate::operations::moves::settle_item;
use crate::operations::row;
use crate::operations::row::OperationRow;
use crate::runs::attempts::json;
use crate::tx::Tx;

/// Changed runs that one round examines.
pub const CHANGED_LOOKS_MAX: usize = 4_000;
/// Beyond this many operations the cache is cleared.
const FOLLOWED_MAX: usize = 1_024;
/// Patterns of the canary that are checked.
const PATTERNS_MAX: usize = 100;
const JOINED_NAMED: usize = 20;
const JOINED_MAX: u64 = 1_000;

/// Outcomes from a range of the change log.
pub struct Outcomes {
    pub from: i64,
    pub to: i64,
    pub runs: Vec<Settled>,
    /// The log has more.
    pub more: bool,
    /// While the canary waits.
    pub canary: Option<CanaryItems>,
}

const FIRST_ATTEMPT_FAILED: &str = "first_attempt_failed";
const NO_OUTCOME_IN_TIME: &str = "no_outcome_in_time";

/// A moved item with its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    pub run: i64,
    pub outcome: ItemOutcome,
    /// The code of a failure.
    pub why: Option<&'static str>,
}

impl Settled {
    fn new(run: i64, outcome: ItemOutcome, why: &'static str) -> Self {
        Self { run, outcome, why: (outcome == ItemOutcome::Failed).then_some(why) }
    }

    /// The outcome of a moved item, if it has one: a canary item's by its first attempt, any other's by its state.
    pub fn of_item(
        operation: &OperationRow,
        run: i64,
        first_attempt: Option<Outcome>,
        state: StateName,
    ) -> Option<Self> {
        if run <= operation.canary_last {
            Self::at_first(run, first_attempt, state)
        } else {
            Self::by_state(run, state)
        }
    }

    fn by_state(run: i64, state: StateName) -> Option<Self> {
        settled(state).map(|outcome| Self::new(run, outcome, state.as_str()))
    }

    fn at_first(run: i64, first_attempt: Option<Outcome>, state: StateName) -> Option<Self> {
        let why = if first_attempt.is_some() { FIRST_ATTEMPT_FAILED } else { state.as_str() };
        settled_at_first(first_attempt, state).map(|outcome| Self::new(run, outcome, why))
    }
}

/// Whether the canary of an operation is to be judged. While paused, a verdict would change nothing.
pub fn awaits_canary(row: &OperationRow) -> bool {
    row.state == OperationState::Running && row.canary == Some(CanaryState::Waiting) && row.canary_until.is_some()
}

/// The items of the canary. A stored outcome of an item is final.
#[derive(Debug, Default)]
pub struct CanaryItems {
    seen: CanaryOutcomes,
    /// Outcomes that are not stored yet.
    ended: Vec<Settled>,
    open: Vec<i64>,
}

impl CanaryItems {
    pub fn note(&mut self, run: i64, recorded: ItemOutcome, first_attempt: Option<Outcome>, state: Option<StateName>) {
        let outcome = match recorded {
            ItemOutcome::Succeeded | ItemOutcome::Failed => Some(recorded),
            ItemOutcome::Waiting | ItemOutcome::Moved | ItemOutcome::Skipped | ItemOutcome::Ineligible => {
                let ended = state.and_then(|state| Settled::at_first(run, first_attempt, state));
                self.ended.extend(ended);
                ended.map(|ended| ended.outcome)
            }
        };
        match outcome {
            Some(ItemOutcome::Succeeded) => self.seen.succeeded += 1,
            Some(_) => self.seen.failed += 1,
            None => {
                self.seen.open += 1;
                self.open.push(run);
            }
        }
    }
}

/// A cache of how far the log was read for each operation without an outcome to commit. Most of what the log names are the
/// operation's own moves, which need to be read once. Without an entry the log is read from the operation's stored position.
#[derive(Debug, Default)]
pub struct Followed(Mutex<Map<i64, i64>>);

impl Followed {
    fn positions(&self) -> MutexGuard<'_, Map<i64, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clears the cache: after a reconnect the log may be another one.
    pub fn forget(&self) {
        self.positions().clear();
    }

    /// Where the read of the log continues.
    pub fn from(&self, operation: i64, seen: i64) -> i64 {
        self.positions().get(&operation).map_or(seen, |reached| seen.max(*reached))
    }

    pub fn keep(&self, operation: i64, outcomes: &Outcomes) {
        if !outcomes.runs.is_empty() {
            return;
        }
        let mut positions = self.positions();
        if positions.len() >= FOLLOWED_MAX {
            positions.clear();
        }
        positions.insert(operation, outcomes.to);
    }
}

impl Outcomes {
    /// None yet, from `from` on.
    pub fn after(row: &OperationRow, from: i64) -> Self {
        Self { from: row.changes_seen, to: from, runs: Vec::new(), more: false, canary: None }
    }

    /// Whether the canary is judged: once it has passed, the next round follows at once.
    pub fn judges(&self) -> bool {
        self.canary.is_some()
    }

    /// Whether there is something to commit.
    pub fn needs_commit(&self, row: &OperationRow, spec: &NewOperation, now: Timestamp) -> bool {
        let timed_out = row.settle_until.is_some_and(|until| until <= now);
        let judged = match (&self.canary, &spec.canary) {
            (Some(look), Some(canary)) => judge(canary, look.seen, canary_is_up(row, now)) != CanaryVerdict::Waiting,
            (Some(_) | None, _) => false,
        };
        !self.runs.is_empty() || self.more || timed_out || judged || (row.all_moved && row.unsettled() == 0)
    }
}

fn canary_is_up(row: &OperationRow, now: Timestamp) -> bool {
    row.canary_until.is_some_and(|until| until <= now)
}

/// Stores outcomes, judges the canary, and ends the operation if it is complete. None if another replica has done so
/// meanwhile.
pub fn store_outcomes(
    tx: &mut Tx<'_>,
    id: i64,
    replica: &str,
    spec: &NewOperation,
    outcomes: &Outcomes,
) -> Result<Option<usize>> {
    let mut row = row::operation(tx, id)?;
    if row.changes_seen != outcomes.from || row.is_anothers(replica, tx.now) {
        return Ok(None);
    }
    let mut items = settle_all(tx, &mut row, &outcomes.runs)?;
    row.changes_seen = outcomes.to;
    if let (Some(look), Some(canary)) = (&outcomes.canary, &spec.canary)
        && row.state == OperationState::Running
        && row.canary == Some(CanaryState::Waiting)
    {
        items += judge_canary(tx, &mut row, canary, look)?;
    }
    row.hold(replica, tx.now);
    conclude(&mut row, tx.now);
    tx.rows.update_operation(&row)?;
    Ok(Some(items))
}

/// The log may name a run several times; its item is settled once.
fn settle_all(tx: &mut Tx<'_>, row: &mut OperationRow, ended: &[Settled]) -> Result<usize> {
    let mut items = 0;
    for Settled { run, outcome, why } in ended {
        if !settle_item(tx, row.id, *run, *outcome, *why)? {
            continue;
        }
        items += 1;
        if *outcome == ItemOutcome::Failed {
            row.failed += 1;
        } else {
            row.succeeded += 1;
        }
    }
    Ok(items)
}

/// Stores the outcomes together with the verdict on them, so that figures and reason agree.
fn judge_canary(tx: &mut Tx<'_>, row: &mut OperationRow, canary: &Canary, look: &CanaryItems) -> Result<usize> {
    let timed_out = canary_is_up(row, tx.now);
    let judged = judge(canary, look.seen, timed_out);
    if judged == CanaryVerdict::Waiting {
        return Ok(0);
    }
    let mut items = settle_all(tx, row, &look.ended)?;
    if timed_out {
        let late = look.open.iter().map(|run| Settled::new(*run, ItemOutcome::Failed, NO_OUTCOME_IN_TIME));
        items += settle_all(tx, row, &late.collect::<Vec<_>>())?;
    }
    match judged {
        CanaryVerdict::Waiting => {}
        CanaryVerdict::Passed => row.canary = Some(CanaryState::Passed),
        CanaryVerdict::Failed { because } => {
            let joined = joined(tx, row)?;
            let more = match joined.count {
                0 => String::new(),
                1 => " 1 new run has failed the same way since.".to_owned(),
                n => format!(" {n} new runs have failed the same way since."),
            };
            row.canary = Some(CanaryState::Failed);
            row.state = OperationState::Stopped;
            row.stopped_because = Some(format!("{because}{more}"));
            row.joined = Some(json(&joined)?);
            row.ended_at = Some(tx.now);
        }
    }
    Ok(items)
}

/// Runs that arrived after the set was frozen with the pattern of a canary item.
fn joined(tx: &mut Tx<'_>, row: &OperationRow) -> Result<Joined> {
    let mut joined = Joined::default();
    for pattern in tx.rows.patterns_moved(row, PATTERNS_MAX)? {
        let found = tx.rows.runs_of_pattern(pattern, row.last_run, JOINED_MAX - joined.count)?;
        joined.count += found.len() as u64;
        let named = JOINED_NAMED.saturating_sub(joined.runs.len());
        joined.runs.extend(found.into_iter().take(named));
    }
    joined.capped = joined.count == JOINED_MAX;
    Ok(joined)
}

/// Completes the operation once every item has moved and every outcome is settled or timed out.
pub fn conclude(row: &mut OperationRow, now: Timestamp) {
    let settled = row.unsettled() == 0 || row.settle_until.is_some_and(|until| until <= now);
    match row.state {
        // A pause only stops moves, and none is left.
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

/// How long a stopped operation still counts outcomes.
const AFTER_ALL_MS: u64 = 900_000;
