//! An operation's row: read whole, written whole, so that its cursor and its figures commit with its items.

use std::collections::BTreeMap;

use redrive_core::operation::Pace;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, OperationAction, OperationState};
use serde::{Deserialize, Serialize};

use crate::commands::batch::Batch;
use crate::commands::life::word;
use crate::error::{Error, Result};
use crate::kept::columns::{Columns, flag, json, number, owned, owned_or_none, text, time, time_or_none, whole};

/// How long a replica has an operation to itself after its last piece. Short: whoever died holds nobody up, and two at the
/// same operation do nothing twice.
const HELD_MS: u64 = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OperationRow {
    pub(crate) id: i64,
    pub(crate) action: OperationAction,
    pub(crate) state: OperationState,
    pub(crate) preparing: bool,
    pub(crate) all_moved: bool,
    pub(crate) open: bool,
    pub(crate) actor: String,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) last_run: i64,
    pub(crate) prepared_to: i64,
    pub(crate) moved_to: i64,
    pub(crate) matched: u64,
    pub(crate) eligible: u64,
    pub(crate) moved: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) tallies: Tallies,
    pub(crate) canary: Option<CanaryState>,
    pub(crate) canary_until: Option<Timestamp>,
    /// The last run of the canary; 0 without one.
    pub(crate) canary_last: i64,
    pub(crate) stopped_because: Option<String>,
    pub(crate) joined: Option<String>,
    pub(crate) pace: Pace,
    pub(crate) changes_seen: i64,
    pub(crate) settle_until: Option<Timestamp>,
    pub(crate) holder: Option<String>,
    pub(crate) held_until: Timestamp,
}

/// Codes and reasons, and how many of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tallies {
    pub(crate) ineligible: BTreeMap<String, u64>,
    pub(crate) skipped: BTreeMap<String, u64>,
    pub(crate) reasons: BTreeMap<String, u64>,
}

pub(crate) fn add(tally: &mut BTreeMap<String, u64>, what: &str, n: u64) {
    match tally.get_mut(what) {
        Some(count) => *count += n,
        None => drop(tally.insert(what.to_owned(), n)),
    }
}

pub(crate) const COLUMNS: &str = "id, action, state, preparing, all_moved, open, actor, created_at, started_at, ended_at, last_run, \
     prepared_to, moved_to, matched, eligible, moved, succeeded, failed, skipped, tallies, canary, canary_until, \
     stopped_because, joined, pace_from, pace_moved, changes_seen, settle_until, holder, held_until, canary_last";
/// How many they are: what else a statement reads comes after.
pub(crate) const COLUMN_COUNT: usize = 31;

impl OperationRow {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        let canary = row.number_or_none(20)?;
        Ok(Self {
            id: number(row, 0)?,
            action: word(OperationAction::ALL, number(row, 1)?, "action")?,
            state: word(OperationState::ALL, number(row, 2)?, "operation state")?,
            preparing: flag(row, 3)?,
            all_moved: flag(row, 4)?,
            open: flag(row, 5)?,
            actor: owned(row, 6)?,
            created_at: time(row, 7)?,
            started_at: time_or_none(row, 8)?,
            ended_at: time_or_none(row, 9)?,
            last_run: number(row, 10)?,
            prepared_to: number(row, 11)?,
            moved_to: number(row, 12)?,
            matched: whole(row, 13, "matched")?,
            eligible: whole(row, 14, "eligible")?,
            moved: whole(row, 15, "moved")?,
            succeeded: whole(row, 16, "succeeded")?,
            failed: whole(row, 17, "failed")?,
            skipped: whole(row, 18, "skipped")?,
            tallies: json(text(row, 19)?, "tallies")?,
            canary: canary.map(|n| word(CanaryState::ALL, n, "canary")).transpose()?,
            canary_until: time_or_none(row, 21)?,
            stopped_because: owned_or_none(row, 22)?,
            joined: owned_or_none(row, 23)?,
            pace: Pace { from: time(row, 24)?, moved: whole(row, 25, "pace")? },
            changes_seen: number(row, 26)?,
            settle_until: time_or_none(row, 27)?,
            holder: owned_or_none(row, 28)?,
            held_until: time(row, 29)?,
            canary_last: number(row, 30)?,
        })
    }

    /// Outcomes that are still awaited.
    pub(crate) fn unsettled(&self) -> u64 {
        match self.action {
            OperationAction::Replay => self.moved.saturating_sub(self.succeeded + self.failed),
            OperationAction::Resolve
            | OperationAction::Discard
            | OperationAction::Assign
            | OperationAction::Reassign
            | OperationAction::Defer
            | OperationAction::Merge => 0,
        }
    }

    /// Another replica is at work on it.
    pub(crate) fn is_anothers(&self, replica: &str, now: Timestamp) -> bool {
        self.holder.as_deref().is_some_and(|holder| holder != replica) && self.held_until > now
    }

    pub(crate) fn hold(&mut self, replica: &str, now: Timestamp) {
        self.holder = Some(replica.to_owned());
        self.held_until = now.plus_ms(HELD_MS);
    }
}

impl Batch<'_> {
    /// Nobody else changes it until the commit.
    pub(crate) fn operation(&mut self, id: i64) -> Result<OperationRow> {
        self.rows.operation(id)?.ok_or(Error::NotFound("operation"))
    }
}

pub(crate) fn public_id(id: i64) -> String {
    format!("op-{id}")
}

/// One spelling only: what we did not write ourselves is no operation.
pub(crate) fn number_of(id: &str) -> Result<i64> {
    let number = id.strip_prefix("op-").and_then(|number| number.parse().ok());
    number.filter(|number| public_id(*number) == id).ok_or(Error::NotFound("operation"))
}
