//! Requests of workers and their answers, preflight included.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::{
    ErrorReport, Links, PayloadOmitted, ResponseReport, RunFields, Severity, StepReport, StepStatus, Usage, Versions,
    report_with_run_fields,
};
use super::{RawJson, StepView, bounds};
use crate::ids::{CallId, IdempotencyKey, OrderKey, QueueName, RunId, StepKey, Tenant, Uuid};
use crate::json::DiffOperation;
use crate::ledger::VersionChange;
use crate::preflight::{Budget, Estimate, Part, PreflightResult, PreflightVerdict};
use crate::run::StateName;
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::verdict::{Change, Verdict};
use crate::words::words;

words! {
    pub enum Mode {
        /// The caller begins now, under a lease.
        Start = "start",
        /// A worker that leases the queue will begin it.
        Enqueue = "enqueue",
    }
}

report_with_run_fields! {
    /// Start or enqueue a run: `POST /v1/runs`.
    pub struct StartRequest {
        pub mode: Mode,
        /// A UUID made by the client: the same one gets the same lease again.
        #[serde(default)]
        pub start_id: Option<Uuid>,
        #[serde(default)]
        #[schemars(range(max = bounds::SPAN_MS_MAX))]
        pub lease_ms: Option<u64>,
        #[serde(default)]
        #[schemars(range(max = bounds::SPAN_MS_MAX))]
        pub idle_ms: Option<u64>,
        #[serde(default)]
        #[schemars(range(max = bounds::SPAN_MS_MAX))]
        pub deadline_ms: Option<u64>,
        /// With `enqueue`: not before this.
        #[serde(default)]
        pub due_at: Option<Timestamp>,
    }
}

/// A change as it reaches the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HandedChange {
    #[serde(flatten)]
    pub change: Change,
    /// It is in the payload already; otherwise it is the worker's to do.
    pub applied: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StartAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub state: StateName,
    pub attempt: u32,
    pub revision: u32,
    pub replay: bool,
    pub lease: Option<String>,
    pub lease_expires_at: Option<Timestamp>,
    pub changes: Vec<HandedChange>,
    pub steps: Vec<StepView>,
    /// Recorded steps that would be skipped come from other versions than this attempt's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions_changed: Vec<VersionChange>,
    /// Where it differs from the one sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The preflight result before the first attempt, unless the payload fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightBrief>,
    /// Of a closed run: what it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<RawJson>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[schemars(length(max = bounds::LEASE_TOKEN_MAX_BYTES))]
    pub lease: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatAnswer {
    pub lease_expires_at: Timestamp,
}

