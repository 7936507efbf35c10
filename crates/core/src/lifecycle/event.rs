//! Events, the outcome of applying one, and the reasons to refuse it.

use crate::absence::Absence;
use crate::ids::RunId;
use crate::run::{Review, Run, StateName};
use crate::strategy::Failure;
use crate::text::Label;
use crate::time::Timestamp;
use crate::verdict::Verdict;
use crate::wire::Severity;
use crate::words::words;

/// Everything that can happen to a run. `jitter` is in `0.0..1.0`.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A client starts, or a worker leases, the next attempt.
    Begin(Begin),
    Heartbeat,
    /// A step was reported.
    Progress,
    /// Under a live lease, late under the last one, or by a caller without a lease.
    Succeed {
        attempt: u32,
    },
    Fail {
        failure: &'a Failure,
        attempt: u32,
        jitter: f64,
    },
    Release {
        jitter: f64,
    },
    /// `unattended`: it ran out while no server was up to take a heartbeat.
    LeaseRanOut {
        unattended: bool,
        jitter: f64,
    },
    /// `unattended`: likewise, no server was up to take a step.
    IdleTooLong {
        unattended: bool,
        jitter: f64,
    },
    DeadlinePassed {
        jitter: f64,
    },
    /// No worker began it in time. `absences`, which do not count, are newest first.
    Unclaimed {
        absences: &'a [Absence],
    },
    /// Preflight before the first attempt found that no attempt could succeed.
    WillNotFit {
        failure: &'a Failure,
        why: &'a str,
    },
    Replay {
        by_person: bool,
        force: bool,
    },
    Cancel,
    /// Refused past `max_replays`: parked until somebody forces it.
    Park,
    /// A person asks for a decision, on the replay proposed or on the run as it is.
    Review(Review),
    /// `plan_hash`: of the plan that the approver saw. The review names the current plan.
    Approve {
        plan_hash: &'a str,
    },
    Reject,
    ReviewExpired,
    Defer {
        until: Timestamp,
    },
    /// Another agent or queue; the state stays. `severity`: the run's own.
    Reassign {
        severity: Severity,
    },
    /// Assigned to a person or team; the state stays.
    Assign,
    Hold {
        by: Label,
    },
    /// Its holder releases it; `due` differs between runs, so that they do not all become due at once.
    Unhold {
        due: Timestamp,
    },
    Merge {
        into: RunId,
    },
    Unmerge,
    Resolve,
    Discard,
}

words! {
    /// The events by name, as history and docs write them.
    pub enum EventName {
        Begin = "begin",
        Heartbeat = "heartbeat",
        Progress = "progress",
        Succeed = "succeed",
        Fail = "fail",
        Release = "release",
        LeaseRanOut = "lease_ran_out",
        IdleTooLong = "idle_too_long",
        DeadlinePassed = "deadline_passed",
        Unclaimed = "unclaimed",
        WillNotFit = "will_not_fit",
        Replay = "replay",
        Cancel = "cancel",
        Park = "park",
        Review = "review",
        Approve = "approve",
        Reject = "reject",
        ReviewExpired = "review_expired",
        Defer = "defer",
        Reassign = "reassign",
        Assign = "assign",
        Hold = "hold",
        Unhold = "unhold",
        Merge = "merge",
        Unmerge = "unmerge",
        Resolve = "resolve",
        Discard = "discard",
    }
}

impl Event<'_> {
    /// Whether a person has decided about the run. What was planned before then must not overrule it.
    pub fn is_decision(&self) -> bool {
        match self {
            Self::Replay { by_person, .. } => *by_person,
            Self::Cancel
            | Self::Review(_)
            | Self::Approve { .. }
            | Self::Reject
            | Self::Defer { .. }
            | Self::Reassign { .. }
            | Self::Assign
            | Self::Merge { .. }
            | Self::Unmerge
            | Self::Resolve
            | Self::Discard => true,
            Self::Begin(_)
            | Self::Heartbeat
            | Self::Progress
            | Self::Succeed { .. }
            | Self::Fail { .. }
            | Self::Release { .. }
            | Self::LeaseRanOut { .. }
            | Self::IdleTooLong { .. }
            | Self::DeadlinePassed { .. }
            | Self::Unclaimed { .. }
            | Self::WillNotFit { .. }
            | Self::Park
            | Self::ReviewExpired
            | Self::Hold { .. }
            | Self::Unhold { .. } => false,
        }
    }

    pub fn name(&self) -> EventName {
        match self {
            Self::Begin(_) => EventName::Begin,
            Self::Heartbeat => EventName::Heartbeat,
            Self::Progress => EventName::Progress,
            Self::Succeed { .. } => EventName::Succeed,
            Self::Fail { .. } => EventName::Fail,
            Self::Release { .. } => EventName::Release,
            Self::LeaseRanOut { .. } => EventName::LeaseRanOut,
            Self::IdleTooLong { .. } => EventName::IdleTooLong,
            Self::DeadlinePassed { .. } => EventName::DeadlinePassed,
            Self::Unclaimed { .. } => EventName::Unclaimed,
            Self::WillNotFit { .. } => EventName::WillNotFit,
            Self::Replay { .. } => EventName::Replay,
            Self::Cancel => EventName::Cancel,
            Self::Park => EventName::Park,
            Self::Review(_) => EventName::Review,
            Self::Approve { .. } => EventName::Approve,
            Self::Reject => EventName::Reject,
            Self::ReviewExpired => EventName::ReviewExpired,
            Self::Defer { .. } => EventName::Defer,
            Self::Reassign { .. } => EventName::Reassign,
            Self::Assign => EventName::Assign,
            Self::Hold { .. } => EventName::Hold,
            Self::Unhold { .. } => EventName::Unhold,
            Self::Merge { .. } => EventName::Merge,
            Self::Unmerge => EventName::Unmerge,
            Self::Resolve => EventName::Resolve,
            Self::Discard => EventName::Discard,
        }
    }
}

