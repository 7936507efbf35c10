//! The part of a run's state that nothing searches, stored as JSON in `runs.life`. Defaults are left out, so a plain dead
//! letter costs few bytes.

use redrive_core::ids::{QueueName, RunId};
use redrive_core::money::{Spend, Usd};
use redrive_core::reason::Reason;
use redrive_core::run::{
    Around, BeforeMerge, Closed, Due, Effects, Ended, FailureMemory, Lease, LeftQueues, Merged, Review, Run, Scheduled,
    State, StateName,
};
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::verdict::{Change, DeadBecause, Target};
use redrive_core::wire::Versions;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::KeyMark;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The stored document. Every run row has one, so its names are short on disk: a dead letter takes 46 bytes instead of 71,
/// the runs of the store's test fixture 80 instead of 121 on average.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    #[serde(default, skip_serializing_if = "is_default", rename = "e")]
    pub epoch: u64,
    #[serde(default, skip_serializing_if = "is_default", rename = "ea")]
    pub epoch_attempt: u32,
    #[serde(default, skip_serializing_if = "is_default", rename = "en")]
    pub ended: Option<Ended>,
    #[serde(default, skip_serializing_if = "is_default", rename = "f")]
    pub has_failed: bool,
    #[serde(default, skip_serializing_if = "is_default", rename = "b")]
    pub budget_from: u32,
    #[serde(default, skip_serializing_if = "is_default", rename = "r")]
    pub releases_in_row: u32,
    #[serde(default, skip_serializing_if = "is_default", rename = "rs")]
    pub resumable: bool,
    #[serde(default, skip_serializing_if = "is_default", rename = "np")]
    pub not_replayable: bool,
    #[serde(default, skip_serializing_if = "is_default", rename = "fx")]
    pub effects: (u32, u32, u32),
    #[serde(default, skip_serializing_if = "is_default", rename = "s")]
    pub streak: Option<(u64, u32)>,
    #[serde(default, skip_serializing_if = "is_default", rename = "si")]
    pub silent_in_row: u32,
    #[serde(default, skip_serializing_if = "is_default", rename = "t")]
    pub retries: Vec<(Reason, u32)>,
    #[serde(default, skip_serializing_if = "is_default", rename = "td")]
    pub tried: Vec<u64>,
    /// Tokens and micro-dollars of its retries.
    #[serde(default, skip_serializing_if = "is_default", rename = "sp")]
    pub spent: (u64, u64),
    #[serde(default, skip_serializing_if = "is_default", rename = "ro")]
    pub refused: Option<(u64, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "c")]
    pub changes: Vec<Change>,
    #[serde(default, skip_serializing_if = "is_default", rename = "tg")]
    pub target: Target,
    #[serde(default, skip_serializing_if = "is_default", rename = "im")]
    pub idle_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default", rename = "dm")]
    pub deadline_ms: Option<u64>,
    /// Scheduled or running: its next or current attempt is a replay.
    #[serde(default, skip_serializing_if = "is_default", rename = "rp")]
    pub replay: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "l")]
    pub lease: Option<LeaseDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "rv")]
    pub review: Option<ReviewDocument>,
    /// Merged while scheduled: when it was due.
    #[serde(default, skip_serializing_if = "is_default", rename = "md")]
    pub due_before_merge: Timestamp,
    /// Merged while dead: why it was dead.
    #[serde(default, skip_serializing_if = "is_default", rename = "m")]
    pub before_merge: Option<DeadBecause>,
    /// Merged while closed: how it was closed.
    #[serde(default, skip_serializing_if = "is_default", rename = "mc")]
    pub closed_before_merge: Option<Closed>,
    /// Queues that it left since its last attempt began.
    #[serde(default, skip_serializing_if = "is_default", rename = "lq")]
    pub left_queues: Vec<QueueName>,
    /// `left_queues` is incomplete.
    #[serde(default, skip_serializing_if = "is_default", rename = "lm")]
    pub left_more: bool,
    #[serde(default, skip_serializing_if = "is_default", rename = "dn")]
    pub decisions: u32,
    #[serde(default, skip_serializing_if = "is_default", rename = "us")]
    pub was_unsafe: bool,
    /// Running: the worker.
    #[serde(default, skip_serializing_if = "is_default", rename = "w")]
    pub worker: Option<Label>,
    #[serde(default, skip_serializing_if = "is_default", rename = "sid")]
    pub start_id: Option<Label>,
    /// Running: id and scope of the lease call.
    #[serde(default, skip_serializing_if = "is_default", rename = "lr")]
    pub request: Option<Label>,
    /// Running: the versions that the worker named.
    #[serde(default, skip_serializing_if = "is_default", rename = "v")]
    pub versions: Versions,
    /// Running: the breaker generation in which the attempt began.
    #[serde(default, skip_serializing_if = "is_default", rename = "bg")]
    pub generation: u64,
    /// Size of the payload that the next worker gets.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "pb")]
    pub payload_bytes: Option<usize>,
    /// The worker keys that began or reported it, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "k")]
    pub keys: Vec<KeyMark>,
    /// Total size of its step outputs.
    #[serde(default, skip_serializing_if = "is_default", rename = "sb")]
    pub step_bytes: usize,
    /// Signs its lease tokens; none before its first lease.
    #[serde(default, skip_serializing_if = "is_default", rename = "ls")]
    pub lease_secret: Option<u64>,
    /// Number of its recorded steps.
    #[serde(default, skip_serializing_if = "is_default", rename = "sc")]
    pub step_count: usize,
}

