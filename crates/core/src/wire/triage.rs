//! What people send about a run, and what they are shown before and after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{QueueName, RunId, StepKey, Tenant};
use crate::ledger::{VersionChange, Will};
use crate::patch::{PatchOperation, present};
use crate::run::StateName;
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::wire::{RawJson, RunSummary, bounds};
use crate::words::words;

/// A triage verb: who acts comes from the key, why from here.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriageRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}

/// A person's request for another attempt; absent fields stay unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
    /// Another payload: a new revision. The original bytes never change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<Fix>,
    /// What to tell the agent in the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::INSTRUCTION_MAX_BYTES))]
    pub instruction: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// A recorded step, by its key or name: it and the plain steps after it are done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<Label>,
    /// Bypasses every guard; operators only, requires a reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// The hash of the reviewed plan; if the plan has changed, the call is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<Label>,
}

/// Exactly one of the two.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fix {
    /// RFC 6902, on the current payload; what it does not name keeps its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = crate::patch::PATCH_OPERATIONS_MAX))]
    pub json_patch: Option<Vec<PatchOperation>>,
    /// A whole new payload.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(schema_with = "bounds::free")]
    pub payload: Option<RawJson>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    /// `review` when the replay waits for an approval.
    pub state: StateName,
    /// The last attempt that began; the replay's is the next.
    pub attempt: u32,
    pub revision: u32,
    /// What an approval has to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// When the request for approval lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The hash of the approved plan; if the plan has changed, the call is refused.
    pub plan_hash: Label,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeferRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    pub until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReassignRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Label>,
    /// Must exist: a typo must not move a run into a new queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// A person or a team; null removes the assignee. Required, so that a typo is refused.
    #[serde(deserialize_with = "Option::deserialize")]
    pub to: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The run that it is a duplicate of, of the same tenant.
    pub into: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStep {
    pub name: Label,
    pub key: StepKey,
    pub effect: bool,
    pub will: Will,
}

words! {
    pub enum WarningCode {
        VersionsChanged = "versions_changed",
        OutputOmitted = "output_omitted",
        EffectUnknown = "effect_unknown",
        EffectDone = "effect_done",
        StepsAgain = "steps_again",
        Held = "held",
        BreakerOpen = "breaker_open",
        ReplaysLeft = "replays_left",
        OrderKeyBusy = "order_key_busy",
        NotReplayable = "not_replayable",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanWarning {
    pub code: WarningCode,
    pub detail: String,
}

/// What a replay would do, before anybody does it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    /// Over steps, revision, fix, target and versions: neither breakers nor time change it.
    pub hash: String,
    /// That the attempt would run with.
    pub revision: u32,
    pub steps: Vec<PlanStep>,
    pub versions_changed: Vec<VersionChange>,
    pub held_by: Option<Label>,
    pub approval_needed: bool,
    /// The code with which the replay would be refused unless forced.
    pub refused: Option<String>,
    pub warnings: Vec<PlanWarning>,
}

/// What waits for a yes or no.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReviewView {
    /// The requested replay; none when a person put the run into review.
    #[schemars(with = "Option<serde_json::Value>")]
    pub proposed: Option<RawJson>,
    pub plan_hash: String,
    pub expires_at: Timestamp,
    pub asked_by: String,
    pub asked_at: Timestamp,
}

/// One version of a run's payload.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevisionView {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub revision: u32,
    pub at: Timestamp,
    pub actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The patch that made it, as it was sent; none for the first one and for a payload given whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_patch: Option<Vec<PatchOperation>>,
}

words! {
    /// What makes a run look like another.
    pub enum Likeness {
        IdempotencyKey = "idempotency_key",
        /// The same payload, failed the same way.
        Payload = "payload",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Duplicate {
    pub same: Likeness,
    pub run: RunSummary,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DuplicatesAnswer {
    /// Newest first, at most 100.
    pub duplicates: Vec<Duplicate>,
    /// There may be more than were looked for.
    pub more: bool,
}
