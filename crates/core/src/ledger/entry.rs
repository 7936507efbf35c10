//! An entry, and what is known by it.

use crate::run::Effects;
use crate::wire::{EffectOutcome, StepStatus};
use crate::words::words;

/// How an entry stands: its status, and with `reconciled` what it was reconciled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    Started,
    Committed,
    Failed,
    Unknown,
    Reconciled(EffectOutcome),
}

/// What an entry tells: all that replays, guards and plans go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Somebody is at it.
    Open,
    /// It happened: its output comes back, the work is skipped.
    Done,
    /// Nothing happened: it may be begun anew.
    NotDone,
    /// Nobody can vouch for either.
    InDoubt,
}

words! {
    /// What a replay will do about a step.
    pub enum Will {
        Skip = "skip",
        Run = "run",
        Unknown = "unknown",
    }
}

impl EntryState {
    /// A status and an outcome as they are kept; none when the two don't belong together.
    pub fn of(status: StepStatus, outcome: Option<EffectOutcome>) -> Option<Self> {
        match (status, outcome) {
            (StepStatus::Started, None) => Some(Self::Started),
            (StepStatus::Committed, None) => Some(Self::Committed),
            (StepStatus::Failed, None) => Some(Self::Failed),
            (StepStatus::Unknown, None) => Some(Self::Unknown),
            (StepStatus::Reconciled, Some(outcome)) => Some(Self::Reconciled(outcome)),
            (StepStatus::Started | StepStatus::Committed | StepStatus::Failed | StepStatus::Unknown, Some(_))
            | (StepStatus::Reconciled, None) => None,
        }
    }

    /// What a worker's plain word makes of an entry.
    pub(super) fn told(outcome: EffectOutcome) -> Self {
        match outcome {
            EffectOutcome::Committed => Self::Committed,
            EffectOutcome::NotDone => Self::Failed,
        }
    }

    pub fn status(self) -> StepStatus {
        match self {
            Self::Started => StepStatus::Started,
            Self::Committed => StepStatus::Committed,
            Self::Failed => StepStatus::Failed,
            Self::Unknown => StepStatus::Unknown,
            Self::Reconciled(_) => StepStatus::Reconciled,
        }
    }

    pub fn outcome(self) -> Option<EffectOutcome> {
        match self {
            Self::Reconciled(outcome) => Some(outcome),
            Self::Started | Self::Committed | Self::Failed | Self::Unknown => None,
        }
    }

    pub fn known(self) -> Known {
        match self {
            Self::Started => Known::Open,
            Self::Committed | Self::Reconciled(EffectOutcome::Committed) => Known::Done,
            Self::Failed | Self::Reconciled(EffectOutcome::NotDone) => Known::NotDone,
            Self::Unknown => Known::InDoubt,
        }
    }

    /// Whether the entry keeps its effect's key to itself: nothing happened frees it for whoever comes next.
    pub fn holds(self) -> bool {
        match self.known() {
            Known::Open | Known::Done | Known::InDoubt => true,
            Known::NotDone => false,
        }
    }

    /// What a replay would do about it.
    pub fn will(self) -> Will {
        match self.known() {
            Known::Done => Will::Skip,
            Known::Open | Known::NotDone => Will::Run,
            Known::InDoubt => Will::Unknown,
        }
    }
}

/// An entry as its moves see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub state: EntryState,
    pub effect: bool,
    /// Of the lease under which it was begun; 0 when it was reported without one.
    pub epoch: u64,
    /// It belongs to the run that reports; otherwise another run holds the key.
    pub own: bool,
    pub call: Call,
    /// The entry is a plain step, and whoever reports calls it an effect.
    pub becomes_effect: bool,
}

/// Which call reports, by its `call_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The one that began the entry.
    Same,
    Other,
    /// It gives no `call_id`.
    Unnamed,
}

/// Keeps a run's counts in step with an entry of its own; `before` is none for a new one.
pub fn recount(effects: &mut Effects, before: Option<(bool, EntryState)>, after: (bool, EntryState)) {
    if let Some(before) = before {
        uncount(effects, before);
    }
    if let Some(slot) = slot(effects, after) {
        *slot += 1;
    }
}

/// Of an entry that is taken away.
pub fn uncount(effects: &mut Effects, before: (bool, EntryState)) {
    if let Some(slot) = slot(effects, before) {
        *slot = slot.saturating_sub(1);
    }
}

/// Counts an entry that a run has no room for. What may have happened and is not on record can neither be skipped nor
/// reconciled: it is in doubt.
pub fn count_unrecorded(effects: &mut Effects, (effect, state): (bool, EntryState)) {
    match state.known() {
        Known::NotDone => {}
        Known::Open | Known::InDoubt | Known::Done => recount(effects, None, (effect, EntryState::Unknown)),
    }
}

fn slot(effects: &mut Effects, (effect, state): (bool, EntryState)) -> Option<&mut u32> {
    match state.known() {
        Known::Open if effect => Some(&mut effects.open),
        Known::InDoubt if effect => Some(&mut effects.unknown),
        Known::Done if effect => Some(&mut effects.done),
        Known::Open | Known::InDoubt | Known::Done | Known::NotDone => None,
    }
}
