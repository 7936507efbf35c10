//! An operation's row: read whole, written whole, so that its cursor and its figures commit with its items.

use std::collections::BTreeMap;

use redrive_core::operation::Pace;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, OperationAction, OperationState};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::operation_model::NewOperation;
use crate::sqlite::attempts;
use crate::sqlite::batch::Batch;
use crate::sqlite::columns::{json, packed_json, text, time, time_or_none, whole};
use crate::sqlite::life::{position, word};

/// How long a replica has an operation to itself after its last piece.
const HELD_MS: u64 = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct OperationRow {
    pub(super) id: i64,
    pub(super) action: OperationAction,
    pub(super) state: OperationState,
    pub(super) preparing: bool,
    pub(super) all_moved: bool,
    pub(super) open: bool,
    pub(super) actor: String,
    pub(super) created_at: Timestamp,
    pub(super) started_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) last_run: i64,
    pub(super) prepared_to: i64,
    pub(super) moved_to: i64,
    pub(super) matched: u64,
    pub(super) eligible: u64,
    pub(super) moved: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    pub(super) tallies: Tallies,
    pub(super) canary: Option<CanaryState>,
    pub(super) canary_until: Option<Timestamp>,
    pub(super) stopped_because: Option<String>,
    pub(super) joined: Option<String>,
    pub(super) pace: Pace,
    pub(super) changes_seen: i64,
    pub(super) settle_until: Option<Timestamp>,
    pub(super) holder: Option<String>,
    pub(super) held_until: Timestamp,
}

/// Codes and reasons, and how many of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tallies {
    pub(super) ineligible: BTreeMap<String, u64>,
    pub(super) skipped: BTreeMap<String, u64>,
    pub(super) reasons: BTreeMap<String, u64>,
}

pub(super) fn add(tally: &mut BTreeMap<String, u64>, what: &str, n: u64) {
    match tally.get_mut(what) {
        Some(count) => *count += n,
        None => drop(tally.insert(what.to_owned(), n)),
    }
}

pub(super) const COLUMNS: &str = "id, action, state, preparing, all_moved, open, actor, created_at, started_at, ended_at, last_run, \
     prepared_to, moved_to, matched, eligible, moved, succeeded, failed, skipped, tallies, canary, canary_until, \
     stopped_because, joined, pace_from, pace_moved, changes_seen, settle_until, holder, held_until";

impl OperationRow {
    pub(super) fn read(row: &Row<'_>) -> Result<Self> {
        let canary = row.get::<_, Option<i64>>(20)?;
        Ok(Self {
            id: row.get(0)?,
            action: word(OperationAction::ALL, row.get(1)?, "action")?,
            state: word(OperationState::ALL, row.get(2)?, "operation state")?,
            preparing: row.get(3)?,
            all_moved: row.get(4)?,
            open: row.get(5)?,
            actor: row.get(6)?,
            created_at: time(row, 7)?,
            started_at: time_or_none(row, 8)?,
            ended_at: time_or_none(row, 9)?,
            last_run: row.get(10)?,
            prepared_to: row.get(11)?,
            moved_to: row.get(12)?,
            matched: whole(row, 13, "matched")?,
            eligible: whole(row, 14, "eligible")?,
            moved: whole(row, 15, "moved")?,
            succeeded: whole(row, 16, "succeeded")?,
            failed: whole(row, 17, "failed")?,
            skipped: whole(row, 18, "skipped")?,
            tallies: json(text(row, 19)?, "tallies")?,
            canary: canary.map(|n| word(CanaryState::ALL, n, "canary")).transpose()?,
            canary_until: time_or_none(row, 21)?,
            stopped_because: row.get(22)?,
            joined: row.get(23)?,
            pace: Pace { from: time(row, 24)?, moved: whole(row, 25, "pace")? },
            changes_seen: row.get(26)?,
            settle_until: time_or_none(row, 27)?,
            holder: row.get(28)?,
            held_until: time(row, 29)?,
        })
    }

    /// Outcomes that are still awaited.
    pub(super) fn unsettled(&self) -> u64 {
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
    pub(super) fn is_anothers(&self, replica: &str, now: Timestamp) -> bool {
        self.holder.as_deref().is_some_and(|holder| holder != replica) && self.held_until > now
    }

    pub(super) fn hold(&mut self, replica: &str, now: Timestamp) {
        self.holder = Some(replica.to_owned());
        self.held_until = now.plus_ms(HELD_MS);
    }
}

pub(super) fn find(conn: &Connection, id: i64) -> Result<OperationRow> {
    let mut find = conn.prepare_cached(&format!("SELECT {COLUMNS} FROM operations WHERE id = ?1"))?;
    let mut rows = find.query([id])?;
    rows.next()?.map(OperationRow::read).transpose()?.ok_or(Error::NotFound("operation"))
}

/// What was asked for.
pub(super) fn spec(conn: &Connection, id: i64) -> Result<NewOperation> {
    let mut find = conn.prepare_cached("SELECT spec FROM operations WHERE id = ?1")?;
    let found = find.query_row([id], |row| Ok(packed_json(row, 0, "operation"))).optional()?;
    found.ok_or(Error::NotFound("operation"))?
}

impl Batch<'_> {
    /// Writes all that can change. The committer read the row in this same transaction, so nobody else did meanwhile.
    pub(super) fn save_operation(&mut self, row: &OperationRow) -> Result<()> {
        let mut update = self.conn.prepare_cached(
            "UPDATE operations SET state = ?2, preparing = ?3, all_moved = ?4, open = ?5, started_at = ?6, ended_at = ?7,
                 prepared_to = ?8, moved_to = ?9, matched = ?10, eligible = ?11, moved = ?12, succeeded = ?13,
                 failed = ?14, skipped = ?15, tallies = ?16, canary = ?17, canary_until = ?18, stopped_because = ?19,
                 joined = ?20, pace_from = ?21, pace_moved = ?22, changes_seen = ?23, settle_until = ?24, holder = ?25,
                 held_until = ?26 WHERE id = ?1",
        )?;
        let changed = update.execute(params![
            row.id,
            position(OperationState::ALL, &row.state),
            row.preparing,
            row.all_moved,
            row.open,
            row.started_at.map(Timestamp::as_millis),
            row.ended_at.map(Timestamp::as_millis),
            row.prepared_to,
            row.moved_to,
            signed(row.matched),
            signed(row.eligible),
            signed(row.moved),
            signed(row.succeeded),
            signed(row.failed),
            signed(row.skipped),
            attempts::json(&row.tallies)?,
            row.canary.map(|state| position(CanaryState::ALL, &state)),
            row.canary_until.map(Timestamp::as_millis),
            row.stopped_because,
            row.joined,
            row.pace.from.as_millis(),
            signed(row.pace.moved),
            row.changes_seen,
            row.settle_until.map(Timestamp::as_millis),
            row.holder,
            row.held_until.as_millis(),
        ])?;
        if changed == 1 { Ok(()) } else { Err(Error::NotFound("operation")) }
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