/// The lease of a running run. Few runs are running at a time, so its names are the same on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaseDocument {
    pub expires_at: i64,
    pub lease_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    pub progress_at: i64,
    pub deadline_at: i64,
    pub began_at: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub extended: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub absent_ms: u64,
}

/// The review of a run in that state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewDocument {
    pub proposed: String,
    pub plan_hash: String,
    pub asked_at: i64,
    pub expires_at: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub absent_ms: u64,
    pub before: DeadBecause,
    #[serde(default, skip_serializing_if = "is_default")]
    pub reopens: Option<Closed>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,
}

/// The columns that, with [`RunDocument`], make a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StateColumns {
    pub state: StateName,
    pub detail: i64,
    pub due: Option<Timestamp>,
    pub wake: Option<Timestamp>,
    pub held_by: Option<Label>,
    pub merged_into: Option<RunId>,
    /// Scheduled, but no worker can get its payload.
    pub unleasable: bool,
}

/// `detail` of a scheduled run that is held.
pub const HELD: i64 = 1;

impl StateColumns {
    pub fn of(run: &Run) -> Self {
        let mut columns = Self {
            state: run.state.name(),
            detail: 0,
            due: run.due_at(),
            wake: None,
            held_by: None,
            merged_into: None,
            unleasable: run.state.name() == StateName::Scheduled && !run.replayable,
        };
        match &run.state {
            State::Scheduled(Scheduled { due: Due::Held(by), .. }) => {
                columns.detail = HELD;
                columns.held_by = Some(by.clone());
            }
            State::Running(lease) => columns.wake = Some(lease.wake_at()),
            State::Dead { because } => columns.detail = position(DeadBecause::ALL, because),
            State::Merged(merged) => columns.merged_into = Some(merged.into.clone()),
            State::Scheduled(_)
            | State::Review(_)
            | State::Succeeded
            | State::Recovered
            | State::Resolved
            | State::Discarded => {}
        }
        columns
    }
}

/// The index of an enum value in its list: how columns store enums.
pub fn position<T: PartialEq>(all: &[T], word: &T) -> i64 {
    all.iter().position(|w| w == word).and_then(|n| i64::try_from(n).ok()).unwrap_or(-1)
}

/// The enum value at an index.
pub fn word<T: Copy>(all: &[T], number: i64, what: &str) -> Result<T> {
    let found = usize::try_from(number).ok().and_then(|n| all.get(n)).copied();
    found.ok_or_else(|| Error::Unexpected(format!("{what} {number}")))
}

impl RunDocument {
    pub fn of(run: &Run, worker: Option<Label>, start_id: Option<Label>) -> Self {
        let mut document = Self {
            epoch: run.epoch,
            epoch_attempt: run.epoch_attempt,
            ended: run.ended,
            has_failed: run.has_failed,
            budget_from: run.budget_from,
            releases_in_row: run.releases_in_row,
            resumable: run.resumable,
            not_replayable: !run.replayable,
            effects: (run.effects.open, run.effects.unknown, run.effects.done),
            streak: run.memory.streak,
            silent_in_row: run.memory.silent_in_row,
            retries: run.memory.retries.clone(),
            tried: run.memory.tried.clone(),
            spent: (run.memory.spent.tokens, run.memory.spent.cost.micros()),
            refused: run.memory.refused,
            changes: run.changes.clone(),
            target: run.target.clone(),
            idle_ms: run.idle_ms,
            deadline_ms: run.deadline_ms,
            left_queues: run.left_queues.names.clone(),
            left_more: run.left_queues.more,
            decisions: run.decisions,
            was_unsafe: run.was_unsafe,
            worker,
            start_id,
            ..Self::default()
        };
        match &run.state {
            State::Scheduled(scheduled) => document.replay = scheduled.replay,
            State::Running(lease) => {
                document.replay = lease.replay;
                document.lease = Some(LeaseDocument::of(lease));
            }
            State::Review(review) => document.review = Some(ReviewDocument::of(review)),
            State::Merged(Merged { before: BeforeMerge::Dead(because), .. }) => document.before_merge = Some(*because),
            State::Merged(Merged { before: BeforeMerge::Closed(closed), .. }) => {
                document.closed_before_merge = Some(*closed);
            }
            State::Merged(Merged { before: BeforeMerge::Scheduled { due }, .. }) => document.due_before_merge = *due,
            State::Dead { .. } | State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {}
        }
        document
    }

