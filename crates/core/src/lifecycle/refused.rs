//! Why a move was refused; each has a stable code on the wire.

use crate::ids::RunId;
use crate::run::StateName;

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
