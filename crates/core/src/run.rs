//! A run as the transition table sees it: its state, its counters, its memory of earlier failures. Payload, names and links
//! decide nothing and are not part of it.

use crate::absence::{Absence, Limit};
use crate::ids::{QueueName, RunId};
use crate::money::Spend;
use crate::reason::Reason;
use crate::text::Label;
use crate::time::Timestamp;
use crate::verdict::{Change, DeadBecause, Target};
use crate::words::words;

words! {
    /// The nine states, by name.
    pub enum StateName {
        Scheduled = "scheduled",
        Running = "running",
        Dead = "dead",
        Review = "review",
        Succeeded = "succeeded",
        Recovered = "recovered",
        Resolved = "resolved",
        Discarded = "discarded",
        Merged = "merged",
    }
}

impl StateName {
    /// Closed: nothing more is expected to happen.
    pub fn is_closed(self) -> bool {
        match self {
            Self::Scheduled | Self::Running | Self::Dead | Self::Review => false,
            Self::Succeeded | Self::Recovered | Self::Resolved | Self::Discarded | Self::Merged => true,
        }
    }

    /// Default lists hide a deferred run in this state: it waits for a person, who has put it off.
    pub fn is_hidden_while_deferred(self) -> bool {
        match self {
            Self::Dead | Self::Review => true,
            Self::Scheduled | Self::Running => false,
            Self::Succeeded | Self::Recovered | Self::Resolved | Self::Discarded | Self::Merged => false,
        }
    }
}

/// The highest attempt number. A run that has reached it is neither retried nor replayed.
pub const ATTEMPT_MAX: u32 = 1_000_000;
/// The highest payload revision. A run that has reached it takes no more fixes.
pub const REVISION_MAX: u32 = 1_000_000;

/// The state of a run; each state owns the data that only it needs.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    Scheduled(Scheduled),
    Running(Lease),
    Dead { because: DeadBecause },
    Review(Review),
    Succeeded,
    Recovered,
    Resolved,
    Discarded,
    Merged(Merged),
}

impl State {
    pub fn name(&self) -> StateName {
        match self {
            Self::Scheduled(_) => StateName::Scheduled,
            Self::Running(_) => StateName::Running,
            Self::Dead { .. } => StateName::Dead,
            Self::Review(_) => StateName::Review,
            Self::Succeeded => StateName::Succeeded,
            Self::Recovered => StateName::Recovered,
            Self::Resolved => StateName::Resolved,
            Self::Discarded => StateName::Discarded,
            Self::Merged(_) => StateName::Merged,
        }
    }
}

/// Waiting for its next attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Scheduled {
    pub due: Due,
    /// The next attempt is a replay that somebody asked for.
    pub replay: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Due {
    At(Timestamp),
    /// Not due until the holder releases it.
    Held(Label),
}

/// An attempt under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Lease {
    pub expires_at: Timestamp,
    pub lease_ms: u64,
    pub idle_ms: Option<u64>,
    pub progress_at: Timestamp,
    pub deadline_at: Timestamp,
    pub began_at: Timestamp,
    /// The lease has been extended for server downtime since the last heartbeat.
    pub extended: bool,
    /// How far server downtime has extended the deadline.
    pub absent_ms: u64,
    pub replay: bool,
}

impl Lease {
    /// The same lease with its deadline extended by server downtime. `absences` is newest first.
    #[must_use]
    pub fn attended(&self, now: Timestamp, absences: &[Absence]) -> Self {
        let deadline = Limit { from: self.began_at, at: self.deadline_at, counted_ms: self.absent_ms };
        let Limit { at, counted_ms, .. } = deadline.attended(now, absences);
        Self { deadline_at: at, absent_ms: counted_ms, ..self.clone() }
    }

    /// When this lease has to be checked again.
    pub fn wake_at(&self) -> Timestamp {
        let idle_at = self.idle_ms.map(|ms| self.progress_at.plus_ms(ms));
        self.expires_at.min(self.deadline_at).min(idle_at.unwrap_or(self.deadline_at))
    }
}

