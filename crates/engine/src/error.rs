//! Errors of the use cases and the store. The server turns each variant into a problem with a stable code.

use redrive_core::lifecycle::Refused;
use redrive_core::wire::FailureAnswer;

use crate::codec::CodecError;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of an adapter, with its source.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a port. Driver errors pass with `?` and become [`Error::Storage`].
pub type PortResult<T, E = BoxError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} not found")]
    NotFound(&'static str),
    #[error(transparent)]
    Refused(#[from] Refused),
    /// With the last verdict, if there is one.
    #[error("the run is dead-lettered")]
    DeadLettered(Box<Option<redrive_core::verdict::Verdict>>),
    /// `recorded`: the run did not move, but the report was stored.
    #[error("the lease has ended")]
    LeaseLost { recorded: bool },
    #[error("the run was cancelled")]
    Cancelled { recorded: bool },
    #[error("the attempt was reported before with other content")]
    AttemptConflict { attempt: u32 },
    #[error("the run exists with another payload")]
    RunConflict,
    /// Actions go to the pattern that it was merged into.
    #[error("the pattern was merged into {into}")]
    PatternMerged { into: String },
    /// `hash` is that of the current plan.
    #[error("the plan has changed")]
    PlanChanged { hash: String },
    /// The fix was made from an older revision.
    #[error("the payload has a newer revision")]
    RevisionChanged,
    #[error("`from_step` names no recorded step")]
    NoSuchStep,
    #[error("an actor cannot approve its own request")]
    OwnRequest,
    /// The operation's state does not allow the command.
    #[error("the operation is {0}")]
    OperationIs(redrive_core::wire::OperationState),
    #[error("{0}")]
    MergeRefused(&'static str),
    /// In another run, or in another call of the same attempt.
    #[error("the same effect is in progress")]
    EffectInProgress { run_id: String, call_id: Option<String> },
    #[error("an effect with this key has no known outcome")]
    EffectUnknown,
    #[error("the effect is already {status}")]
    EffectSettled { status: redrive_core::wire::StepStatus },
    #[error("runs of this queue are reported under a lease")]
    LeaseNeeded,
    #[error("invalid cursor, or a cursor of another filter")]
    BadCursor,
    #[error("the tenant already has {most} queues of its own")]
    TooManyQueues { most: usize },
    /// The step is not recorded; an effect reported as done counts as in doubt.
    #[error("the run already has {most} steps")]
    TooManySteps { most: usize },
    #[error("the queue is set by the configuration file")]
    ManagedByConfig,
    /// The command queue is full; nothing was written.
    #[error("the command queue is full")]
    Busy,
    /// Disk full or database unreachable; nothing was acknowledged.
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] BoxError),
    #[error("the store is shutting down")]
    Closing,
    #[error(transparent)]
    Damaged(#[from] CodecError),
    #[error("unexpected state of the store: {0}")]
    Unexpected(String),
    /// A row that cannot be read. Services set it aside and continue.
    #[error("row {id} of table {table} cannot be read: {why}")]
    Corrupt { table: &'static str, id: i64, why: String },
    /// An error of the database.
    #[error("database error: {0}")]
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
    /// Whether the store failed rather than refused the command: the transaction is rolled back.
    pub fn is_of_store(&self) -> bool {
        matches!(
            self,
            Self::Storage(_) | Self::Unavailable(_) | Self::Unexpected(_) | Self::Corrupt { .. } | Self::Damaged(_)
        )
    }

    /// Whether a retry may succeed: the store is busy, unreachable or closing.
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

/// The answer to a failure report.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub answer: FailureAnswer,
    /// False for a repeated report, which gets its stored answer.
    pub fresh: bool,
}
