//! Patterns: what failures have in common, what people did about it, and the bodies of what they may do.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::ids::Tenant;
use crate::reason::{Category, Reason};
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::wire::report::Versions;
use crate::wire::{RawJson, bounds};
use crate::words::words;

words! {
    pub enum PatternState {
        New = "new",
        Acknowledged = "acknowledged",
        Resolved = "resolved",
        Muted = "muted",
    }
}

words! {
    pub enum PatternSort {
        LastSeen = "last_seen",
        Count = "count",
        Open = "open",
    }
}

words! {
    /// What is recorded of a pattern.
    pub enum PatternEvent {
        /// Its first failure.
        New = "new",
        /// It was resolved, and a failure that has the fix shows it again.
        Regression = "regression",
        Acknowledge = "acknowledge",
        Resolve = "resolve",
        Mute = "mute",
        Assign = "assign",
        Note = "note",
        Merge = "merge",
        Unmerge = "unmerge",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternView {
    pub id: String,
    pub fingerprint: String,
    pub template: String,
    pub reason: Reason,
    pub category: Category,
    /// Failed attempts.
    pub count: u64,
    /// Runs not closed whose last failure has it.
    pub open: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub state: PatternState,
    pub regression: bool,
    pub owner: Option<Label>,
    pub tenants: Vec<Tenant>,
    /// Muted: until when; none: until unmuted.
    #[serde(default)]
    pub muted_until: Option<Timestamp>,
    #[serde(default)]
    pub resolved_at: Option<Timestamp>,
    /// Resolved: the versions that have the fix.
    #[serde(default)]
    pub resolved_in: Option<Versions>,
    /// The pattern that it is part of now; count and open are then its own share.
    #[serde(default)]
    pub merged_into: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternsPage {
    pub patterns: Vec<PatternView>,
    pub next_cursor: Option<String>,
}

/// A pattern, and beside it in the same object what lists leave out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PatternDetail {
    #[serde(flatten)]
    pub pattern: PatternView,
    #[serde(flatten)]
    pub body: PatternBody,
}

/// Read twice from the same bytes: flattening would lose a text's exact token.
impl<'de> Deserialize<'de> for PatternDetail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let pattern = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
        let body = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
        Ok(Self { pattern, body })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternBody {
    /// Failed attempts by the hour, the last seven days, the oldest first.
    pub hours: Vec<PatternHour>,
    /// Patterns that were merged into it.
    pub merged: Vec<MergedPattern>,
    /// What happened to it, the oldest first; of many the last 200.
    pub events: Vec<PatternEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternHour {
    pub hour: Timestamp,
    pub failed: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MergedPattern {
    pub id: String,
    pub fingerprint: String,
    pub template: String,
    pub count: u64,
    pub open: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternEntry {
    pub at: Timestamp,
    pub tenant: Tenant,
    pub actor: String,
    pub event: PatternEvent,
    /// The versions, time, person, pattern or run that it is about.
    pub about: Option<String>,
    pub note: Option<Text>,
}

/// `POST /v1/patterns/{id}/resolve`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolvePattern {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// The versions that have the fix, by kind: `{"worker":"abc123"}`. Absent: whatever starts from now on has it.
    #[serde(default)]
    #[schemars(schema_with = "bounds::versions")]
    pub in_version: Versions,
}

/// `POST /v1/patterns/{id}/mute`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MutePattern {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// Absent: until unmuted.
    #[serde(default)]
    pub until: Option<Timestamp>,
}

/// `POST /v1/patterns/{id}/assign`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignPattern {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// A person or a team; null: nobody. It has to be there, so that an empty body takes a pattern from no one.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(required)]
    pub to: Option<Label>,
}

/// `POST /v1/patterns/{id}/merge`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergePattern {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// The id or the fingerprint of the pattern that it becomes part of.
    pub into: Label,
}

/// `POST /v1/patterns/{id}/unmerge`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnmergePattern {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// Which part comes out; absent: all of them, or the pattern itself where it is a part.
    #[serde(default)]
    pub fingerprint: Option<Label>,
}
