//! The effect ledger's transition table: `(entry, report, origin) → recorded | refused`. An intent is recorded before its
//! effect, one run owns a key, a done step stays done, and an effect with no known outcome is in doubt until somebody
//! settles it. Stores only ask.

#[cfg(test)]
mod tests;
mod unnamed;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::Effects;
use crate::text::Label;
use crate::wire::{EffectOutcome, StepStatus, Versions};
use crate::words::words;

pub use unnamed::{
    Unnamed, free_ordinal, is_of_name, may_be_given, ordinal, ordinal_of_key, unnamed_key, unnamed_stem,
};

/// The most entries of one run: a worker gets all of them with its lease.
pub const RUN_STEPS_MAX: usize = 10_000;

/// The state of an entry: its status, and with `reconciled` the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryState {
    Started,
    Committed,
    Failed,
    Unknown,
    Reconciled(EffectOutcome),
}

/// What is known of an entry: replays, guards and plans depend on nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Under way.
    Open,
    /// It happened: its output comes back, the work is skipped.
    Done,
    /// It did not happen: it may be started again.
    NotDone,
    /// The outcome is unknown.
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
    /// From a stored status and outcome; none if they don't belong together.
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

    /// The state that a worker's report gives an entry.
    fn told(outcome: EffectOutcome) -> Self {
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

    /// Whether the entry holds its effect's key; one that did not happen releases it.
    pub fn holds(self) -> bool {
        match self.known() {
            Known::Open | Known::Done | Known::InDoubt => true,
            Known::NotDone => false,
        }
    }

    /// What a replay would do with it.
    pub fn will(self) -> Will {
        match self.known() {
            Known::Done => Will::Skip,
            Known::Open | Known::NotDone => Will::Run,
            Known::InDoubt => Will::Unknown,
        }
    }
}

/// An entry as the transition table sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub state: EntryState,
    pub effect: bool,
    /// Of the lease under which it was begun; 0 when it was reported without one.
    pub epoch: u64,
    /// It belongs to the reporting run; otherwise another run holds the key.
    pub own: bool,
    pub call: CallMatch,
    /// The entry is a plain step, and the report calls it an effect.
    pub becomes_effect: bool,
}

/// Which call reports, by its `call_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMatch {
    /// The one that began the entry.
    Same,
    Other,
    /// It gives no `call_id`.
    Unnamed,
}

/// Updates a run's counts for a change of one of its entries; `before` is none for a new one.
pub fn recount(effects: &mut Effects, before: Option<(bool, EntryState)>, after: (bool, EntryState)) {
    if let Some(before) = before {
        uncount(effects, before);
    }
    if let Some(slot) = slot(effects, after) {
        *slot += 1;
    }
}

/// Reverses the count of a removed entry.
pub fn uncount(effects: &mut Effects, before: (bool, EntryState)) {
    if let Some(slot) = slot(effects, before) {
        *slot = slot.saturating_sub(1);
    }
}

/// Counts an entry beyond [`RUN_STEPS_MAX`]. It may have happened and is not on record, so it can be neither skipped nor
/// reconciled: it counts as unknown.
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

/// A worker's report on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryReport {
    /// The intent: on disk before the effect may begin.
    Started,
    /// `committed`, or `failed`, which asserts that nothing happened.
    Outcome(EffectOutcome),
    /// The same, found by the step's declared check: it also settles what an earlier attempt left unknown.
    Checked(EffectOutcome),
}

impl EntryReport {
    /// From the wire; none for a status that only the server sets.
    pub fn of(status: StepStatus, checked: bool) -> Option<Self> {
        let outcome = |outcome| if checked { Self::Checked(outcome) } else { Self::Outcome(outcome) };
        match status {
            StepStatus::Started => Some(Self::Started),
            StepStatus::Committed => Some(outcome(EffectOutcome::Committed)),
            StepStatus::Failed => Some(outcome(EffectOutcome::NotDone)),
            StepStatus::Unknown | StepStatus::Reconciled => None,
        }
    }
}

/// The origin of a report; the epoch is 0 without a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Under a live lease, step by step: the worker waits for the answer.
    Live { epoch: u64 },
    /// With the end of its attempt: it can't be refused any more.
    End { epoch: u64 },
    /// After its lease has ended.
    Late { epoch: u64 },
}

