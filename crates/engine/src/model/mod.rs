//! What goes into a store and what comes out, beside the wire's own types. Handlers prepare these completely
//! (classified, fingerprinted, encoded), so that the committer only reads state, asks, and writes.

use std::collections::BTreeMap;

use redrive_core::breaker::StateName as BreakerState;
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

pub mod breakers;
pub mod lease;
pub mod operations;
pub mod patterns;
pub mod triage;

use crate::codec::{HEAD_BYTES, decoded_len};
pub use crate::error::Reported;
pub use crate::model::lease::{LeaseCall, LeaseToken, NotALease, Success, UnderLease};

/// The first bytes of a SHA-256: enough to know the same content again.
pub type Digest = [u8; 16];

/// Whose runs an act may see. Made from a key by authentication, and by nothing else in the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantScope {
    One(Tenant),
    All,
}

/// One run, named.
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
    /// Too large to send; only its size and hash are known.
    Omitted,
}

impl PayloadKind {
    pub const ALL: &'static [Self] = &[Self::None, Self::Json, Self::Bytes, Self::Omitted];
}

/// A payload, ready to be kept.
#[derive(Debug, Clone)]
pub struct Payload {
    pub kind: PayloadKind,
    pub digest: Digest,
    /// Through [`crate::encode`].
    pub encoded: Vec<u8>,
}

impl Payload {
    /// How long it is in an answer.
    pub fn bytes(&self) -> usize {
        decoded_len(self.encoded.len(), self.encoded.get(..HEAD_BYTES).unwrap_or(&self.encoded))
    }
}

/// What is kept of a run beside its row, as JSON through the codec.
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

/// A worker's key, by its lineage, as runs remember who began or reported them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyMark(u64);

impl KeyMark {
    /// Six bytes of its hash: a run's row carries them, and no two keys of a tenant share them.
    pub fn of_lineage(lineage: &str) -> Self {
        let hash = Sha256::digest(lineage.as_bytes());
        Self(hash.iter().take(6).fold(0, |mark, byte| mark << 8 | u64::from(*byte)))
    }
}

/// What describes a run when it is first heard of.
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
    /// Absent: false for a new run, as it was for a known one.
    pub resumable: Option<bool>,
    pub payload: Payload,
    /// [`About`] as JSON, encoded.
    pub about: Vec<u8>,
    /// The worker's key that brings it; whoever else may read it needs no mark.
    pub by: Option<KeyMark>,
}

/// What is kept of an attempt beside its row, as JSON through the codec. Raw tokens inside stay as they came.
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
    /// What was cut, by field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub truncated: BTreeMap<String, PayloadOmitted>,
}

/// How an attempt came to be, known only to the server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AttemptOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Label>,
    pub revision: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replay: bool,
    /// As the worker said when it began.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: Versions,
    /// How the breakers of the run stood when a failure was answered; closed where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerState>,
}

/// A failed attempt, classified and fingerprinted.
#[derive(Debug, Clone)]
pub struct FailedAttempt {
    /// As the reporter numbered it; a failure under a lease has the lease's number.
    pub attempt: Option<u32>,
    pub digest: Digest,
    pub failure: Failure,
    pub fingerprint: Fingerprint,
    pub model: Option<Label>,
    pub provider: Option<Label>,
    pub tool: Option<Label>,
    pub step: Option<Label>,
    /// That this attempt ran with; none under a lease, which knows them from its beginning.
    pub versions: Versions,
    /// How long it ran, by the client's own clock.
    pub took_ms: Option<u64>,
    /// What a rule makes of the run's severity.
    pub severity: Option<Severity>,
    /// [`AttemptBody`] as JSON, encoded.
    pub body: Vec<u8>,
    pub steps: Vec<NewStep>,
    /// The worker's key that reports it.
    pub by: Option<KeyMark>,
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
    /// None: as it was recorded before; a new one counts as an effect.
    pub effect: Option<bool>,
    pub status: StepStatus,
    /// The JSON token, encoded; none above the limit.
    pub output: Option<Vec<u8>>,
    pub output_omitted: Option<PayloadOmitted>,
    /// How to find out whether it happened: a JSON string, encoded.
    pub check: Option<Vec<u8>>,
    /// The outcome was found by that check.
    pub checked: bool,
    /// The call that it is.
    pub call_id: Option<CallId>,
}

impl NewStep {
    /// Whether its key stands for it in the whole tenant. One that is made of its name, given or not, is its run's.
    pub fn has_own_key(&self) -> bool {
        self.key.as_ref().is_some_and(|key| !is_of_name(key.as_str()))
    }
}

/// One entry of the ledger, named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectRef {
    pub tenant: Tenant,
    pub key: StepKey,
    /// Needed for what is unique within its run only: plain steps, and effects that gave no key.
    pub run_id: Option<RunId>,
}

/// `POST /v1/effects/{key}/reconcile`.
#[derive(Debug, Clone)]
pub struct Reconcile {
    pub at: EffectRef,
    pub outcome: EffectOutcome,
    /// The JSON token, encoded; none above the limit.
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
    /// That an attempt begun by this call runs with.
    pub versions: Versions,
    pub idle_ms: Option<u64>,
    pub deadline_ms: Option<u64>,
    /// What was found before its first attempt.
    pub fit: Fit,
}

/// Whether a new run's payload fits its model, where its queue has that enforced.
#[derive(Debug, Clone, Default)]
pub enum Fit {
    #[default]
    AsItIs,
    /// Once these changes are made, from the first attempt on.
    With(Vec<Change>),
    /// Not at all: it is kept as a dead letter, with the reason in a sentence.
    Never { rule: &'static str, why: String },
}

/// The payload that an attempt gets in place of its revision's.
#[derive(Debug, Clone)]
pub struct NewSentPayload {
    /// Each change with whether it was made, as JSON, encoded.
    pub changes: Vec<u8>,
    /// The JSON token, encoded.
    pub body: Vec<u8>,
}

/// The payload that an attempt got, beside the one it was made of.
#[derive(Debug, Clone)]
pub struct SentPayload {
    pub attempt: u32,
    pub revision: u32,
    /// Every change with whether it was made; empty when the payload went out as it is.
    pub changes: Vec<HandedChange>,
    /// None: it went out as it is.
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
    /// The run was not known before.
    pub created: bool,
    /// Where the run is: its settings say how its payload is read.
    pub queue: QueueName,
    /// What has been decided is that this attempt gets another payload than the one sent; it is still to be made of the
    /// answer's.
    pub to_prepare: bool,
    /// The payload is not the one that was sent, whatever is made of it.
    pub payload_differs: bool,
}

/// What a background service did in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    pub looked_at: usize,
    pub moved: usize,
    /// There may be more: look again at once.
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

/// Which page of each list of a run is read: what lies before its cursor, the newest without one.
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
    /// Also say how many there are in all.
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

/// A key as the store keeps it: never the secret.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRecord {
    pub id: String,
    /// The id of the key that it was first: a rotated key has another id and the same lineage.
    pub lineage: String,
    pub hash: [u8; 32],
    pub role: Role,
    /// None: spans all tenants.
    pub tenant: Option<Tenant>,
    pub note: Option<Label>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}