/// `POST /v1/heartbeats`: many leases in one call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatsRequest {
    /// At most 1,000.
    #[schemars(length(max = 1000))]
    pub leases: Vec<LeaseBeat>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseBeat {
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    #[schemars(length(max = bounds::LEASE_TOKEN_MAX_BYTES))]
    pub lease: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HeartbeatsAnswer {
    /// One for each lease, in the order of the call.
    pub leases: Vec<BeatAnswer>,
}

/// The lease's new end, or the code of the problem that the heartbeat alone would have got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BeatAnswer {
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[schemars(length(max = bounds::LEASE_TOKEN_MAX_BYTES))]
    pub lease: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[schemars(length(max = bounds::LEASE_TOKEN_MAX_BYTES))]
    pub lease: String,
    pub name: Label,
    #[serde(default)]
    pub key: Option<StepKey>,
    #[serde(default)]
    pub effect: Option<bool>,
    pub status: StepStatus,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub output: Option<RawJson>,
    /// How to find out whether it happened; shown to the person who reconciles it.
    #[serde(default)]
    #[schemars(length(max = bounds::STEP_CHECK_MAX_BYTES))]
    pub check: Option<Text>,
    /// With `committed` or `failed`: found by the step's check. It settles what an earlier attempt left in doubt.
    #[serde(default)]
    pub checked: bool,
    /// One call of a tool. The same `started` again under the same lease with the same one is a lost answer; with
    /// another, or without, it is a second call of an effect that is under way, and refused.
    #[serde(default)]
    pub call_id: Option<CallId>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SucceedRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(length(max = bounds::LEASE_TOKEN_MAX_BYTES))]
    pub lease: Option<String>,
    /// Without a lease, on a queue whose caller retries: which attempt succeeded; absent: the last + 1.
    #[serde(default)]
    #[schemars(range(min = 1, max = bounds::ATTEMPT_MAX))]
    pub attempt: Option<u32>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub output: Option<RawJson>,
    #[serde(default)]
    pub finish_reason: Option<Label>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(default)]
    #[schemars(length(max = bounds::STEPS_MAX))]
    pub steps: Vec<StepReport>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SucceedAnswer {
    pub state: StateName,
    /// It came after its lease had ended, and no newer attempt had begun.
    pub late: bool,
    /// A detector objects: it did not succeed after all.
    pub verdict: Option<Verdict>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[schemars(length(max = bounds::LEASE_TOKEN_MAX_BYTES))]
    pub lease: String,
    pub error: ErrorReport,
    #[serde(default)]
    pub response: Option<ResponseReport>,
    #[serde(default)]
    #[schemars(extend("x-cut-bytes" = bounds::PARTIAL_OUTPUT_CUT_BYTES))]
    pub partial_output: Option<Text>,
    #[serde(default)]
    pub finish_reason: Option<Label>,
    #[serde(default)]
    pub usage: Option<Usage>,
    #[serde(default)]
    pub step: Option<Label>,
    #[serde(default)]
    pub tool: Option<Label>,
    #[serde(default)]
    pub model: Option<Label>,
    #[serde(default)]
    #[schemars(length(max = bounds::STEPS_MAX))]
    pub steps: Vec<StepReport>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequest {
    /// With a key that spans tenants: only this one's runs; absent, all tenants'.
    #[serde(default)]
    pub tenant: Option<Tenant>,
    /// Names, or `["*"]` for all.
    #[schemars(length(max = bounds::LEASE_QUEUES_MAX))]
    pub queues: Vec<Label>,
    #[serde(default)]
    #[schemars(length(max = bounds::LEASE_AGENTS_MAX))]
    pub agents: Option<Vec<Label>>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::versions")]
    pub versions: Versions,
    /// At most 1,000.
    #[serde(default)]
    #[schemars(range(max = bounds::LEASES_MAX))]
    pub max: Option<u32>,
    /// Wait this long for work before answering with none (at most 30,000).
    #[serde(default)]
    #[schemars(range(max = bounds::WAIT_MS_MAX))]
    pub wait_ms: Option<u64>,
    #[serde(default)]
    #[schemars(range(max = bounds::SPAN_MS_MAX))]
    pub lease_ms: Option<u64>,
    #[serde(default)]
    pub worker: Option<Label>,
    /// A UUID made by the client: the same one again gets the same leases while they live, so that a lost answer spends no
    /// attempt.
    #[serde(default)]
    pub request_id: Option<Uuid>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LeasesAnswer {
    pub leases: Vec<LeasedRun>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct LeasedRun {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub queue: QueueName,
    pub agent: Option<Label>,
    pub model: Option<Label>,
    pub attempt: u32,
    pub revision: u32,
    pub replay: bool,
    pub lease: String,
    pub lease_expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    pub content_type: Option<Label>,
    pub headers: BTreeMap<String, Text>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub changes: Vec<HandedChange>,
    pub steps: Vec<StepView>,
    /// Recorded steps that would be skipped come from other versions than this attempt's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions_changed: Vec<VersionChange>,
    pub trace: Option<Text>,
}

/// `POST /v1/preflight`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreflightRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub payload: Option<RawJson>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free_text")]
    pub payload_base64: Option<String>,
    /// Absent: the one that the request itself names.
    #[serde(default)]
    pub model: Option<Label>,
    /// The queue whose settings say how the payload is read.
    #[serde(default)]
    pub queue: Option<QueueName>,
    /// Absent: as the request itself says.
    #[serde(default)]
    #[schemars(range(max = bounds::TOKENS_MAX))]
    pub max_output_tokens: Option<u64>,
    /// A run whose last real count of tokens corrects the estimate.
    #[serde(default)]
    pub run_id: Option<RunId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightAnswer {
    pub verdict: PreflightVerdict,
    /// The verdict in a sentence.
    pub why: String,
    pub estimate: Estimate,
    /// The model's limits; none for an unknown model.
    pub budget: Option<Budget>,
    pub model: Option<String>,
    /// What would be left of a request with everything left out that may be; none when the payload's shape is not known.
    pub floor_tokens: Option<u64>,
    /// The largest parts, the largest first.
    pub parts: Vec<Part>,
    pub largest: Option<Part>,
    /// Models that would take it, the smallest window first.
    pub fits: Vec<String>,
    /// In how many pieces it would fit.
    pub split_into: Option<u64>,
    /// The run whose real count corrected the estimate.
    pub calibrated_by: Option<RunId>,
}

impl PreflightAnswer {
    pub fn of(found: PreflightResult, calibrated_by: Option<RunId>) -> Self {
        let PreflightResult {
            verdict,
            why,
            estimate,
            budget,
            model,
            floor_tokens,
            parts,
            fits,
            split_into,
            compress_to: _,
        } = found;
        let largest = parts.first().cloned();
        Self { verdict, why, estimate, budget, model, floor_tokens, parts, largest, fits, split_into, calibrated_by }
    }
}

/// What a start says about a payload that may not fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightBrief {
    pub verdict: PreflightVerdict,
    pub why: String,
    pub estimate: Estimate,
    pub budget: Option<Budget>,
}

/// What an attempt got: `GET /v1/runs/{run_id}/attempts/{attempt}/sent`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SentAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub attempt: u32,
    pub revision: u32,
    /// The payload is not the revision's as it is.
    pub changed: bool,
    pub changes: Vec<HandedChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// What is different from the revision's payload, by JSON pointer; long values are cut.
    pub diff: Vec<DiffOperation>,
    /// There is more than the list holds.
    pub diff_cut: bool,
}
