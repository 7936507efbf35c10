//! What only the transition table reads of a run, as one small JSON column: it travels with the row and is never
//! searched. Defaults are left out, so that a plain dead letter costs a few bytes.

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

/// A run's inner life. Field names are short because every row carries them.
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
    /// Tokens and micro-dollars.
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
    /// Scheduled or running: the attempt is a replay.
    #[serde(default, skip_serializing_if = "is_default", rename = "rp")]
    pub replay: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "l")]
    pub lease: Option<LeaseDocument>,
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "rv")]
    pub review: Option<ReviewDocument>,
    /// Merged: when it would have been due, had it been scheduled before.
    #[serde(default, skip_serializing_if = "is_default", rename = "md")]
    pub due_before_merge: Timestamp,
    /// Merged: what it was dead for before; none when it was scheduled or closed.
    #[serde(default, skip_serializing_if = "is_default", rename = "m")]
    pub before_merge: Option<DeadBecause>,
    /// Merged: how it was closed before.
    #[serde(default, skip_serializing_if = "is_default", rename = "mc")]
    pub closed_before_merge: Option<Closed>,
    /// Queues left since its last attempt began.
    #[serde(default, skip_serializing_if = "is_default", rename = "lq")]
    pub left_queues: Vec<QueueName>,
    /// There were more of them.
    #[serde(default, skip_serializing_if = "is_default", rename = "lm")]
    pub left_more: bool,
    #[serde(default, skip_serializing_if = "is_default", rename = "dn")]
    pub decisions: u32,
    #[serde(default, skip_serializing_if = "is_default", rename = "us")]
    pub was_unsafe: bool,
    /// Who began the attempt under way.
    #[serde(default, skip_serializing_if = "is_default", rename = "w")]
    pub worker: Option<Label>,
    #[serde(default, skip_serializing_if = "is_default", rename = "sid")]
    pub start_id: Option<Label>,
    /// The lease call that handed it out, with its scope.
    #[serde(default, skip_serializing_if = "is_default", rename = "lr")]
    pub request: Option<Label>,
    /// What the attempt under way runs with.
    #[serde(default, skip_serializing_if = "is_default", rename = "v")]
    pub versions: Versions,
    /// When the attempt under way began, as breakers count it.
    #[serde(default, skip_serializing_if = "is_default", rename = "bg")]
    pub generation: u64,
    /// How long the payload is that a worker gets; none in rows from before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "pb")]
    pub payload_bytes: Option<usize>,
    /// The workers' keys that began or reported it, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "k")]
    pub keys: Vec<KeyMark>,
    /// What the outputs of its steps come to.
    #[serde(default, skip_serializing_if = "is_default", rename = "sb")]
    pub step_bytes: usize,
    /// What its leases are proved by; none before its first one.
    #[serde(default, skip_serializing_if = "is_default", rename = "ls")]
    pub lease_secret: Option<u64>,
    /// How many steps it has on record.
    #[serde(default, skip_serializing_if = "is_default", rename = "sc")]
    pub step_count: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeaseDocument {
    pub x: i64,
    pub ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<u64>,
    pub p: i64,
    pub d: i64,
    pub b: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    pub ext: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub absent_ms: u64,
}

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
    /// Scheduled, and no worker can be given its payload.
    pub unleasable: bool,
}

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

/// A word's number in its list: how words lie in columns.
pub fn position<T: PartialEq>(all: &[T], word: &T) -> i64 {
    all.iter().position(|w| w == word).and_then(|n| i64::try_from(n).ok()).unwrap_or(-1)
}

/// The word of a number.
pub fn word<T: Copy>(all: &[T], number: i64, what: &str) -> Result<T> {
    let found = usize::try_from(number).ok().and_then(|n| all.get(n)).copied();
    found.ok_or_else(|| Error::Unexpected(format!("{what} {number}")))
}

impl RunDocument {
    pub fn of(run: &Run, worker: Option<Label>, start_id: Option<Label>) -> Self {
        let mut life = Self {
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
            State::Scheduled(scheduled) => life.replay = scheduled.replay,
            State::Running(lease) => {
                life.replay = lease.replay;
                life.lease = Some(LeaseDocument::of(lease));
            }
            State::Review(review) => life.review = Some(ReviewDocument::of(review)),
            State::Merged(Merged { before: BeforeMerge::Dead(because), .. }) => life.before_merge = Some(*because),
            State::Merged(Merged { before: BeforeMerge::Closed(closed), .. }) => {
                life.closed_before_merge = Some(*closed);
            }
            State::Merged(Merged { before: BeforeMerge::Scheduled { due }, .. }) => life.due_before_merge = *due,
            State::Dead { .. } | State::Succeeded | State::Recovered | State::Resolved | State::Discarded => {}
        }
        life
    }

    /// Rows from before `was_unsafe` was kept say it by what they are dead for alone.
    fn is_dead_unsafe(&self, columns: &StateColumns) -> bool {
        let unsafe_word = Some(DeadBecause::Unsafe);
        let dead =
            columns.state == StateName::Dead && columns.detail == position(DeadBecause::ALL, &DeadBecause::Unsafe);
        dead || self.before_merge == unsafe_word || self.review.as_ref().map(|review| review.before) == unsafe_word
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

    /// The run as the transition table knows it.
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
            was_unsafe: self.was_unsafe || self.is_dead_unsafe(columns),
            idle_ms: self.idle_ms,
            deadline_ms: self.deadline_ms,
        })
    }
}

impl LeaseDocument {
    fn of(lease: &Lease) -> Self {
        Self {
            x: lease.expires_at.as_millis(),
            ms: lease.lease_ms,
            idle: lease.idle_ms,
            p: lease.progress_at.as_millis(),
            d: lease.deadline_at.as_millis(),
            b: lease.began_at.as_millis(),
            ext: lease.extended,
            absent_ms: lease.absent_ms,
        }
    }

    fn to_lease(&self, replay: bool) -> Lease {
        Lease {
            expires_at: Timestamp::from_millis(self.x),
            lease_ms: self.ms,
            idle_ms: self.idle,
            progress_at: Timestamp::from_millis(self.p),
            deadline_at: Timestamp::from_millis(self.d),
            began_at: Timestamp::from_millis(self.b),
            extended: self.ext,
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
