//! The row of an operation. Cursor and figures are written in the commit of its items.

use std::collections::BTreeMap;

use redrive_core::operation::Pace;
use redrive_core::time::Timestamp;
use redrive_core::wire::{CanaryState, OperationAction, OperationState};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tx::Tx;

/// How long a replica owns an operation after its last commit. Short, because two replicas repeat nothing anyway.
const HELD_MS: u64 = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub struct OperationRow {
    pub id: i64,
    pub action: OperationAction,
    pub state: OperationState,
    pub preparing: bool,
    pub all_moved: bool,
    pub open: bool,
    pub actor: String,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub last_run: i64,
    pub prepared_to: i64,
    pub moved_to: i64,
    pub matched: u64,
    pub eligible: u64,
    pub moved: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub skipped: u64,
    pub tallies: Tallies,
    pub canary: Option<CanaryState>,
    pub canary_until: Option<Timestamp>,
    /// The last run of the canary; 0 without one.
    pub canary_last: i64,
    pub stopped_because: Option<String>,
    pub joined: Option<String>,
    pub pace: Pace,
    pub changes_seen: i64,
    pub settle_until: Option<Timestamp>,
    pub holder: Option<String>,
    pub held_until: Timestamp,
}

/// Counts by code and by reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tallies {
    pub ineligible: BTreeMap<String, u64>,
    pub skipped: BTreeMap<String, u64>,
    pub reasons: BTreeMap<String, u64>,
}

pub fn add(tally: &mut BTreeMap<String, u64>, what: &str, n: u64) {
    match tally.get_mut(what) {
        Some(count) => *count += n,
        None => drop(tally.insert(what.to_owned(), n)),
    }
}

impl OperationRow {
    /// Moved items without an outcome.
    pub fn unsettled(&self) -> u64 {
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

    /// Another replica owns it.
    pub fn is_anothers(&self, replica: &str, now: Timestamp) -> bool {
        self.holder.as_deref().is_some_and(|holder| holder != replica) && self.held_until > now
    }

    pub fn hold(&mut self, replica: &str, now: Timestamp) {
        self.holder = Some(replica.to_owned());
        self.held_until = now.plus_ms(HELD_MS);
    }
}

/// The row, locked until the commit.
pub fn operation(tx: &mut Tx<'_>, id: i64) -> Result<OperationRow> {
    tx.rows.operation(id)?.ok_or(Error::NotFound("operation"))
}

pub fn public_id(id: i64) -> String {
    format!("op-{id}")
}

/// Only the canonical spelling is an operation.
pub fn number_of(id: &str) -> Result<i64> {
    let number = id.strip_prefix("op-").and_then(|number| number.parse().ok());
    number.filter(|number| public_id(*number) == id).ok_or(Error::NotFound("operation"))
}
