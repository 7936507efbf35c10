//! Runs as the API shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::ids::{IdempotencyKey, OrderKey, QueueName, RunId, StepKey, Tenant};
use crate::ledger::VersionChange;
use crate::reason::{Category, Reason};
use crate::run::StateName;
use crate::text::{Label, Text};
use crate::time::{ClientTime, Timestamp};
use crate::verdict::{DeadBecause, Told, Verdict};
use crate::wire::report::{ErrorReport, Links, PayloadOmitted, ResponseReport, Severity, StepStatus, Usage, Versions};
use crate::wire::{EffectOutcome, RawJson, ReviewView};

/// The pattern a failure belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PatternRef {
    pub id: String,
    pub template: String,
    /// This failure is the first of its kind for the tenant.
    pub new: bool,
}

/// The answer to a failure report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub state: StateName,
    pub attempt: u32,
    pub verdict: Told,
    pub pattern: PatternRef,
    pub breaker: String,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub queue: QueueName,
    pub agent: Option<Label>,
    pub task_type: Option<Label>,
    pub state: StateName,
    pub attempt: u32,
    pub revision: u32,
    pub reason: Option<Reason>,
    pub category: Option<Category>,
    pub dead_because: Option<DeadBecause>,
    pub severity: Severity,
    pub environment: Label,
    pub customer: Option<Label>,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub tool: Option<Label>,
    pub step: Option<Label>,
    pub idempotency_key: Option<IdempotencyKey>,
    pub pattern: Option<String>,
    pub template: Option<String>,
    pub received_at: Timestamp,
    pub updated_at: Timestamp,
    pub next_attempt_at: Option<Timestamp>,
    pub held_by: Option<Label>,
    pub deferred_until: Option<Timestamp>,
    pub merged_into: Option<RunId>,
    pub replays: u32,
    /// Who looks after it.
    #[serde(default)]
    pub assigned_to: Option<Label>,
}

/// One execution of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    pub attempt: u32,
    /// succeeded, failed, cancelled, or running for the one under way.
    pub outcome: String,
    pub recorded_at: Timestamp,
    /// When the server handed it out; none for an attempt reported in one call.
    pub began_at: Option<Timestamp>,
    /// As the client said.
    pub started_at: Option<ClientTime>,
    pub ended_at: Option<ClientTime>,
    pub worker: Option<Label>,
    pub revision: u32,
    pub replay: bool,
    /// It got another payload than its revision's: `…/attempts/{n}/sent` shows the difference.
    #[serde(default)]
    pub changed: bool,
    pub error: Option<ErrorReport>,
    pub response: Option<ResponseReport>,
    pub partial_output: Option<Text>,
    pub finish_reason: Option<Label>,
    pub usage: Option<Usage>,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub tool: Option<Label>,
    pub step: Option<Label>,
    pub versions: Versions,
    pub fingerprint: Option<String>,
    pub verdict: Option<Verdict>,
    /// What a failed attempt gave as its success, before a detector objected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<RawJson>,
    /// Evidence that was cut, by field (`late.…` of a late failure): how long it was, and its hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub truncated: BTreeMap<String, PayloadOmitted>,
    /// A failure that came after the lease had ended, kept as evidence.
    pub late: Option<ErrorReport>,
}

/// A recorded step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    pub name: Label,
    pub key: StepKey,
    pub effect: bool,
    pub status: StepStatus,
    /// With `reconciled`: whether it happened after all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EffectOutcome>,
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_omitted: Option<PayloadOmitted>,
    /// How to find out whether it happened, as the step declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Text>,
    pub attempt: u32,
    pub at: Timestamp,
    /// The step was done before: its output comes back, the work is skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// One thing that happened to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    pub at: Timestamp,
    /// A key as `role:id`, `engine`, `reporter`, or `worker:` and the name that the worker gave itself.
    pub actor: String,
    pub event: String,
    pub from: Option<StateName>,
    pub to: Option<StateName>,
    pub note: Option<Text>,
}

/// Everything kept of a run: its summary, and beside it in the same object its body.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunDetail {
    #[serde(flatten)]
    pub summary: RunSummary,
    #[serde(flatten)]
    pub body: RunBody,
}

/// Read twice from the same bytes: flattening would lose the payload's exact token.
impl<'de> Deserialize<'de> for RunDetail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let summary = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
        let body = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
        Ok(Self { summary, body })
    }
}

/// What lists leave out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_omitted: Option<PayloadOmitted>,
    pub content_type: Option<Label>,
    pub headers: BTreeMap<String, Text>,
    pub order_key: Option<OrderKey>,
    pub versions: Versions,
    pub destination: Option<Label>,
    pub resumable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<RawJson>,
    pub attempts: Vec<AttemptView>,
    pub steps: Vec<StepView>,
    /// A replay would skip steps that were recorded under other versions than the newest ones seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions_changed: Vec<VersionChange>,
    pub history: Vec<HistoryEntry>,
    /// Where the page of older attempts begins; none where these are the oldest.
    #[serde(default)]
    pub next_attempts_cursor: Option<String>,
    #[serde(default)]
    pub next_steps_cursor: Option<String>,
    #[serde(default)]
    pub next_history_cursor: Option<String>,
    pub verdict: Option<Verdict>,
    pub links: Links,
    pub replayable: bool,
    /// What to know before acting: what the matching rule says, then what the queue says.
    pub instructions: Option<String>,
    /// Where it is written what to do: the matching rule's, otherwise the queue's.
    #[serde(default)]
    pub runbook: Option<String>,
    /// In review: what waits for a yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewView>,
}

/// Where a run is after a triage verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub state: StateName,
}