    fn state(&self, columns: &StateColumns) -> Result<State> {
        let missing = |what: &str| Error::Unexpected(format!("a {} run without its {what}", columns.state));
        Ok(match columns.state {
            StateName::Scheduled => {
                let due = match (columns.due, &columns.held_by) {
                    (Some(due), _) => Due::At(due),
                    (None, Some(by)) => Due::Held(by.clone()),
                    (None, None) => return Err(missing("due time")),
                };
                State::Scheduled(Scheduled { due, replay: self.replay })
            }
            StateName::Running => {
                State::Running(self.lease.as_ref().ok_or_else(|| missing("lease"))?.to_lease(self.replay))
            }
            StateName::Dead => State::Dead { because: word(DeadBecause::ALL, columns.detail, "dead_because")? },
            StateName::Review => State::Review(self.review.as_ref().ok_or_else(|| missing("review"))?.to_review()),
            StateName::Succeeded => State::Succeeded,
            StateName::Recovered => State::Recovered,
            StateName::Resolved => State::Resolved,
            StateName::Discarded => State::Discarded,
            StateName::Merged => State::Merged(Merged {
                into: columns.merged_into.clone().ok_or_else(|| missing("target"))?,
                before: match (self.closed_before_merge, self.before_merge) {
                    (Some(closed), _) => BeforeMerge::Closed(closed),
                    (None, Some(because)) => BeforeMerge::Dead(because),
                    (None, None) => BeforeMerge::Scheduled { due: self.due_before_merge },
                },
            }),
        })
    }

    /// The run as `core` sees it.
    pub fn to_run(
        &self,
        columns: &StateColumns,
        attempt: u32,
        revision: u32,
        replays: u32,
        deferred_until: Option<Timestamp>,
    ) -> Result<Run> {
        let (open, unknown, done) = self.effects;
        Ok(Run {
            state: self.state(columns)?,
            attempt,
            revision,
            epoch: self.epoch,
            epoch_attempt: self.epoch_attempt,
            ended: self.ended,
            has_failed: self.has_failed,
            budget_from: self.budget_from,
            replays,
            releases_in_row: self.releases_in_row,
            resumable: self.resumable,
            replayable: !self.not_replayable,
            effects: Effects { open, unknown, done },
            memory: FailureMemory {
                streak: self.streak,
                silent_in_row: self.silent_in_row,
                retries: self.retries.clone(),
                tried: self.tried.clone(),
                spent: Spend { tokens: self.spent.0, cost: Usd::from_micros(self.spent.1) },
                refused: self.refused,
            },
            changes: self.changes.clone(),
            target: self.target.clone(),
            around: Around::default(),
            deferred_until,
            left_queues: LeftQueues { names: self.left_queues.clone(), more: self.left_more },
            decisions: self.decisions,
            was_unsafe: self.was_unsafe,
            idle_ms: self.idle_ms,
            deadline_ms: self.deadline_ms,
        })
    }
}

impl LeaseDocument {
    fn of(lease: &Lease) -> Self {
        Self {
            expires_at: lease.expires_at.as_millis(),
            lease_ms: lease.lease_ms,
            idle_ms: lease.idle_ms,
            progress_at: lease.progress_at.as_millis(),
            deadline_at: lease.deadline_at.as_millis(),
            began_at: lease.began_at.as_millis(),
            extended: lease.extended,
            absent_ms: lease.absent_ms,
        }
    }

    fn to_lease(&self, replay: bool) -> Lease {
        Lease {
            expires_at: Timestamp::from_millis(self.expires_at),
            lease_ms: self.lease_ms,
            idle_ms: self.idle_ms,
            progress_at: Timestamp::from_millis(self.progress_at),
            deadline_at: Timestamp::from_millis(self.deadline_at),
            began_at: Timestamp::from_millis(self.began_at),
            extended: self.extended,
            absent_ms: self.absent_ms,
            replay,
        }
    }
}

impl ReviewDocument {
    fn of(review: &Review) -> Self {
        Self {
            proposed: review.proposed.clone(),
            plan_hash: review.plan_hash.clone(),
            asked_at: review.asked_at.as_millis(),
            expires_at: review.expires_at.as_millis(),
            absent_ms: review.absent_ms,
            before: review.before,
            reopens: review.reopens,
            force: review.force,
        }
    }

    fn to_review(&self) -> Review {
        Review {
            proposed: self.proposed.clone(),
            plan_hash: self.plan_hash.clone(),
            asked_at: Timestamp::from_millis(self.asked_at),
            expires_at: Timestamp::from_millis(self.expires_at),
            absent_ms: self.absent_ms,
            before: self.before,
            reopens: self.reopens,
            force: self.force,
        }
    }
}
