//! What can go wrong in a store. The server turns each into one problem with a stable code.

use redrive_core::lifecycle::Refused;
use redrive_core::wire::FailureAnswer;

use crate::codec::CodecError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whatever went wrong inside an adapter, with its source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a port returns: an adapter passes its driver's errors on with `?`, and they become [`Error::Storage`] here.
pub type PortResult<T, E = BoxError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no such {0}")]
    NotFound(&'static str),
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The run is dead-lettered; with its last verdict, where it has one.
    #[error("the run is dead-lettered: a person decides what happens next")]
    DeadLettered(Box<Option<redrive_core::verdict::Verdict>>),
    /// `recorded`: the run did not move, but what was said is kept.
    #[error("the lease is over: another attempt has the run, or none")]
    LeaseLost { recorded: bool },
    #[error("the run was cancelled")]
    Cancelled { recorded: bool },
    #[error("that attempt was reported before with other content")]
    AttemptConflict { attempt: u32 },
    #[error("the run exists with another payload")]
    RunConflict,
    /// A pattern that is part of another is acted on there.
    #[error("the pattern was merged into {into}")]
    PatternMerged { into: String },
    /// The plan is not the one that was looked at; this is.
    #[error("the plan is not the one that was looked at")]
    PlanChanged { hash: String },
    /// A fix was made from a revision that is no longer the current one: read it and make it again.
    #[error("the payload has another revision by now")]
    RevisionChanged,
    #[error("`from_step` names no step on record")]
    NoSuchStep,
    #[error("whoever asked for an approval can't give it")]
    OwnRequest,
    /// An operation can't be steered that way from where it is.
    #[error("the operation is {0}")]
    OperationIs(redrive_core::wire::OperationState),
    #[error("{0}")]
    MergeRefused(&'static str),
    /// Another run is at it, or another call of the same attempt.
    #[error("the same effect is under way")]
    EffectInProgress { run_id: String, call_id: Option<String> },
    #[error("an effect of this key was started and has no known outcome")]
    EffectUnknown,
    #[error("the effect's outcome is known: it is {status}")]
    EffectSettled { status: redrive_core::wire::StepStatus },
    #[error("this queue's runs are retried by workers: report under a lease")]
    LeaseNeeded,
    #[error("the cursor does not parse, or belongs to another filter")]
    BadCursor,
    #[error("the tenant has {most} queues of its own already")]
    TooManyQueues { most: usize },
    /// Nothing of the step is on record; an effect that was reported as done is counted as in doubt.
    #[error("the run has {most} steps and can have no more")]
    TooManySteps { most: usize },
    #[error("the queue is set by the configuration file")]
    ManagedByConfig,
    /// The queue of commands is full; nothing was written.
    #[error("too much at once: try again in a moment")]
    Busy,
    /// Disk full, database away: nothing was acknowledged.
    #[error("the store can't write now: {0}")]
    Unavailable(#[source] BoxError),
    #[error("the store is shutting down")]
    Closing,
    #[error(transparent)]
    Damaged(#[from] CodecError),
    #[error("the store holds something unexpected: {0}")]
    Unexpected(String),
    /// A row that no binary of ours would have written. Services set it aside and go on.
    #[error("row {id} of table {table} can't be read: {why}")]
    Corrupt { table: &'static str, id: i64, why: String },
    /// The database refused or failed; its own error is the source.
    #[error("the database failed: {0}")]
    Storage(#[source] BoxError),
}

impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => *own,
            Err(foreign) => Self::Storage(foreign),
        }
    }
}

impl Error {
    /// Whether the store failed, rather than refused: whatever the transaction did is undone.
    pub fn is_of_store(&self) -> bool {
        matches!(
            self,
            Self::Storage(_) | Self::Unavailable(_) | Self::Unexpected(_) | Self::Corrupt { .. } | Self::Damaged(_)
        )
    }

    /// Whether the same may work in a moment: the store is busy, away or closing.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Busy | Self::Unavailable(_) | Self::Closing => true,
            Self::NotFound(_)
            | Self::Refused(_)
            | Self::DeadLettered(_)
            | Self::LeaseLost { .. }
            | Self::Cancelled { .. }
            | Self::AttemptConflict { .. }
            | Self::RunConflict
            | Self::PatternMerged { .. }
            | Self::PlanChanged { .. }
            | Self::RevisionChanged
            | Self::NoSuchStep
            | Self::OwnRequest
            | Self::OperationIs(_)
            | Self::MergeRefused(_)
            | Self::EffectInProgress { .. }
            | Self::EffectUnknown
            | Self::EffectSettled { .. }
            | Self::LeaseNeeded
            | Self::BadCursor
            | Self::TooManyQueues { .. }
            | Self::TooManySteps { .. }
            | Self::ManagedByConfig
            | Self::Damaged(_)
            | Self::Unexpected(_)
            | Self::Corrupt { .. }
            | Self::Storage(_) => false,
        }
    }
}

/// An answer to a failure report, and whether it was the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub answer: FailureAnswer,
    /// False: the same report was here before, and this is its stored answer.
    pub fresh: bool,
}
