//! An operation's row: read whole, written whole, so that its cursor and its figures commit with its items.

use std::collections::BTreeMap;

use redrive_core::operation::Pace;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, OperationAction, OperationState};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::commands::batch::Batch;

/// How long a replica has an operation to itself after its last piece.
const HELD_MS: u64 = 10_000;

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

impl OperationRow {
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
