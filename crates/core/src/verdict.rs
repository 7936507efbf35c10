//! What the engine decided on a failure: data for machines, a sentence for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::QueueName;
use crate::reason::{Category, Reason};
use crate::text::Label;
use crate::time::Timestamp;
use crate::words::words;

words! {
    /// What happens next.
    pub enum Action {
        /// Another attempt is scheduled.
        Retry = "retry",
        /// It would be retried, but something holds it.
        Hold = "hold",
        /// Automation ends here.
        DeadLetter = "dead_letter",
    }
}

words! {
    /// Why automation must not go on alone.
    pub enum DeadBecause {
        /// The budget is used up.
        Exhausted = "exhausted",
        /// A retry can't help.
        Permanent = "permanent",
        /// An effect is done and the run can't resume, or an effect is in doubt.
        Unsafe = "unsafe",
        /// It fails the same way every time, or kills its workers.
        Poison = "poison",
        /// An approval or a deadline passed.
        Expired = "expired",
        /// Nobody takes it.
        Rejected = "rejected",
        /// A person stopped it.
        Manual = "manual",
    }
}

words! {
    /// What a person, or the caller, had best do.
    pub enum RecommendedAction {
        RetryWithBackoff = "retry_with_backoff",
        TruncateAndResubmit = "truncate_and_resubmit",
        EscalateToTenant = "escalate_to_tenant",
        ManualReviewRequired = "manual_review_required",
        FixAndReplay = "fix_and_replay",
        Reassign = "reassign",
        Discard = "discard",
    }
}

/// What the next attempt should do differently. Where the payload's shape is known it is done before the run is handed
/// out; otherwise it is the worker's to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// Make the input fit: to so many tokens, or, where none are named, to what the model takes.
    CompressContext {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to_tokens: Option<u64>,
    },
    AddInstruction {
        text: String,
    },
    AddConstraint {
        text: String,
    },
    /// Give the last error to the model, as data. The text is filled in when the run is handed out.
    AddLastError {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// Multiply the output that the request allows, up to what the model gives.
    ScaleOutputBudget {
        factor: f64,
    },
    /// Ask another model: the verdict's target.
    SetModel {
        model: String,
    },
}

impl Change {
    /// Its name on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::CompressContext { .. } => "compress_context",
            Self::AddInstruction { .. } => "add_instruction",
            Self::AddConstraint { .. } => "add_constraint",
            Self::AddLastError { .. } => "add_last_error",
            Self::ScaleOutputBudget { .. } => "scale_output_budget",
            Self::SetModel { .. } => "set_model",
        }
    }
}

/// Where the next attempt goes, where it differs from the last one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    pub agent: Option<Label>,
    pub model: Option<Label>,
    pub queue: Option<QueueName>,
}

impl Target {
    /// Where a run goes from here on: a new target's places over those it was sent to before.
    pub fn over(&mut self, newer: &Self) {
        for (mine, theirs) in [(&mut self.agent, &newer.agent), (&mut self.model, &newer.model)] {
            if theirs.is_some() {
                mine.clone_from(theirs);
            }
        }
        if newer.queue.is_some() {
            self.queue.clone_from(&newer.queue);
        }
    }
}

/// The decision on one failed attempt, kept with it for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    pub action: Action,
    pub reason: Reason,
    pub category: Category,
    /// The rule that named the reason.
    pub rule: String,
    /// The decision in a sentence.
    pub why: String,
    pub recommended_action: RecommendedAction,
    pub next_attempt_at: Option<Timestamp>,
    pub held_by: Option<Label>,
    pub dead_because: Option<DeadBecause>,
    pub changes: Vec<Change>,
    pub target: Target,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_reads_back_from_its_own_json_and_says_its_name() {
        for change in [
            Change::CompressContext { to_tokens: Some(7) },
            Change::AddInstruction { text: "a".into() },
            Change::AddConstraint { text: "b".into() },
            Change::AddLastError { text: None },
            Change::AddLastError { text: Some("\u{0} c".into()) },
            Change::ScaleOutputBudget { factor: 0.6 },
            Change::SetModel { model: "gpt-5".into() },
        ] {
            let json = serde_json::to_string(&change).unwrap();
            assert!(json.contains(&format!("\"change\":\"{}\"", change.as_str())), "{json}");
            assert_eq!(serde_json::from_str::<Change>(&json).unwrap(), change);
        }
    }
}