/// The result of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// The entry, new or not, is now in this state.
    Now(EntryState),
    /// Nothing changes: it was done before, and its output is returned.
    Replayed,
    /// Nothing changes: it is in that state already, or the report does not settle it.
    Same,
    /// Another run holds the key. The report is recorded for this run, so that its guard knows.
    Beside(EntryState),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryRefused {
    #[error("the same effect is under way")]
    InProgress,
    #[error("an effect of this key was started and has no known outcome")]
    InDoubt,
    /// Its worker may still be working on it.
    #[error("the effect's attempt is under way: its worker has the first word")]
    StillOpen,
    #[error("the effect's outcome is known: it is {0}")]
    Settled(StepStatus),
    /// The lease that reports is not the one that began it, or adds nothing.
    #[error("another lease began this entry")]
    Fenced,
}

/// Applies a worker's report to an entry, or refuses it.
pub fn apply(entry: Option<&Entry>, report: EntryReport, by: By) -> Result<Recorded, EntryRefused> {
    let Some(entry) = entry else { return first(report, by) };
    match by {
        By::Live { epoch } if entry.own => live(entry, report, epoch),
        By::Live { .. } => of_another(entry, report),
        By::End { epoch } if entry.own => Ok(live(entry, report, epoch).unwrap_or(Recorded::Same)),
        By::End { .. } => Ok(told_of_another(entry, report)),
        By::Late { epoch } if entry.own && entry.epoch == epoch => late(entry, report),
        By::Late { .. } => Err(EntryRefused::Fenced),
    }
}

fn first(report: EntryReport, by: By) -> Result<Recorded, EntryRefused> {
    match (by, report) {
        // A lease that is over begins nothing.
        (By::Late { .. }, _) => Err(EntryRefused::Fenced),
        (By::Live { .. } | By::End { .. }, EntryReport::Started) => Ok(Recorded::Now(EntryState::Started)),
        (By::Live { .. } | By::End { .. }, EntryReport::Outcome(outcome) | EntryReport::Checked(outcome)) => {
            Ok(Recorded::Now(EntryState::told(outcome)))
        }
    }
}

/// An entry of the run itself, under its live lease.
fn live(entry: &Entry, report: EntryReport, epoch: u64) -> Result<Recorded, EntryRefused> {
    use EffectOutcome::{Committed, NotDone};
    let same_lease = entry.epoch == epoch;
    match (entry.state.known(), report) {
        // A plain step was done under this key, and now an effect too: from here on the entry stands for the effect.
        (Known::Done, EntryReport::Outcome(Committed) | EntryReport::Checked(Committed)) if entry.becomes_effect => {
            Ok(Recorded::Now(EntryState::Committed))
        }
        // A second report on a done entry changes nothing.
        (Known::Done, EntryReport::Started | EntryReport::Outcome(_) | EntryReport::Checked(_)) => {
            Ok(Recorded::Replayed)
        }
        // Only the call that began an effect may go on with it: another call under the same lease would do it twice.
        (Known::Open, EntryReport::Started) if same_lease && entry.effect && entry.call == CallMatch::Same => {
            Ok(Recorded::Same)
        }
        (Known::Open, EntryReport::Started) if same_lease && entry.effect => Err(EntryRefused::InProgress),
        (Known::Open, EntryReport::Started) if same_lease && !entry.becomes_effect => Ok(Recorded::Same),
        // A plain step of an ended attempt starts again, and so does one that is now called an effect. An effect would
        // be in doubt by now.
        (Known::Open, EntryReport::Started) if !entry.effect => Ok(Recorded::Now(EntryState::Started)),
        (Known::Open | Known::InDoubt, EntryReport::Started) => Err(EntryRefused::InDoubt),
        // Another call's failure does not tell whether the call that began the effect succeeded.
        (Known::Open, EntryReport::Outcome(NotDone) | EntryReport::Checked(NotDone))
            if same_lease && entry.effect && entry.call == CallMatch::Other =>
        {
            Err(EntryRefused::InProgress)
        }
        (Known::Open, EntryReport::Outcome(outcome) | EntryReport::Checked(outcome)) => {
            Ok(Recorded::Now(EntryState::told(outcome)))
        }
        (Known::NotDone, EntryReport::Started) => Ok(Recorded::Now(EntryState::Started)),
        (Known::NotDone, EntryReport::Outcome(Committed) | EntryReport::Checked(Committed)) => {
            Ok(Recorded::Now(EntryState::Committed))
        }
        (Known::NotDone, EntryReport::Outcome(NotDone) | EntryReport::Checked(NotDone)) => Ok(Recorded::Same),
        (Known::InDoubt, EntryReport::Checked(outcome)) => Ok(Recorded::Now(EntryState::Reconciled(outcome))),
        // A report that it is done settles the doubt on the safe side.
        (Known::InDoubt, EntryReport::Outcome(Committed)) => Ok(Recorded::Now(EntryState::Committed)),
        (Known::InDoubt, EntryReport::Outcome(NotDone)) if same_lease && entry.call != CallMatch::Other => {
            Ok(Recorded::Now(EntryState::Failed))
        }
        // This attempt's failure does not tell what happened to the one that left the doubt.
        (Known::InDoubt, EntryReport::Outcome(NotDone)) => Err(EntryRefused::InDoubt),
    }
}

