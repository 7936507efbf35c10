//! What commands and the stores' rows hand each other.

use redrive_core::ids::{IdempotencyKey, OrderKey};
use redrive_core::ledger::EntryState;
use redrive_core::lifecycle::Outcome;
use redrive_core::pattern::Fingerprint;
use redrive_core::run::{Run, StateName};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{EffectOutcome, PatternState, PayloadOmitted, Severity, StepStatus};

use crate::commands::life::position;
use crate::commands::operation_row::OperationRow;
use crate::commands::run_row::RunRow;
use crate::commands::set_aside::ReadRuns;
use crate::commands::steps::{Mover, StepRow};
use crate::commands::walks::DuePlace;
use crate::model::{Digest, NewStep, Payload};

/// What of a run's row a move has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// Where it stands, and what only a failure changes.
    ByFailure,
    /// Where it stands.
    ByMove,
    /// A lease's times and a run's effect counts: no list shows any of it.
    Life,
}

/// What a run's row holds that few commands read.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) agent: Option<Label>,
    pub(crate) task_type: Option<Label>,
    pub(crate) order_key: Option<OrderKey>,
    pub(crate) severity: Severity,
}

/// A due run that a worker may get.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) row: RunRow,
    pub(crate) order_key: Option<String>,
    pub(crate) agent: Option<Label>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// How large its payload is in an answer.
    pub(crate) bytes: usize,
}

/// Which due runs a call asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueCall<'a> {
    pub(crate) at: DueLook,
    pub(crate) agents: Option<&'a [Label]>,
    /// Runs that it gets at most.
    pub(crate) most: usize,
    /// Runs that it looks at at most, whether it gets them or passes them over.
    pub(crate) window: usize,
}

/// Where a look for due runs begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueLook {
    pub(crate) queue: i64,
    pub(crate) tenant: i64,
    /// It begins with the run behind this one.
    pub(crate) after: DuePlace,
    /// Due by then.
    pub(crate) until: Timestamp,
}

impl DueLook {
    /// Queue and tenant.
    pub(crate) fn place(&self) -> (i64, i64) {
        (self.queue, self.tenant)
    }
}

/// Due runs that a worker may get.
pub(crate) struct DueRuns {
    pub(crate) runs: ReadRuns<Candidate>,
    /// With fewer runs than were asked for: where the window ended, unless all was looked at.
    pub(crate) end: Option<DuePlace>,
}

/// Which due runs a call is going to ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueHint<'a> {
    pub(crate) looks: &'a [DueLook],
    pub(crate) agents: Option<&'a [Label]>,
    /// Of each look.
    pub(crate) most: usize,
    pub(crate) window: usize,
}

/// The end of an attempt, to be kept.
#[derive(Debug)]
pub(crate) struct NewAttempt<'a> {
    pub(crate) run: i64,
    pub(crate) attempt: u32,
    /// A record may stand in its place, and gives way.
    pub(crate) late: bool,
    pub(crate) outcome: Outcome,
    pub(crate) epoch: Option<u64>,
    pub(crate) digest: Option<&'a Digest>,
    pub(crate) state: StateName,
    pub(crate) fingerprint: Option<&'a Fingerprint>,
    pub(crate) pattern: Option<i64>,
    pub(crate) pattern_new: bool,
    pub(crate) origin: String,
    pub(crate) verdict: Option<Vec<u8>>,
    pub(crate) body: &'a [u8],
}

/// A move that is not an attempt, for the history.
#[derive(Debug)]
pub(crate) struct NewMove<'a> {
    pub(crate) run: i64,
    pub(crate) actor: &'a str,
    pub(crate) event: &'a str,
    pub(crate) from: StateName,
    pub(crate) to: StateName,
    pub(crate) note: Option<&'a Text>,
}

/// A later revision of a payload.
#[derive(Debug)]
pub(crate) struct NewRevision<'a> {
    pub(crate) run: i64,
    pub(crate) revision: u32,
    pub(crate) payload: &'a Payload,
    pub(crate) about: Vec<u8>,
    pub(crate) actor: &'a str,
    pub(crate) patch: Option<&'a [u8]>,
}

/// A new entry of the ledger.
#[derive(Debug)]
pub(crate) struct NewEntry<'a> {
    pub(crate) row: &'a RunRow,
    pub(crate) by: Mover<'a>,
    pub(crate) key: &'a str,
    pub(crate) step: &'a NewStep,
    pub(crate) effect: bool,
    pub(crate) state: EntryState,
    pub(crate) holds: bool,
}

/// A worker's word on an entry.
#[derive(Debug)]
pub(crate) struct MovedEntry<'a> {
    pub(crate) found: &'a StepRow,
    pub(crate) by: Mover<'a>,
    pub(crate) step: &'a NewStep,
    pub(crate) effect: bool,
    pub(crate) state: EntryState,
    pub(crate) holds: bool,
    pub(crate) settled_by: Option<&'a str>,
}

/// A person's word on an entry in doubt.
#[derive(Debug)]
pub(crate) struct SettledEntry<'a> {
    pub(crate) found: &'a StepRow,
    pub(crate) state: EntryState,
    pub(crate) output: Option<&'a [u8]>,
    pub(crate) omitted: Option<&'a PayloadOmitted>,
    pub(crate) actor: &'a str,
}

/// How a pattern stands, for those who change it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PatternChange<'a> {
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
pub(crate) struct NewRequest<'a> {
    pub(crate) run: i64,
    pub(crate) actor: &'a str,
    pub(crate) expires_at: Timestamp,
    pub(crate) request: Option<Vec<u8>>,
    pub(crate) payload: Option<&'a Payload>,
}

/// What was asked for, as it was kept.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    pub(crate) actor: String,
    pub(crate) request: Option<Vec<u8>>,
    pub(crate) payload: Option<Payload>,
}

/// How a run stood when an operation's set was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stood {
    pub(crate) state: StateName,
    pub(crate) attempt: u32,
    pub(crate) decisions: u32,
}

impl Stood {
    pub(crate) fn of(run: &Run) -> Self {
        Self { state: run.state.name(), attempt: run.attempt, decisions: run.decisions }
    }
}

/// A new operation's row.
#[derive(Debug)]
pub(crate) struct NewOperationRow<'a> {
    pub(crate) row: &'a OperationRow,
    /// `NewOperation` as JSON, encoded.
    pub(crate) spec: Vec<u8>,
}

/// A step's outcome as its column has it.
pub(crate) fn outcome_column(state: EntryState) -> Option<i64> {
    state.outcome().map(|outcome| position(EffectOutcome::ALL, &outcome))
}

/// A step's status as its column has it.
pub(crate) fn status_column(state: EntryState) -> i64 {
    position(StepStatus::ALL, &state.status())
}
