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
use redrive_engine::Map;
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::patterns::sightings::CachedPattern;
use redrive_engine::ports::rows::RunAttributes;
use redrive_engine::runs::attempts::StoredAttempt;
use redrive_engine::runs::document::word;
use redrive_engine::runs::run_row::RunRow;

/// What of a run's row is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dirty {
    No,
    /// Only what a move changes: half of the columns.
    Moved,
    Whole,
}

/// A run as the transaction knows it. Its row is locked, or not there yet.
pub(crate) struct SheetRun {
    pub(crate) row: RunRow,
    pub(crate) own: RunAttributes,
    pub(crate) assigned_to: Option<Label>,
    pub(crate) updated_at: Timestamp,
    /// What only a new run's row holds beside these.
    pub(crate) new: Option<NewColumns>,
    pub(crate) dirty: Dirty,
    /// This batch has written entries of its ledger.
    pub(crate) has_steps: bool,
}

pub(crate) struct NewColumns {
    pub(crate) received_at: Timestamp,
    pub(crate) customer: Option<Label>,
    pub(crate) idempotency_key: Option<String>,
}

/// An attempt that ended, as its row will be.
pub(crate) struct SheetAttempt {
    pub(crate) kept: StoredAttempt,
    pub(crate) epoch: Option<i64>,
    pub(crate) fingerprint: Option<(i64, i64)>,
    pub(crate) body: Vec<u8>,
    /// Another end may have been put in its place.
    pub(crate) late: bool,
}

pub(crate) struct SheetPayload {
    pub(crate) kind: i64,
    pub(crate) digest: Vec<u8>,
    pub(crate) about: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct SheetMove {
    pub(crate) run: i64,
    pub(crate) at: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) actor: String,
    pub(crate) event: String,
    pub(crate) note: Option<Vec<u8>>,
}

pub(crate) struct SheetPattern {
    pub(crate) id: i64,
    pub(crate) public_id: String,
    pub(crate) tenant: i64,
    pub(crate) fp_version: i64,
    pub(crate) fp_hash: i64,
    pub(crate) template: Vec<u8>,
    pub(crate) reason: String,
    pub(crate) category: i64,
    pub(crate) at: i64,
}

pub(crate) struct SheetPatternEvent {
    pub(crate) pattern: i64,
    pub(crate) at: i64,
    pub(crate) event: i64,
    pub(crate) actor: String,
    pub(crate) about: Option<Vec<u8>>,
    pub(crate) note: Option<Vec<u8>>,
}

pub(crate) struct SheetSent {
    pub(crate) epoch: i64,
    pub(crate) changes: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// A fingerprint of a tenant.
pub(crate) type PatternKey = (i64, u64, u8);

/// Which run has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Run(i64),
    Nobody,
    /// Nobody, as far as anybody asked: the batch inserts it, and the insert proves it.
    Unasked,
}

#[derive(Default)]
pub(crate) struct UnitOfWork {
    /// Each in a place of its own: a map that holds them itself moves them all whenever it grows.
    pub(crate) runs: Map<i64, Box<SheetRun>>,
    /// How many of those that were there before have been changed and not been sent.
    pub(crate) changed_runs: usize,
    /// Of runs that were looked at without a lock.
    pub(crate) glanced: Map<i64, RunAttributes>,
    /// By tenant and run_id.
    pub(crate) named: Map<(i64, RunId), Named>,
    /// Numbers that no run has yet.
    pub(crate) numbers: Vec<i64>,
    /// By run and number; none where there is no such attempt.
    pub(crate) attempts: Map<(i64, u32), Option<StoredAttempt>>,
    /// By run.
    pub(crate) last_failures: Map<i64, Option<StoredAttempt>>,
    pub(crate) patterns: Map<PatternKey, Option<CachedPattern>>,
    /// Runs that are known to have no entry in the ledger.
    pub(crate) no_steps: HashSet<i64>,
    pub(crate) out: Out,
}

/// What is to be written, beside the runs.
#[derive(Default)]
pub(crate) struct Out {
    /// By run and number, as payloads by run and revision.
    pub(crate) attempts: BTreeMap<(i64, u32), SheetAttempt>,
    pub(crate) payloads: BTreeMap<(i64, u32), SheetPayload>,
    pub(crate) moves: Vec<SheetMove>,
    pub(crate) patterns: Vec<SheetPattern>,
    pub(crate) pattern_events: Vec<SheetPatternEvent>,
    pub(crate) sent: BTreeMap<(i64, u32), SheetSent>,
    /// Runs whose open effects are in doubt, and since when.
    pub(crate) doubts: BTreeMap<i64, i64>,
    pub(crate) tally: Option<(CounterDeltas, Timestamp)>,
}

/// The columns of a run: as [`RunRow`] reads them, and then what it does not hold.
pub(crate) static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    format!("{}, agent, task_type, order_key, severity, assigned_to, updated_at", records::RUN_COLUMNS)
});
/// How many they are.
pub(crate) const COLUMN_COUNT: usize = records::RUN_COLUMN_COUNT + 6;

impl UnitOfWork {
    /// For so many runs that are about to come.
    pub(crate) fn make_room(&mut self, runs: usize) {
        self.runs.reserve(runs);
        self.named.reserve(runs);
    }

    /// Takes in a run that was read with [`COLUMNS`], and gives it back as the transaction knows it.
    pub(crate) fn read(&mut self, row: &impl Columns) -> Result<RunRow> {
        self.take_in(row).map(|kept| kept.row.clone())
    }

    pub(crate) fn take_in(&mut self, row: &impl Columns) -> Result<&SheetRun> {
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
    pub(crate) fn own(row: &impl Columns) -> Result<RunAttributes> {
        let at = records::RUN_COLUMN_COUNT;
        Ok(RunAttributes {
            agent: label_or_none(row, at)?,
            task_type: label_or_none(row, at + 1)?,
            order_key: parsed_or_none(row, at + 2, "order key")?,
            severity: word(Severity::ALL, number(row, at + 3)?, "severity")?,
        })
    }

    pub(crate) fn row(&self, run: i64) -> Option<RunRow> {
        self.runs.get(&run).map(|kept| kept.row.clone())
    }
}