/// The terms under which an attempt begins.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Begin {
    pub lease_ms: u64,
    pub idle_ms: Option<u64>,
    pub deadline_ms: Option<u64>,
    /// The caller retries on its own schedule: our due time and holds are advice.
    pub by_caller: bool,
}

words! {
    /// How an attempt ended.
    pub enum Outcome {
        Succeeded = "succeeded",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

/// What the store has to do besides storing the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Store the attempt's record.
    AttemptEnded { attempt: u32, outcome: Outcome },
    /// Ledger entries left open by the attempt have no known outcome.
    DoubtOpenEffects,
    /// A worker may be waiting for this.
    Wake,
}

/// A run after a transition.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    pub run: Run,
    pub effects: Vec<Effect>,
    /// The decision, if the event was a failure.
    pub verdict: Option<Verdict>,
}

impl Moved {
    pub(super) fn plain(run: Run) -> Self {
        Self { run, effects: Vec::new(), verdict: None }
    }

    pub(super) fn with(run: Run, effects: Vec<Effect>) -> Self {
        Self { run, effects, verdict: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("an attempt is under way")]
    InFlight,
    #[error("no attempt is under way")]
    NotRunning,
    #[error("the next attempt is not due yet")]
    NotDue,
    #[error("held by {0}")]
    Held(String),
    #[error("the run is dead-lettered: a person decides what happens next")]
    DeadLettered,
    #[error("the run is {0}: only force, with a reason, opens it again")]
    Closed(StateName),
    #[error("the run was merged into {0}: act on that one")]
    MergedInto(RunId),
    #[error("an effect of this run has no known outcome: reconcile it first, or force with a reason")]
    EffectUnknown,
    #[error("an effect of this run is done and the run can't resume: only force, with a reason, repeats it")]
    Unsafe,
    #[error("the run has been replayed {0} times: only force, with a reason, replays it again")]
    ReplaysUsed(u32),
    #[error("the run has had {0} attempts and can have no more")]
    TooManyAttempts(u32),
    #[error("the payload has had {0} revisions and can have no more")]
    TooManyRevisions(u32),
    #[error("the queue wants an approval first: replay it there instead, which asks for one")]
    ApprovalNeeded,
    #[error("the payload was too large to send and is not here: nothing can be replayed")]
    NotReplayable,
    #[error("the plan is not the one that was looked at")]
    PlanChanged,
    #[error("the request for approval has lapsed: ask again")]
    ReviewExpired,
    #[error("a run that is {0} does not take this")]
    WrongState(StateName),
}

impl Refused {
    pub fn code(&self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::NotRunning => "not_running",
            Self::NotDue => "not_due",
            Self::Held(_) => "held",
            Self::DeadLettered => "dead_lettered",
            Self::Closed(_) => "closed",
            Self::MergedInto(_) => "merged",
            Self::EffectUnknown => "effect_unknown",
            Self::Unsafe => "unsafe",
            Self::ReplaysUsed(_) => "replays_used",
            Self::TooManyAttempts(_) => "too_many_attempts",
            Self::TooManyRevisions(_) => "too_many_revisions",
            Self::ApprovalNeeded => "approval_needed",
            Self::NotReplayable => "not_replayable",
            Self::PlanChanged => "plan_changed",
            Self::ReviewExpired => "review_expired",
            Self::WrongState(_) => "wrong_state",
        }
    }
}
