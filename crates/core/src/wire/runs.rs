//! Runs, attempts, steps and effects as the API shows them, and pages of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::report::{ErrorReport, Links, PayloadOmitted, ResponseReport, Severity, StepStatus, Usage, Versions};
use super::{RawJson, ReviewView, bounds};
use crate::ids::{IdempotencyKey, OrderKey, QueueName, RunId, StepKey, Tenant};
use crate::ledger::VersionChange;
use crate::reason::{Category, Reason};
use crate::run::StateName;
use crate::text::{Label, Text};
use crate::time::{ClientTime, Timestamp};
use crate::verdict::{DeadBecause, StoredVerdict, Verdict};
use crate::words::words;

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
    pub verdict: StoredVerdict,
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
    /// The person or team it is assigned to.
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

/// Everything stored about a run: its summary, and in the same object its body.
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
    /// The runbook: the matching rule's, otherwise the queue's.
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

words! {
    pub enum Sort {
        Received = "received",
        NewestFirst = "-received",
        Due = "due",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunsPage {
    pub runs: Vec<RunSummary>,
    /// Where the next page begins. A search stops after a bounded number of rows: a short page may have a
    /// cursor to continue from.
    pub next_cursor: Option<String>,
    pub total: Option<u64>,
    /// Counting stopped at 10,000.
    pub total_capped: bool,
}

words! {
    /// The states that plain recovery APIs know.
    pub enum DlqStatus {
        Pending = "pending",
        Retrying = "retrying",
        Recovered = "recovered",
        Escalated = "escalated",
        Abandoned = "abandoned",
    }
}

impl DlqStatus {
    pub fn of(state: StateName) -> Self {
        match state {
            StateName::Scheduled => Self::Pending,
            StateName::Running => Self::Retrying,
            StateName::Recovered | StateName::Succeeded | StateName::Resolved => Self::Recovered,
            StateName::Dead | StateName::Review => Self::Escalated,
            StateName::Discarded | StateName::Merged => Self::Abandoned,
        }
    }

    pub fn states(self) -> Vec<StateName> {
        StateName::ALL.iter().copied().filter(|state| Self::of(*state) == self).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DlqMessage {
    pub id: RunId,
    pub tenant: Tenant,
    pub status: DlqStatus,
    pub queue: String,
    pub reason: Option<Reason>,
    pub category: Option<Category>,
    pub error: Option<String>,
    pub attempts: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub next_retry_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DlqAnswer {
    pub messages: Vec<DlqMessage>,
    pub next_cursor: Option<String>,
    pub total: Option<u64>,
}

words! {
    /// The actual outcome of an effect in doubt.
    pub enum EffectOutcome {
        /// It happened.
        Committed = "committed",
        /// Nothing happened: it may start again.
        NotDone = "not_done",
    }
}

/// An entry of the ledger: a step or effect with the run that it belongs to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EffectView {
    pub tenant: Tenant,
    pub run_id: RunId,
    pub key: StepKey,
    pub name: Label,
    pub effect: bool,
    pub status: StepStatus,
    /// With `reconciled`: what it was reconciled to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EffectOutcome>,
    #[schemars(with = "Option<serde_json::Value>")]
    pub output: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_omitted: Option<PayloadOmitted>,
    /// How to find out whether it happened, as the step declared.
    pub check: Option<Text>,
    /// The attempt that began it.
    pub attempt: u32,
    /// What that attempt ran with.
    pub versions: Versions,
    /// When the intent was recorded; none where only the outcome was.
    pub started_at: Option<Timestamp>,
    /// When it got its current status.
    pub at: Timestamp,
    /// When it was last recorded or given back; it is kept for 90 days after that, and as long as its run.
    pub last_used_at: Timestamp,
    /// Who reconciled it.
    pub settled_by: Option<String>,
}

/// Settle an effect in doubt: `POST /v1/effects/{key}/reconcile`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReconcileRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    pub outcome: EffectOutcome,
    /// With `committed`: what it gave; a replay gets it back.
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub output: Option<RawJson>,
    #[serde(default)]
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Option<Text>,
}
