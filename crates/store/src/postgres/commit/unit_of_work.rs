//! What a transaction has read and will write. Commands work on it in memory; `write_out` sends the changes at the end of the
//! batch, or before a statement that has to see them.

use crate::shared::records::FromRow as _;
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

/// A run of the transaction. Its row is locked, or does not exist yet.
pub(crate) struct LoadedRun {
    pub(crate) row: RunRow,
    pub(crate) own: RunAttributes,
    pub(crate) assigned_to: Option<Label>,
    pub(crate) updated_at: Timestamp,
    /// Columns that only an insert writes; None where the run has a row.
    pub(crate) new: Option<NewColumns>,
    /// It differs from its row, or has none yet.
    pub(crate) dirty: bool,
    /// This batch has written steps of it.
    pub(crate) has_steps: bool,
}

impl LoadedRun {
    pub(crate) fn received_at(&self) -> Timestamp {
        self.new.as_ref().map_or(self.updated_at, |new| new.received_at)
    }
}

pub(crate) struct NewColumns {
    pub(crate) received_at: Timestamp,
    pub(crate) customer: Option<Label>,
    pub(crate) idempotency_key: Option<String>,
}

/// An attempt that ended.
pub(crate) struct PendingAttempt {
    pub(crate) kept: StoredAttempt,
    pub(crate) fingerprint: Option<(i64, i64)>,
    pub(crate) body: Vec<u8>,
    /// It may replace the outcome that was recorded for a silent worker.
    pub(crate) late: bool,
}

pub(crate) struct PendingPayload {
    pub(crate) kind: i64,
    pub(crate) digest: Vec<u8>,
    pub(crate) about: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

pub(crate) struct PendingMove {
    pub(crate) run: i64,
    pub(crate) at: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) actor: String,
    pub(crate) event: String,
    pub(crate) note: Option<Vec<u8>>,
}

pub(crate) struct PendingPattern {
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

pub(crate) struct PendingPatternEvent {
    pub(crate) pattern: i64,
    pub(crate) at: i64,
    pub(crate) event: i64,
    pub(crate) actor: String,
    pub(crate) about: Option<Vec<u8>>,
    pub(crate) note: Option<Vec<u8>>,
}

pub(crate) struct PendingSent {
    pub(crate) epoch: i64,
    pub(crate) changes: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// A fingerprint of a tenant.
pub(crate) type PatternKey = (i64, u64, u8);

#[derive(Default)]
pub(crate) struct UnitOfWork {
    pub(crate) runs: Map<i64, Box<LoadedRun>>,
    /// Columns of runs that were read without a lock.
    pub(crate) unlocked: Map<i64, RunAttributes>,
    /// The run of a tenant and run_id; None where there is no such run.
    pub(crate) named: Map<(i64, RunId), Option<i64>>,
    /// Numbers for new runs.
    pub(crate) numbers: Vec<i64>,
    /// By run and number; None where there is no such attempt.
    pub(crate) attempts: Map<(i64, u32), Option<StoredAttempt>>,
    /// By run.
    pub(crate) last_failures: Map<i64, Option<StoredAttempt>>,
    pub(crate) patterns: Map<PatternKey, Option<CachedPattern>>,
    /// Runs that are known to have no steps.
    pub(crate) no_steps: HashSet<i64>,
    pub(crate) out: PendingWrites,
}

/// What is to be written besides runs.
#[derive(Default)]
pub(crate) struct PendingWrites {
    /// By run and number, as payloads by run and revision.
    pub(crate) attempts: BTreeMap<(i64, u32), PendingAttempt>,
    pub(crate) payloads: BTreeMap<(i64, u32), PendingPayload>,
    pub(crate) moves: Vec<PendingMove>,
    pub(crate) patterns: Vec<PendingPattern>,
    pub(crate) pattern_events: Vec<PendingPatternEvent>,
    pub(crate) sent: BTreeMap<(i64, u32), PendingSent>,
    /// Runs whose open effects become unknown, and since when.
    pub(crate) doubts: BTreeMap<i64, i64>,
    pub(crate) tally: Option<(CounterDeltas, Timestamp)>,
}

/// The columns of a run: those of [`RunRow`], then those of [`LoadedRun`].
pub(crate) static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    format!("{}, agent, task_type, order_key, severity, assigned_to, updated_at", records::RUN_COLUMNS)
});
pub(crate) const COLUMN_COUNT: usize = records::RUN_COLUMN_COUNT + 6;

impl UnitOfWork {
    /// Adds a run that was read with [`COLUMNS`], unless the transaction has it already.
    pub(crate) fn read(&mut self, row: &impl Columns) -> Result<RunRow> {
        self.take_in(row).map(|kept| kept.row.clone())
    }

    pub(crate) fn take_in(&mut self, row: &impl Columns) -> Result<&LoadedRun> {
        let id = number(row, 0)?;
        if !self.runs.contains_key(&id) {
            let kept = records::read_run(row, Self::kept)?;
            self.named.insert((kept.row.tenant, kept.row.run_id.clone()), Some(id));
            self.runs.insert(id, Box::new(kept));
        }
        Ok(self.runs.get(&id).map(|kept| &**kept).ok_or_else(|| Error::Unexpected(format!("no run {id}")))?)
    }

    fn kept(row: &impl Columns) -> Result<LoadedRun> {
        let at = records::RUN_COLUMN_COUNT;
        Ok(LoadedRun {
            row: RunRow::read(row)?,
            own: Self::own(row)?,
            assigned_to: label_or_none(row, at + 4)?,
            updated_at: time(row, at + 5)?,
            new: None,
            dirty: false,
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
