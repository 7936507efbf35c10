//! Actions on a run, prepared by handlers: patches are applied and payloads encoded.

use redrive_core::ids::{QueueName, RunId};
use redrive_core::plan::Proposed;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::verdict::Target;
use redrive_core::wire::StateAnswer;

use crate::model::{Payload, RunRef};

/// A person's action on a run.
#[derive(Debug, Clone)]
pub enum Triage {
    Replay(Box<Replay>),
    Cancel,
    Resolve,
    Discard,
    /// Adds a note to the history.
    Note,
    /// Moves it to review.
    Review,
    Approve {
        plan_hash: Label,
        /// Also a request of the same actor.
        own_too: bool,
    },
    Reject,
    Defer {
        until: Timestamp,
    },
    Reassign {
        agent: Option<Label>,
        queue: Option<QueueName>,
    },
    Assign {
        to: Option<Label>,
    },
    Merge {
        into: RunId,
    },
    Unmerge,
}

impl Triage {
    /// A replay without changes.
    pub fn replay(force: bool) -> Self {
        Self::Replay(Box::new(Replay { force, ..Replay::default() }))
    }
}

/// Another attempt, with changes.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    pub force: bool,
    /// Of the plan that the actor saw.
    pub plan_hash: Option<Label>,
    pub fix: Option<FixedPayload>,
    pub instruction: Option<Text>,
    pub model: Option<Label>,
    pub agent: Option<Label>,
    pub queue: Option<QueueName>,
    pub from_step: Option<Label>,
    /// `ReplayRequest` as JSON, encoded: stored if the replay needs an approval.
    pub request: Vec<u8>,
}

impl Replay {
    pub fn target(&self) -> Target {
        Target { agent: self.agent.clone(), model: self.model.clone(), queue: self.queue.clone() }
    }

    /// The parts that a plan depends on.
    pub fn proposed(&self) -> Proposed {
        Proposed {
            payload: self.fix.as_ref().map(|fix| fix.payload.digest.to_vec()),
            instruction: self.instruction.clone(),
            target: self.target(),
            from_step: self.from_step.clone(),
            force: self.force,
        }
    }
}

/// The payload that results from a fix.
#[derive(Debug, Clone)]
pub struct FixedPayload {
    /// The revision it was made from; it applies to no other.
    pub from_revision: u32,
    pub payload: Payload,
    /// The JSON Patch as sent, encoded; none for a whole payload.
    pub patch: Option<Vec<u8>>,
}

/// An action on a run with its actor and reason.
#[derive(Debug, Clone)]
pub struct TriageAct {
    pub at: RunRef,
    pub triage: Triage,
    pub actor: String,
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Triaged {
    pub answer: StateAnswer,
    pub attempt: u32,
    pub revision: u32,
    /// In review: the plan's hash, and when the review expires.
    pub review: Option<(String, Timestamp)>,
}