/// An effect whose key another run holds.
fn of_another(entry: &Entry, report: EntryReport) -> Result<Recorded, EntryRefused> {
    match entry.state.known() {
        Known::Done => Ok(Recorded::Replayed),
        Known::Open => Err(EntryRefused::InProgress),
        Known::InDoubt => Err(EntryRefused::InDoubt),
        // The key is free again.
        Known::NotDone => first(report, By::Live { epoch: 0 }),
    }
}

fn told_of_another(entry: &Entry, report: EntryReport) -> Recorded {
    match (entry.state.known(), report) {
        (Known::NotDone, EntryReport::Started) => Recorded::Now(EntryState::Started),
        (Known::NotDone, EntryReport::Outcome(outcome) | EntryReport::Checked(outcome)) => {
            Recorded::Now(EntryState::told(outcome))
        }
        (Known::Open | Known::Done | Known::InDoubt, EntryReport::Started) => Recorded::Beside(EntryState::Started),
        (
            Known::Open | Known::Done | Known::InDoubt,
            EntryReport::Outcome(EffectOutcome::Committed) | EntryReport::Checked(EffectOutcome::Committed),
        ) => Recorded::Beside(EntryState::Committed),
        (
            Known::Open | Known::Done | Known::InDoubt,
            EntryReport::Outcome(EffectOutcome::NotDone) | EntryReport::Checked(EffectOutcome::NotDone),
        ) => Recorded::Same,
    }
}

/// A report by the lease that began the entry, after that lease has ended: it settles a doubt. It starts nothing and never
/// undoes what is known to be done.
fn late(entry: &Entry, report: EntryReport) -> Result<Recorded, EntryRefused> {
    use EffectOutcome::{Committed, NotDone};
    match (entry.state.known(), report) {
        (Known::Open | Known::Done | Known::NotDone | Known::InDoubt, EntryReport::Started) => {
            Err(EntryRefused::Fenced)
        }
        // Another call than the one that began it can't say that nothing happened.
        (Known::Open | Known::InDoubt, EntryReport::Outcome(NotDone) | EntryReport::Checked(NotDone))
            if entry.effect && entry.call == CallMatch::Other =>
        {
            Err(EntryRefused::Fenced)
        }
        (Known::Open | Known::InDoubt, EntryReport::Outcome(outcome) | EntryReport::Checked(outcome)) => {
            Ok(Recorded::Now(EntryState::told(outcome)))
        }
        // A person reconciled it as not done; the worker that did it knows better.
        (Known::NotDone, EntryReport::Outcome(Committed) | EntryReport::Checked(Committed)) => {
            Ok(Recorded::Now(EntryState::Committed))
        }
        (Known::NotDone, EntryReport::Outcome(NotDone) | EntryReport::Checked(NotDone))
        | (Known::Done, EntryReport::Outcome(Committed) | EntryReport::Checked(Committed)) => Ok(Recorded::Same),
        (Known::Done, EntryReport::Outcome(NotDone) | EntryReport::Checked(NotDone)) => Err(EntryRefused::Fenced),
    }
}

/// A person settles what is in doubt.
pub fn reconcile(state: EntryState, outcome: EffectOutcome) -> Result<Recorded, EntryRefused> {
    match state {
        EntryState::Unknown => Ok(Recorded::Now(EntryState::Reconciled(outcome))),
        EntryState::Reconciled(before) if before == outcome => Ok(Recorded::Same),
        EntryState::Started => Err(EntryRefused::StillOpen),
        EntryState::Committed | EntryState::Failed | EntryState::Reconciled(_) => {
            Err(EntryRefused::Settled(state.status()))
        }
    }
}

/// A kind of version (prompt, tool, worker) that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct VersionChange {
    pub kind: String,
    /// Under which a step that would be skipped was recorded.
    pub recorded: Label,
    pub now: Label,
}

/// Each change once. A kind that either side does not name tells nothing.
pub fn versions_changed<'a>(recorded: impl IntoIterator<Item = &'a Versions>, now: &Versions) -> Vec<VersionChange> {
    let mut changes: Vec<VersionChange> = recorded
        .into_iter()
        .flatten()
        .filter_map(|(kind, recorded)| {
            let now = now.get(kind).filter(|now| *now != recorded)?;
            Some(VersionChange { kind: kind.clone(), recorded: recorded.clone(), now: now.clone() })
        })
        .collect();
    changes.sort();
    changes.dedup();
    changes
}
