//! What commands and the stores' rows hand each other.

use redrive_core::ids::OrderKey;
use redrive_core::ledger::EntryState;
use redrive_core::lifecycle::Outcome;
use redrive_core::pattern::Fingerprint;
use redrive_core::run::{Run, StateName};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, PatternState, PayloadOmitted, Severity, StepStatus};

use crate::ledger::steps::{Mover, StepRow};
use crate::model::{Digest, NewStep, Payload};
use crate::operations::row::OperationRow;
use crate::runs::document::position;
use crate::runs::run_row::RunRow;

/// What of a run's row a move has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedColumns {
    /// Where it stands, and what only a failure changes.
    ByFailure,
    /// Where it stands.
    ByMove,
    /// A lease's times and a run's effect counts: no list shows any of it.
    RunDocument,
}

/// What a run's row holds that few commands read.
#[derive(Debug, Clone)]
pub struct RunAttributes {
    pub agent: Option<Label>,
    pub task_type: Option<Label>,
    pub order_key: Option<OrderKey>,
    pub severity: Severity,
}

/// The end of an attempt, to be kept.
#[derive(Debug)]
pub struct NewAttempt<'a> {
    pub run: i64,
    pub attempt: u32,
    /// A record may stand in its place, and gives way.
    pub late: bool,
    pub outcome: Outcome,
    pub epoch: Option<u64>,
    pub digest: Option<&'a Digest>,
    pub state: StateName,
    pub fingerprint: Option<&'a Fingerprint>,
    pub pattern: Option<i64>,
    pub pattern_new: bool,
    pub origin: String,
    pub verdict: Option<Vec<u8>>,
    pub body: &'a [u8],
}

/// A move that is not an attempt, for the history.
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

/// A worker's word on an entry.
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

/// A person's word on an entry in doubt.
#[derive(Debug)]
pub struct SettledEntry<'a> {
    pub found: &'a StepRow,
    pub state: EntryState,
    pub output: Option<&'a [u8]>,
    pub omitted: Option<&'a PayloadOmitted>,
    pub actor: &'a str,
}

/// How a pattern stands, for those who change it.
#[derive(Debug, Clone, PartialEq)]
pub enum PatternChange<'a> {
    /// Somebody has looked at it.
    State(PatternState),
    /// A fix did not hold.
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

/// What somebody asked for, to be kept until it is answered.
#[derive(Debug)]
pub struct NewRequest<'a> {
    pub run: i64,
    pub actor: &'a str,
    pub expires_at: Timestamp,
    pub request: Option<Vec<u8>>,
    pub payload: Option<&'a Payload>,
}

/// What was asked for, as it was kept.
#[derive(Debug)]
pub struct StoredRequest {
    pub actor: String,
    pub request: Option<Vec<u8>>,
    pub payload: Option<Payload>,
}

/// How a run stood when an operation's set was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stood {
    pub state: StateName,
    pub attempt: u32,
    pub decisions: u32,
}

impl Stood {
    pub fn of(run: &Run) -> Self {
        Self { state: run.state.name(), attempt: run.attempt, decisions: run.decisions }
    }
}

/// A new operation's row.
#[derive(Debug)]
pub struct NewOperationRow<'a> {
    pub row: &'a OperationRow,
    /// `NewOperation` as JSON, encoded.
    pub spec: Vec<u8>,
}

/// A step's outcome as its column has it.
pub fn outcome_column(state: EntryState) -> Option<i64> {
    state.outcome().map(|outcome| position(EffectOutcome::ALL, &outcome))
}

/// A step's status as its column has it.
pub fn status_column(state: EntryState) -> i64 {
    position(StepStatus::ALL, &state.status())
}
