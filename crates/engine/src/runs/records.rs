//! Arguments and results of the row ports.

use redrive_core::ids::OrderKey;
use redrive_core::ledger::EntryState;
use redrive_core::run::{Run, StateName};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, PatternState, PayloadOmitted, Severity, StepStatus};

use crate::ledger::steps::{Mover, StepRow};
use crate::model::{NewStep, Payload};
use crate::operations::row::OperationRow;
use crate::runs::document::position;
use crate::runs::run_row::RunRow;

/// Which columns of a run's row a command has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedColumns {
    /// The state, and the columns that only a failure changes.
    ByFailure,
    /// The state.
    ByMove,
    /// Only the document: lease times and effect counts, which no list shows.
    RunDocument,
}

/// Columns of a run that few commands read.
#[derive(Debug, Clone)]
pub struct RunAttributes {
    pub agent: Option<Label>,
    pub task_type: Option<Label>,
    pub order_key: Option<OrderKey>,
    pub severity: Severity,
}

/// An entry of the history that is not an attempt.
#[derive(Debug)]
pub struct NewMove<'a> {
    pub run: i64,
    pub actor: &'a str,
    pub event: &'a str,
    pub from: StateName,
    pub to: StateName,
    pub note: Option<&'a Text>,
}

/// A later revision of a payload.
#[derive(Debug)]
pub struct NewRevision<'a> {
    pub run: i64,
    pub revision: u32,
    pub payload: &'a Payload,
    pub about: Vec<u8>,
    pub actor: &'a str,
    pub patch: Option<&'a [u8]>,
}

/// A new entry of the ledger.
#[derive(Debug)]
pub struct NewEntry<'a> {
    pub row: &'a RunRow,
    pub by: Mover<'a>,
    pub key: &'a str,
    pub step: &'a NewStep,
    pub effect: bool,
    pub state: EntryState,
    pub holds: bool,
}

/// A worker's update of an entry.
#[derive(Debug)]
pub struct MovedEntry<'a> {
    pub found: &'a StepRow,
    pub by: Mover<'a>,
    pub step: &'a NewStep,
    pub effect: bool,
    pub state: EntryState,
    pub holds: bool,
    pub settled_by: Option<&'a str>,
}

/// A reconciliation of an entry.
#[derive(Debug)]
pub struct SettledEntry<'a> {
    pub found: &'a StepRow,
    pub state: EntryState,
    pub output: Option<&'a [u8]>,
    pub omitted: Option<&'a PayloadOmitted>,
    pub actor: &'a str,
}

/// A change to a pattern.
#[derive(Debug, Clone, PartialEq)]
pub enum PatternChange<'a> {
    /// Acknowledged.
    State(PatternState),
    /// A regression.
    CameBack,
    Resolved {
        at: Timestamp,
        in_versions: Option<&'a str>,
    },
    Muted {
        until: Option<Timestamp>,
        before: Option<i64>,
    },
    Owner(Option<&'a Label>),
}

/// A request for approval to store.
#[derive(Debug)]
pub struct NewRequest<'a> {
    pub run: i64,
    pub actor: &'a str,
    pub expires_at: Timestamp,
    pub request: Option<Vec<u8>>,
    pub payload: Option<&'a Payload>,
}

/// A stored request for approval.
#[derive(Debug)]
pub struct StoredRequest {
    pub actor: String,
    pub request: Option<Vec<u8>>,
    pub payload: Option<Payload>,
}

/// The state of a run when an operation's set was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrozenState {
    pub state: StateName,
    pub attempt: u32,
    pub decisions: u32,
}

impl FrozenState {
    pub fn of(run: &Run) -> Self {
        Self { state: run.state.name(), attempt: run.attempt, decisions: run.decisions }
    }
}

/// A new row of operations.
#[derive(Debug)]
pub struct NewOperationRow<'a> {
    pub row: &'a OperationRow,
    /// `NewOperation` as JSON, encoded.
    pub spec: Vec<u8>,
}

/// The column of a step's outcome.
pub fn outcome_column(state: EntryState) -> Option<i64> {
    state.outcome().map(|outcome| position(EffectOutcome::ALL, &outcome))
}

/// The column of a step's status.
pub fn status_column(state: EntryState) -> i64 {
    position(StepStatus::ALL, &state.status())
}