/// Waiting for a person's yes or no.
#[derive(Debug, Clone, PartialEq)]
pub struct Review {
    pub proposed: String,
    pub plan_hash: String,
    pub asked_at: Timestamp,
    pub expires_at: Timestamp,
    /// How far server downtime has extended the review.
    pub absent_ms: u64,
    /// Why it was dead before, and is again after a rejection.
    pub before: DeadBecause,
    /// The closed state it returns to unless the reopening is approved.
    pub reopens: Option<Closed>,
    /// The requester may bypass the guards and asked to.
    pub force: bool,
}

impl Review {
    /// The same review with its end extended by server downtime. `absences` is newest first.
    #[must_use]
    pub fn attended(&self, now: Timestamp, absences: &[Absence]) -> Self {
        let end = Limit { from: self.asked_at, at: self.expires_at, counted_ms: self.absent_ms };
        let Limit { at, counted_ms, .. } = end.attended(now, absences);
        Self { expires_at: at, absent_ms: counted_ms, ..self.clone() }
    }
}

words! {
    /// The states that only `force` opens again.
    pub enum Closed {
        Succeeded = "succeeded",
        Recovered = "recovered",
        Resolved = "resolved",
        Discarded = "discarded",
    }
}

impl Closed {
    pub fn name(self) -> StateName {
        State::from(self).name()
    }
}

impl From<Closed> for State {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Succeeded => Self::Succeeded,
            Closed::Recovered => Self::Recovered,
            Closed::Resolved => Self::Resolved,
            Closed::Discarded => Self::Discarded,
        }
    }
}

/// Folded into another run.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub into: RunId,
    pub before: BeforeMerge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeMerge {
    /// After an unmerge it is not due before this.
    Scheduled {
        due: Timestamp,
    },
    Dead(DeadBecause),
    /// Only `force` opens it again, merged or not.
    Closed(Closed),
}

words! {
    /// What ended the last lease; it decides the answer to a late worker.
    pub enum Ended {
        Succeeded = "succeeded",
        Failed = "failed",
        Released = "released",
        /// Silence, idleness or the deadline.
        Expired = "expired",
        Cancelled = "cancelled",
    }
}

/// Effects of a run in the ledger, by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// Started in the attempt under way.
    pub open: u32,
    /// Started, and the attempt ended without an outcome.
    pub unknown: u32,
    pub done: u32,
}

/// What a run remembers of its earlier failures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureMemory {
    /// The last failure's fingerprint, if it was not transient, and how many attempts in a row had it.
    pub streak: Option<(u64, u32)>,
    /// Silent failures in a row since the last human replay.
    pub silent_in_row: u32,
    /// Retries granted per reason since the last human replay.
    pub retries: Vec<(Reason, u32)>,
    /// Changes and targets tried since the last human replay, each by its hash.
    pub tried: Vec<u64>,
    /// What retries have used up since the last human replay.
    pub spent: Spend,
    /// The last output that was refused, by its hash, and on how many attempts in a row.
    pub refused: Option<(u64, u32)>,
}

impl FailureMemory {
    pub fn retries_for(&self, reason: &Reason) -> u32 {
        self.retries.iter().find(|(r, _)| r == reason).map_or(0, |(_, n)| *n)
    }

    pub(crate) fn count_retry(&mut self, reason: &Reason) {
        match self.retries.iter_mut().find(|(r, _)| r == reason) {
            Some((_, n)) => *n += 1,
            None => self.retries.push((reason.clone(), 1)),
        }
    }
}

/// Queues that a run has left since its last attempt began. A replay obeys their rules as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftQueues {
    pub names: Vec<QueueName>,
    /// More queues than are named: the strictest rules apply.
    pub more: bool,
}

impl LeftQueues {
    const NAMED_MAX: usize = 8;

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.more
    }

    fn note(&mut self, queue: &QueueName) {
        if self.names.contains(queue) {
            return;
        }
        if self.names.len() < Self::NAMED_MAX {
            self.names.push(queue.clone());
        } else {
            self.more = true;
        }
    }
}

/// Context of a run for a decision. The store keeps it elsewhere and fills in what the policy needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Around {
    pub queue: Option<QueueName>,
    pub agent: Option<Label>,
    pub model: Option<Label>,
    pub task_type: Option<Label>,
    /// What the tenant's retries have used up today, this attempt not counted.
    pub tenant_spent: Spend,
    /// What holds the run's retries; the first that applies counts.
    pub holds: Vec<Hold>,
}

