//! Bulk: one action over a frozen set of runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{QueueName, RunId, Tenant};
use crate::json;
use crate::text::{LABEL_MAX_BYTES, Label, Text};
use crate::time::Timestamp;
use crate::wire::{Fix, RawJson, bounds};
use crate::words::words;

words! {
    pub enum OperationAction {
        Replay = "replay",
        Resolve = "resolve",
        Discard = "discard",
        Assign = "assign",
        Reassign = "reassign",
        Defer = "defer",
        Merge = "merge",
    }
}

words! {
    pub enum OperationState {
        /// Made with dry_run: nothing moves before `start`.
        Preview = "preview",
        Running = "running",
        Paused = "paused",
        /// Its canary failed, or it could not be worked.
        Stopped = "stopped",
        Cancelled = "cancelled",
        Completed = "completed",
    }
}

words! {
    pub enum ItemOutcome {
        /// Its turn is still to come.
        Waiting = "waiting",
        /// Done; for a replay: under way, its outcome not known yet.
        Moved = "moved",
        Succeeded = "succeeded",
        Failed = "failed",
        /// It was eligible when the set was frozen, and was no longer when its turn came.
        Skipped = "skipped",
        Ineligible = "ineligible",
    }
}

words! {
    pub enum CanaryState {
        /// Its runs are being moved, or their outcomes awaited.
        Waiting = "waiting",
        Passed = "passed",
        Failed = "failed",
    }
}

/// One value, a comma list, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    One(#[schemars(length(max = bounds::FILTER_LIST_MAX_BYTES))] String),
    Many(#[schemars(length(max = bounds::FILTER_VALUES_MAX), inner(length(max = LABEL_MAX_BYTES)))] Vec<String>),
}

impl OneOrMany {
    pub fn words(&self) -> Vec<&str> {
        match self {
            Self::One(text) => text.split(',').collect(),
            Self::Many(words) => words.iter().map(String::as_str).collect(),
        }
    }
}

/// What `GET /v1/runs` takes, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationFilter {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_because: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub customer: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_to: Option<OneOrMany>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// First reported at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::SEARCH_MAX_BYTES))]
    pub q: Option<String>,
}

impl OperationFilter {
    /// It narrows nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The first few go ahead; the rest only if at most that share of them fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// How many go first, at most 1,000.
    #[schemars(range(max = bounds::CANARY_MAX_RUNS))]
    pub size: u32,
    /// From 0 to 1: how many of them may fail on their first attempt.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_failure_share: f64,
    /// An item without an outcome after this time counts as failed; 15 min when absent.
    #[serde(default = "fifteen_minutes")]
    #[schemars(range(max = bounds::SPAN_MS_MAX))]
    pub wait_ms: u64,
}

fn fifteen_minutes() -> u64 {
    900_000
}

/// `POST /v1/operations`. Each action takes the fields that its single verb takes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperationRequest {
    pub action: OperationAction,
    #[serde(default)]
    pub filter: OperationFilter,
    /// These runs instead of a filter, of the tenant in `filter.tenant`; at most 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::OPERATION_IDS_MAX))]
    pub ids: Option<Vec<RunId>>,
    /// Required with an empty filter, which selects every run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Kept in each run's history, behind the operation's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// Runs per second; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = bounds::RATE_MAX))]
    pub rate_per_s: Option<f64>,
    /// With replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// How long after the last move outcomes are awaited before it is completed; 15 min when absent.
    #[serde(default = "fifteen_minutes")]
    #[schemars(range(max = bounds::SPAN_MS_MAX))]
    pub settle_ms: u64,
    /// Only a preview: `start` begins it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// With replay: the same patch over every payload, or the same payload for every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
    /// With replay: what to tell the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::INSTRUCTION_MAX_BYTES))]
    pub instruction: Option<Text>,
    /// With replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Label>,
    /// With replay and reassign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Label>,
    /// With replay and reassign: one that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// With assign: a person or a team; null takes the runs from their owner.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "said")]
    #[schemars(with = "Option<Label>")]
    pub to: Option<Option<Label>>,
    /// With defer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// With merge: the run that they are duplicates of, in each one's own tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<RunId>,
}

/// A word that is there, `null` included.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Label>>, D::Error> {
    Option::<Label>::deserialize(deserializer).map(Some)
}

impl OperationRequest {
    /// Nothing but the action.
    pub fn new(action: OperationAction) -> Self {
        Self {
            action,
            filter: OperationFilter::default(),
            ids: None,
            all: false,
            reason: None,
            rate_per_s: None,
            canary: None,
            settle_ms: fifteen_minutes(),
            dry_run: false,
            fix: None,
            instruction: None,
            model: None,
            agent: None,
            queue: None,
            to: None,
            until: None,
            into: None,
        }
    }
}

/// What a patch would do to one payload of the set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationSample {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub changes: Vec<json::DiffOperation>,
    /// There are more differences than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryView {
    pub size: u32,
    pub max_failure_share: f64,
    pub wait_ms: u64,
    pub state: CanaryState,
}

/// A run, named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedRun {
    pub tenant: Tenant,
    pub run_id: RunId,
}

/// Runs that failed the same way since the set was frozen, and are not part of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    pub count: u64,
    /// Counting stopped there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capped: bool,
    /// The first of them.
    pub runs: Vec<NamedRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OperationView {
    pub id: String,
    pub action: OperationAction,
    pub state: OperationState,
    /// The set is not whole yet, and nothing moves before it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub preparing: bool,
    /// Who made it.
    pub actor: String,
    pub reason: Option<Text>,
    #[schemars(with = "serde_json::Value")]
    pub filter: RawJson,
    pub rate_per_s: Option<f64>,
    pub canary: Option<CanaryView>,
    /// Runs in the frozen set.
    pub matched: u64,
    pub eligible: u64,
    /// Why the others are not, and how many.
    pub ineligible: BTreeMap<String, u64>,
    /// The set by the reason of the last failure; those without one under `none`.
    pub reasons: BTreeMap<String, u64>,
    pub moved: u64,
    /// Replays that succeeded.
    pub succeeded: u64,
    /// Replays that failed.
    pub failed: u64,
    /// No longer eligible when their turn came.
    pub skipped: u64,
    pub skipped_because: BTreeMap<String, u64>,
    pub stopped_because: Option<String>,
    /// With `stopped_because`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
    /// With a patch: what it does to the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<OperationSample>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OperationsPage {
    /// Newest first.
    pub operations: Vec<OperationView>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationItem {
    /// None when the run is no longer kept.
    pub run_id: Option<RunId>,
    pub tenant: Option<Tenant>,
    pub outcome: ItemOutcome,
    /// The code of the refusal, or where a failed run went.
    pub why: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationItemsPage {
    /// In the order in which they are moved.
    pub items: Vec<OperationItem>,
    /// A search stops after a bounded number of rows: a short page may have a cursor to continue from.
    pub next_cursor: Option<String>,
}
