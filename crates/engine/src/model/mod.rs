//! Inputs and results of the use cases, beside the types of the wire. Handlers classify, fingerprint and encode before the
//! committer runs, which then only reads rows, decides and writes.

use std::collections::BTreeMap;

use redrive_core::breaker::BreakerStateName;
use redrive_core::ids::{CallId, IdempotencyKey, OrderKey, QueueName, RunId, StepKey, Tenant};
use redrive_core::ledger::is_of_name;
use redrive_core::pattern::Fingerprint;
use redrive_core::reason::{Category, Reason};
use redrive_core::run::StateName;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::{ClientTime, Timestamp};
use redrive_core::verdict::{Change, DeadBecause};
use redrive_core::wire::{
    EffectOutcome, ErrorReport, HandedChange, Links, PayloadOmitted, RawJson, ResponseReport, Role, Severity, Sort,
    StartAnswer, StepStatus, Usage, Versions,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub mod lease;
pub mod operations;
pub mod patterns;
pub mod triage;

use crate::codec::{HEAD_BYTES, decoded_len};
pub use crate::error::Reported;
pub use crate::model::lease::{LeaseCall, LeaseToken, NotALease, Success, UnderLease};

/// The first half of a SHA-256, to recognise equal content.
pub type Digest = [u8; 16];

/// The tenants that a caller may see. Only authentication makes it, from a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantScope {
    One(Tenant),
    All,
}

/// A run by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRef {
    pub tenant: Tenant,
    pub run_id: RunId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    None,
    Json,
    Bytes,
    /// Too large to send: only size and hash are stored.
    Omitted,
}

impl PayloadKind {
    pub const ALL: &'static [Self] = &[Self::None, Self::Json, Self::Bytes, Self::Omitted];
}

/// A payload to store.
#[derive(Debug, Clone)]
pub struct Payload {
    pub kind: PayloadKind,
    pub digest: Digest,
    /// By [`crate::encode`].
    pub encoded: Vec<u8>,
}

impl Payload {
    /// Its size in an answer.
    pub fn bytes(&self) -> usize {
        decoded_len(self.encoded.len(), self.encoded.get(..HEAD_BYTES).unwrap_or(&self.encoded))
    }
}

/// The document stored with a run's payload, as encoded JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct About {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Label>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Text>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: Versions,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: Links,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_omitted: Option<PayloadOmitted>,
}

/// A worker's key in a run's row: which keys began or reported the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyMark(u64);

impl KeyMark {
    /// Six bytes of the lineage's hash keep rows small and are distinct for all practical purposes.
    pub fn of_lineage(lineage: &str) -> Self {
        let hash = Sha256::digest(lineage.as_bytes());
        Self(hash.iter().take(6).fold(0, |mark, byte| mark << 8 | u64::from(*byte)))
    }
}

/// A run as its first report or start describes it.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub tenant: Tenant,
    pub run_id: RunId,
    pub queue: QueueName,
    pub agent: Option<Label>,
    pub task_type: Option<Label>,
    pub customer: Option<Label>,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub environment: Label,
    pub severity: Severity,
    pub idempotency_key: Option<IdempotencyKey>,
    pub order_key: Option<OrderKey>,
    /// None: false for a new run, unchanged for a known one.
    pub resumable: Option<bool>,
    pub payload: Payload,
    /// [`About`] as JSON, encoded.
    pub about: Vec<u8>,
    /// The worker's key; none for other roles, which may read every run of their tenant.
    pub by: Option<KeyMark>,
}

/// The document stored with an attempt, as encoded JSON. Raw JSON tokens stay byte for byte.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AttemptBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_output: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Label>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: Versions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<ClientTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<ClientTime>,
    /// By field: what was truncated.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub truncated: BTreeMap<String, PayloadOmitted>,
}

/// How an attempt began, as the server knows it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AttemptOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Label>,
    pub revision: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replay: bool,
    /// That the worker gave at the start.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: Versions,
    /// The state of the run's breakers when the failure was answered; none: closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerStateName>,
}