/// Something that holds retries back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub by: Label,
    /// It applies only while the run uses the same model.
    pub of_model: bool,
}

/// One unit of agent work, as far as decisions need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub state: State,
    /// The last attempt that began or was reported; 0 before the first.
    pub attempt: u32,
    pub revision: u32,
    /// The last lease's epoch; rises with every lease and is never used again.
    pub epoch: u64,
    /// The attempt that the last lease was for.
    pub epoch_attempt: u32,
    pub ended: Option<Ended>,
    pub has_failed: bool,
    /// Attempts up to this number were before the last human replay and do not count against the budget.
    pub budget_from: u32,
    pub replays: u32,
    pub releases_in_row: u32,
    pub resumable: bool,
    /// False when the payload was too large to send: nothing can be leased.
    pub replayable: bool,
    pub effects: Effects,
    pub memory: FailureMemory,
    /// What the next attempt should do differently.
    pub changes: Vec<Change>,
    /// Where the next attempt goes, where it differs from the last one.
    pub target: Target,
    pub around: Around,
    pub deferred_until: Option<Timestamp>,
    pub left_queues: LeftQueues,
    /// How often a person has decided about the run.
    pub decisions: u32,
    /// An attempt ended with an effect in doubt, or done where the run can't resume, and no replay has been made since.
    /// Reconciling the effect does not reset it.
    pub was_unsafe: bool,
    /// The run's own limits, where the producer gave some.
    pub idle_ms: Option<u64>,
    pub deadline_ms: Option<u64>,
}

impl Run {
    /// A new run.
    pub fn new(now: Timestamp) -> Self {
        Self {
            state: State::Scheduled(Scheduled { due: Due::At(now), replay: false }),
            attempt: 0,
            revision: 1,
            epoch: 0,
            epoch_attempt: 0,
            ended: None,
            has_failed: false,
            budget_from: 0,
            replays: 0,
            releases_in_row: 0,
            resumable: false,
            replayable: true,
            effects: Effects::default(),
            memory: FailureMemory::default(),
            changes: Vec::new(),
            target: Target::default(),
            around: Around::default(),
            deferred_until: None,
            left_queues: LeftQueues::default(),
            decisions: 0,
            was_unsafe: false,
            idle_ms: None,
            deadline_ms: None,
        }
    }

    /// Attempts on the present budget.
    pub fn attempts_on_budget(&self) -> u32 {
        self.attempt.saturating_sub(self.budget_from)
    }

    /// Whether the last attempt was a retry that automation made.
    pub fn was_retry(&self) -> bool {
        self.attempts_on_budget() > 1
    }

    /// The lease of the attempt under way.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Running(lease) => Some(lease),
            State::Scheduled(_)
            | State::Dead { .. }
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded
            | State::Merged(_) => None,
        }
    }

    /// Whether the attempt that waits was asked for by a person.
    pub fn is_replay(&self) -> bool {
        match &self.state {
            State::Scheduled(scheduled) => scheduled.replay,
            State::Running(_)
            | State::Dead { .. }
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded
            | State::Merged(_) => false,
        }
    }

    /// Remembers the queue that the run is about to leave until its next attempt begins: a replay before that obeys the
    /// rules of every queue it could have been replayed in.
    pub fn leave_queue(&mut self, queue: &QueueName) {
        match &self.state {
            State::Running(_) => {}
            State::Scheduled(_)
            | State::Dead { .. }
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded
            | State::Merged(_) => self.left_queues.note(queue),
        }
    }

    /// Whether it waits for an attempt that a person's replay granted.
    pub fn waits_after_replay(&self) -> bool {
        matches!(self.state, State::Scheduled(_)) && self.replays > 0
    }

    pub fn due_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::Scheduled(Scheduled { due: Due::At(at), .. }) => Some(*at),
            State::Scheduled(_)
            | State::Running(_)
            | State::Dead { .. }
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded
            | State::Merged(_) => None,
        }
    }
}
