//! What a transaction has read and is about to write. Commands work on it in memory; what they changed goes out in a few
//! statements at the end, or before a statement that has to see it.

use crate::shared::records::Record as _;
use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use redrive_core::ids::RunId;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Severity;

use crate::shared::columns::{Columns, label_or_none, number, parsed_or_none, time};
use crate::shared::records;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::map::Map;
use redrive_engine::patterns::sightings::CachedPattern;
use redrive_engine::ports::rows::Own;
use redrive_engine::runs::attempts::StoredAttempt;
use redrive_engine::runs::document::word;
use redrive_engine::runs::run_row::RunRow;
use redrive_engine::tally::Tally;

/// What of a run's row is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dirty {
    No,
    /// Only what a move changes: half of the columns.
    Moved,
    Whole,
}

/// A run as the transaction knows it. Its row is locked, or not there yet.
pub(super) struct SheetRun {
    pub(super) row: RunRow,
    pub(super) own: Own,
    pub(super) assigned_to: Option<Label>,
    pub(super) updated_at: Timestamp,
    /// What only a new run's row holds beside these.
    pub(super) new: Option<NewColumns>,
    pub(super) dirty: Dirty,
    /// This batch has written entries of its ledger.
    pub(super) has_steps: bool,
}

pub(super) struct NewColumns {
    pub(super) received_at: Timestamp,
    pub(super) customer: Option<Label>,
    pub(super) idempotency_key: Option<String>,
}

/// An attempt that ended, as its row will be.
pub(super) struct SheetAttempt {
    pub(super) kept: StoredAttempt,
    pub(super) epoch: Option<i64>,
    pub(super) fingerprint: Option<(i64, i64)>,
    pub(super) body: Vec<u8>,
    /// Another end may have been put in its place.
    pub(super) late: bool,
}

pub(super) struct SheetPayload {
    pub(super) kind: i64,
    pub(super) digest: Vec<u8>,
    pub(super) about: Vec<u8>,
    pub(super) body: Vec<u8>,
}

pub(super) struct SheetMove {
    pub(super) run: i64,
    pub(super) at: i64,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) actor: String,
    pub(super) event: String,
    pub(super) note: Option<Vec<u8>>,
}

pub(super) struct SheetPattern {
    pub(super) id: i64,
    pub(super) public_id: String,
    pub(super) tenant: i64,
    pub(super) fp_version: i64,
    pub(super) fp_hash: i64,
    pub(super) template: Vec<u8>,
    pub(super) reason: String,
    pub(super) category: i64,
    pub(super) at: i64,
}

pub(super) struct SheetPatternEvent {
    pub(super) pattern: i64,
    pub(super) at: i64,
    pub(super) event: i64,
    pub(super) actor: String,
    pub(super) about: Option<Vec<u8>>,
    pub(super) note: Option<Vec<u8>>,
}

pub(super) struct SheetSent {
    pub(super) epoch: i64,
    pub(super) changes: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// A fingerprint of a tenant.
pub(super) type PatternKey = (i64, u64, u8);

/// Which run has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Run(i64),
    Nobody,
    /// Nobody, as far as anybody asked: the batch inserts it, and the insert proves it.
    Unasked,
}

#[derive(Default)]
pub(super) struct UnitOfWork {
    /// Each in a place of its own: a map that holds them itself moves them all whenever it grows.
    pub(super) runs: Map<i64, Box<SheetRun>>,
    /// How many of those that were there before have been changed and not been sent.
    pub(super) changed_runs: usize,
    /// Of runs that were looked at without a lock.
    pub(super) glanced: Map<i64, Own>,
    /// By tenant and run_id.
    pub(super) named: Map<(i64, RunId), Named>,
    /// Numbers that no run has yet.
    pub(super) numbers: Vec<i64>,
    /// By run and number; none where there is no such attempt.
    pub(super) attempts: Map<(i64, u32), Option<StoredAttempt>>,
    /// By run.
    pub(super) last_failures: Map<i64, Option<StoredAttempt>>,
    pub(super) patterns: Map<PatternKey, Option<CachedPattern>>,
    /// Runs that are known to have no entry in the ledger.
    pub(super) no_steps: HashSet<i64>,
    pub(super) out: Out,
}

/// What is to be written, beside the runs.
#[derive(Default)]
pub(super) struct Out {
    /// By run and number, as payloads by run and revision.
    pub(super) attempts: BTreeMap<(i64, u32), SheetAttempt>,
    pub(super) payloads: BTreeMap<(i64, u32), SheetPayload>,
    pub(super) moves: Vec<SheetMove>,
    pub(super) patterns: Vec<SheetPattern>,
    pub(super) pattern_events: Vec<SheetPatternEvent>,
    pub(super) sent: BTreeMap<(i64, u32), SheetSent>,
    /// Runs whose open effects are in doubt, and since when.
    pub(super) doubts: BTreeMap<i64, i64>,
    pub(super) tally: Option<(Tally, Timestamp)>,
}

/// The columns of a run: as [`RunRow`] reads them, and then what it does not hold.
pub(super) static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    format!("{}, agent, task_type, order_key, severity, assigned_to, updated_at", records::RUN_COLUMNS)
});
/// How many they are.
pub(super) const COLUMN_COUNT: usize = records::RUN_COLUMN_COUNT + 6;

impl UnitOfWork {
    /// For so many runs that are about to come.
    pub(super) fn make_room(&mut self, runs: usize) {
        self.runs.reserve(runs);
        self.named.reserve(runs);
    }

    /// Takes in a run that was read with [`COLUMNS`], and gives it back as the transaction knows it.
    pub(super) fn read(&mut self, row: &impl Columns) -> Result<RunRow> {
        self.take_in(row).map(|kept| kept.row.clone())
    }

    pub(super) fn take_in(&mut self, row: &impl Columns) -> Result<&SheetRun> {
        let id = number(row, 0)?;
        if !self.runs.contains_key(&id) {
            let kept = records::read_run(row, Self::kept)?;
            self.named.insert((kept.row.tenant, kept.row.run_id.clone()), Named::Run(id));
            self.runs.insert(id, Box::new(kept));
        }
        Ok(self.runs.get(&id).map(|kept| &**kept).ok_or_else(|| Error::Unexpected(format!("no run {id}")))?)
    }

    fn kept(row: &impl Columns) -> Result<SheetRun> {
        let at = records::RUN_COLUMN_COUNT;
        Ok(SheetRun {
            row: RunRow::read(row)?,
            own: Self::own(row)?,
            assigned_to: label_or_none(row, at + 4)?,
            updated_at: time(row, at + 5)?,
            new: None,
            dirty: Dirty::No,
            has_steps: false,
        })
    }

    /// Of a run that was read with [`COLUMNS`].
    pub(super) fn own(row: &impl Columns) -> Result<Own> {
        let at = records::RUN_COLUMN_COUNT;
        Ok(Own {
            agent: label_or_none(row, at)?,
            task_type: label_or_none(row, at + 1)?,
            order_key: parsed_or_none(row, at + 2, "order key")?,
            severity: word(Severity::ALL, number(row, at + 3)?, "severity")?,
        })
    }

    pub(super) fn row(&self, run: i64) -> Option<RunRow> {
        self.runs.get(&run).map(|kept| kept.row.clone())
    }
}