/// A failed attempt, classified and fingerprinted.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// The reporter's number; a failure under a lease has the lease's number.
    pub attempt: Option<u32>,
    /// Of the report; none for a failure that the engine found.
    pub digest: Option<Digest>,
    pub failure: Failure,
    pub fingerprint: Fingerprint,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub tool: Option<Label>,
    pub step: Option<Label>,
    /// That this attempt ran with. Empty under a lease, which has them from the start.
    pub versions: Versions,
    /// Its duration by the client's clock.
    pub took_ms: Option<u64>,
    /// The run's severity, where a rule sets it.
    pub severity: Option<Severity>,
    /// [`AttemptBody`] as JSON, encoded.
    pub body: Vec<u8>,
    pub steps: Vec<NewStep>,
    /// The worker's key.
    pub by: Option<KeyMark>,
}

impl FailedAttempt {
    /// A failure that the engine found, without a report.
    pub fn found(failure: Failure, fingerprint: Fingerprint, body: Vec<u8>) -> Self {
        Self {
            attempt: None,
            digest: None,
            failure,
            fingerprint,
            model: None,
            provider: None,
            tool: None,
            step: None,
            versions: Versions::new(),
            took_ms: None,
            severity: None,
            body,
            steps: Vec::new(),
            by: None,
        }
    }
}

/// `POST /v1/failures`.
#[derive(Debug, Clone)]
pub struct NewFailure {
    pub run: NewRun,
    pub failed: FailedAttempt,
}

#[derive(Debug, Clone)]
pub struct NewStep {
    pub name: Label,
    pub key: Option<StepKey>,
    /// None: as recorded before; a new step counts as an effect.
    pub effect: Option<bool>,
    pub status: StepStatus,
    /// The JSON token, encoded; none above the size limit.
    pub output: Option<Vec<u8>>,
    pub output_omitted: Option<PayloadOmitted>,
    /// Instructions for checking whether it happened: a JSON string, encoded.
    pub check: Option<Vec<u8>>,
    /// The outcome comes from that check.
    pub checked: bool,
    /// The tool call.
    pub call_id: Option<CallId>,
}

impl NewStep {
    /// Whether its key is unique in the tenant. A key made from the step's name is unique in its run only.
    pub fn has_own_key(&self) -> bool {
        self.key.as_ref().is_some_and(|key| !is_of_name(key.as_str()))
    }
}

/// An entry of the ledger by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRef {
    pub tenant: Tenant,
    pub key: StepKey,
    /// Needed where the key is unique in its run only: plain steps, and effects without a key.
    pub run_id: Option<RunId>,
}

/// `POST /v1/effects/{key}/reconcile`.
#[derive(Debug, Clone)]
pub struct Reconcile {
    pub at: EffectRef,
    pub outcome: EffectOutcome,
    /// The JSON token, encoded; none above the size limit.
    pub output: Option<Vec<u8>>,
    pub output_omitted: Option<PayloadOmitted>,
    pub actor: String,
    pub reason: Option<Text>,
}

/// `POST /v1/runs`.
#[derive(Debug, Clone)]
pub struct Start {
    pub run: NewRun,
    pub how: StartHow,
    /// Of the attempt that this call begins.
    pub versions: Versions,
    pub idle_ms: Option<u64>,
    pub deadline_ms: Option<u64>,
    /// The result of the preflight.
    pub fit: Fit,
}

