//! What the engine decided on a failure: data for machines, a sentence for people.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::{RawValue, to_raw_value};

use crate::ids::QueueName;
use crate::reason::{Category, Reason};
use crate::text::{LABEL_MAX_BYTES, Label};
use crate::time::Timestamp;
use crate::wire::bounds;
use crate::words::words;

pub use {StoredVerdict as Told, VerdictRenderer as Teller};

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
        /// No worker takes it.
        Rejected = "rejected",
        /// A person stopped it.
        Manual = "manual",
    }
}

words! {
    /// The recommended action for a person or the caller.
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
        #[schemars(range(max = bounds::TOKENS_MAX))]
        to_tokens: Option<u64>,
    },
    AddInstruction {
        #[schemars(length(max = bounds::INSTRUCTION_MAX_BYTES))]
        text: String,
    },
    AddConstraint {
        #[schemars(length(max = bounds::INSTRUCTION_MAX_BYTES))]
        text: String,
    },
    /// Give the last error to the model, as data. The text is filled in when the run is handed out.
    AddLastError {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(max = bounds::INSTRUCTION_MAX_BYTES))]
        text: Option<String>,
    },
    /// Multiply the output that the request allows, up to what the model gives.
    ScaleOutputBudget {
        #[schemars(range(max = 100.0))]
        factor: f64,
    },
    /// Ask another model: the verdict's target.
    SetModel {
        #[schemars(length(max = LABEL_MAX_BYTES))]
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

/// A verdict with its JSON, serialized once: the attempt's row stores these bytes and every answer sends them.
#[derive(Debug, Clone)]
pub struct StoredVerdict {
    verdict: Verdict,
    json: Box<RawValue>,
}

impl StoredVerdict {
    pub fn of(verdict: Verdict) -> serde_json::Result<Self> {
        Ok(Self { json: to_raw_value(&verdict)?, verdict })
    }

    pub fn json(&self) -> &str {
        self.json.get()
    }

    pub fn into_verdict(self) -> Verdict {
        self.verdict
    }
}

/// Serializes verdicts and caches the last ones: in an outage a thousand runs get the same verdict within a minute.
#[derive(Debug, Default)]
pub struct VerdictRenderer {
    recent: VecDeque<StoredVerdict>,
}

const CACHED_VERDICTS: usize = 8;

impl VerdictRenderer {
    pub fn tell(&mut self, verdict: Verdict) -> serde_json::Result<StoredVerdict> {
        // A verdict with a due time is unique.
        if verdict.next_attempt_at.is_some() {
            return StoredVerdict::of(verdict);
        }
        if let Some(known) = self.recent.iter().find(|known| known.verdict == verdict) {
            return Ok(StoredVerdict { json: known.json.clone(), verdict });
        }
        let told = StoredVerdict::of(verdict)?;
        if self.recent.len() >= CACHED_VERDICTS {
            self.recent.pop_front();
        }
        self.recent.push_back(told.clone());
        Ok(told)
    }
}

impl Deref for StoredVerdict {
    type Target = Verdict;

    fn deref(&self) -> &Verdict {
        &self.verdict
    }
}

impl PartialEq for StoredVerdict {
    fn eq(&self, other: &Self) -> bool {
        self.verdict == other.verdict
    }
}

impl Serialize for StoredVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StoredVerdict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let verdict = serde_json::from_str(json.get()).map_err(de::Error::custom)?;
        Ok(Self { verdict, json })
    }
}

impl JsonSchema for StoredVerdict {
    fn schema_name() -> Cow<'static, str> {
        Verdict::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        Verdict::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Verdict::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_keep_their_stored_bytes() {
        let verdict = |rule: &str| {
            format!(
                r#"{{"action":"retry","reason":"timeout","category":"transient","rule":"{rule}","why":"It may work again.","recommended_action":"retry_with_backoff","next_attempt_at":null,"held_by":null,"dead_because":null,"changes":[],"target":{{"agent":null,"model":null,"queue":null}}}}"#
            )
        };
        let told: StoredVerdict = serde_json::from_str(&verdict("builtin.timeout")).unwrap();
        assert_eq!(told.json(), verdict("builtin.timeout"));
        assert_eq!(serde_json::to_string(&told).unwrap(), verdict("builtin.timeout"));
        assert_eq!(StoredVerdict::of(told.verdict.clone()).unwrap().json(), told.json());
        assert_ne!(told, serde_json::from_str(&verdict("builtin.other")).unwrap());
    }

    #[test]
    fn cached_verdicts_render_identically() {
        let verdict = |n: usize| Verdict {
            action: Action::DeadLetter,
            reason: Reason::Bug,
            category: Category::Permanent,
            rule: "builtin.bug".into(),
            why: format!("The code has defect {n}."),
            recommended_action: RecommendedAction::FixAndReplay,
            next_attempt_at: n.is_multiple_of(3).then(|| Timestamp::from_millis(1_800_000_000_000)),
            held_by: None,
            dead_because: Some(DeadBecause::Permanent),
            changes: Vec::new(),
            target: Target::default(),
        };
        let mut teller = VerdictRenderer::default();
        for n in [1, 1, 2, 1, 3, 3].into_iter().chain(0..3 * CACHED_VERDICTS).chain([1, 2, 2]) {
            assert_eq!(teller.tell(verdict(n)).unwrap().json(), serde_json::to_string(&verdict(n)).unwrap());
        }
        assert_eq!(teller.recent.len(), CACHED_VERDICTS);
    }

    #[test]
    fn changes_round_trip_through_json_with_their_name() {
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