/// Whether a new run's payload fits its model, where its queue enforces that.
#[derive(Debug, Clone, Default)]
pub enum Fit {
    #[default]
    AsItIs,
    /// With these changes, from the first attempt on.
    With(Vec<Change>),
    /// The run becomes a dead letter; `why` is a sentence.
    Never { rule: &'static str, why: String },
}

/// A payload that an attempt gets in place of its revision's.
#[derive(Debug, Clone)]
pub struct NewSentPayload {
    /// Each change with whether it was applied, as JSON, encoded.
    pub changes: Vec<u8>,
    /// The JSON token, encoded.
    pub body: Vec<u8>,
}

/// The payload that an attempt got, and the one it was made from.
#[derive(Debug, Clone)]
pub struct SentPayload {
    pub attempt: u32,
    pub revision: u32,
    /// Every change with whether it was applied; empty for an unchanged payload.
    pub changes: Vec<HandedChange>,
    /// None: the original.
    pub sent: Option<RawJson>,
    pub original: Option<RawJson>,
    pub original_base64: Option<String>,
}

#[derive(Debug, Clone)]
pub enum StartHow {
    Start { start_id: Option<Label>, lease_ms: Option<u64> },
    Enqueue { due_at: Option<Timestamp> },
}

#[derive(Debug, Clone)]
pub struct Started {
    pub answer: StartAnswer,
    /// The run is new.
    pub created: bool,
    /// The run's queue, whose settings say how its payload is read.
    pub queue: QueueName,
    /// The attempt gets a changed payload, which is still to be made from the answer's.
    pub to_prepare: bool,
    /// The run's payload is not the one in the request.
    pub payload_differs: bool,
}

/// The result of one round of a background service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    pub looked_at: usize,
    pub moved: usize,
    /// There may be more work: the next round follows at once.
    pub more: bool,
}

/// `GET /v1/runs`: every field narrows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunFilter {
    pub tenant: Option<Tenant>,
    pub states: Vec<StateName>,
    pub queues: Vec<QueueName>,
    pub agents: Vec<Label>,
    pub reasons: Vec<Reason>,
    pub categories: Vec<Category>,
    /// Pattern ids or fingerprints.
    pub patterns: Vec<String>,
    pub dead_because: Vec<DeadBecause>,
    pub severities: Vec<Severity>,
    pub environments: Vec<Label>,
    pub customers: Vec<Label>,
    pub assigned_to: Vec<Label>,
    pub held: Option<bool>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub q: Option<String>,
}

/// The most attempts, steps or moves in one read of a run.
pub const DETAIL_PAGE_MAX: u32 = 500;

/// The page of each list of a run: the entries before its cursor, or the newest without one.
#[derive(Debug, Clone)]
pub struct DetailCall {
    /// Of each list.
    pub limit: u32,
    pub attempts_cursor: Option<String>,
    pub steps_cursor: Option<String>,
    pub history_cursor: Option<String>,
}

impl Default for DetailCall {
    fn default() -> Self {
        Self { limit: DETAIL_PAGE_MAX, attempts_cursor: None, steps_cursor: None, history_cursor: None }
    }
}

#[derive(Debug, Clone)]
pub struct PageCall {
    pub sort: Sort,
    pub limit: u32,
    pub cursor: Option<String>,
    /// Also count all matches.
    pub count: bool,
}

#[derive(Debug, Clone, Default)]
pub struct StatsCall {
    pub queue: Option<QueueName>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HourlyKind {
    Started,
    Failed,
    Retried,
    Dead,
    Recovered,
    Succeeded,
}

impl HourlyKind {
    pub const ALL: &'static [Self] =
        &[Self::Started, Self::Failed, Self::Retried, Self::Dead, Self::Recovered, Self::Succeeded];
}

/// The current number of runs by state, from the stored counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Every state, also those without runs.
    pub states: Vec<(StateName, u64)>,
    /// Dead runs by cause; only causes that occur.
    pub dead: Vec<(DeadBecause, u64)>,
    /// Scheduled runs that are held.
    pub held: u64,
}

impl StateCounts {
    pub fn of(&self, state: StateName) -> u64 {
        self.states.iter().find(|(at, _)| *at == state).map_or(0, |(_, n)| *n)
    }

    pub fn because(&self, because: DeadBecause) -> u64 {
        self.dead.iter().find(|(at, _)| *at == because).map_or(0, |(_, n)| *n)
    }
}

/// An API key as it is stored: without the secret.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRecord {
    pub id: String,
    /// The id of the first key in its line: rotation changes the id and keeps the lineage.
    pub lineage: String,
    pub hash: [u8; 32],
    pub role: Role,
    /// None: all tenants.
    pub tenant: Option<Tenant>,
    pub note: Option<Label>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}
