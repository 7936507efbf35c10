//! Administration: queues, keys, breakers, health, statistics, limits, changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds;
use crate::breaker::BreakerStateName;
use crate::ids::{QueueName, RunId, Tenant};
use crate::policy::{PolicyLayer, RetryBy};
use crate::reason::Reason;
use crate::run::StateName;
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::words::words;

words! {
    /// What a key may do. A worker reports and leases, a tenant reads and triages its own; an operator does all of
    /// that for all tenants, and an admin also makes keys and sets queues.
    pub enum Role {
        Worker = "worker",
        Tenant = "tenant",
        Operator = "operator",
        Admin = "admin",
    }
}

/// What an admin sets on a queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::QUEUE_TEXT_MAX_BYTES))]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::QUEUE_TEXT_MAX_BYTES))]
    pub runbook: Option<String>,
    /// What an operator should know before acting; shown with every run of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::QUEUE_TEXT_MAX_BYTES))]
    pub instructions: Option<String>,
    #[serde(default)]
    pub retry_by: RetryBy,
    #[serde(default)]
    pub policy: PolicyLayer,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    pub name: QueueName,
    pub settings: QueueSettings,
    /// It has no owner.
    pub ownerless: bool,
    pub created_at: Timestamp,
    pub last_lease_call_at: Option<Timestamp>,
    pub dead: u64,
    pub scheduled: u64,
    pub running: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuesAnswer {
    pub queues: Vec<QueueView>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    pub role: Role,
    /// A tenant's name, or `*` for all; absent: `default` (operators and admins always span all).
    #[serde(default)]
    pub tenant: Option<Label>,
    #[serde(default)]
    pub note: Option<Label>,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

/// A new key: the only time its secret is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedKey {
    pub id: String,
    pub key: String,
    pub role: Role,
    pub tenant: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyView {
    pub id: String,
    pub role: Role,
    pub tenant: String,
    pub note: Option<Label>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeysAnswer {
    pub keys: Vec<KeyView>,
}

words! {
    /// What a breaker watches.
    pub enum BreakerScope {
        /// Everything that one tenant does.
        Tenant = "tenant",
        /// One tenant's requests to a provider's model.
        Model = "model",
        /// Requests of all tenants to a provider's model.
        Everywhere = "everywhere",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakerView {
    /// The name in `held_by`.
    pub name: Label,
    pub scope: BreakerScope,
    pub environment: Label,
    pub tenant: Option<Tenant>,
    pub provider: Option<Label>,
    pub model: Option<Label>,
    pub state: BreakerStateName,
    /// For a breaker shared by all tenants, only shown to keys that span tenants.
    pub since: Option<Timestamp>,
    /// Open: when one attempt may probe. Opened by hand: when it closes; absent until somebody closes it.
    pub until: Option<Timestamp>,
    /// Opened by hand: replays wait too.
    pub by_hand: bool,
    pub opened_by: Option<String>,
    pub reason: Option<Text>,
    /// Openings in a row.
    pub tries: u32,
    /// Half open: the probe is under way.
    pub probing: bool,
    /// Closed: attempts within the window; for a shared breaker, only shown to keys that span tenants.
    pub attempts: Option<u64>,
    pub failed: Option<u64>,
    /// Runs that it holds, counted up to 10,000; for a tenant its own.
    pub held: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakersAnswer {
    pub breakers: Vec<BreakerView>,
}

/// Something that happened to a breaker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BreakerEntry {
    pub at: Timestamp,
    pub breaker: Label,
    pub actor: String,
    /// opened, half_open, closed, reset or taken_over.
    pub event: String,
    pub note: Option<Text>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantBreaker {
    pub tenant: Tenant,
    /// The worst of them.
    pub state: BreakerStateName,
    pub breakers: Vec<BreakerView>,
    /// The newest first, at most 50.
    pub history: Vec<BreakerEntry>,
}

words! {
    /// What a person does to a breaker.
    pub enum BreakerAction {
        Open = "open",
        Close = "close",
        /// Close it and reset its counts.
        Reset = "reset",
    }
}

/// `POST /v1/tenants/{tenant}/breaker`: the tenant's own, or with a provider or a model the one for that.
/// `POST /v1/breakers`: everybody's for a provider and model, at least one of which is named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakerRequest {
    pub action: BreakerAction,
    #[schemars(length(max = bounds::NOTE_MAX_BYTES))]
    pub reason: Text,
    /// Only with open: when it closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// production when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Label>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantHealth {
    pub pending_retries: u64,
    pub held: u64,
    /// Open dead runs that are poison, permanent, unsafe or rejected.
    pub active_poison: u64,
    pub escalated: u64,
    pub dead: u64,
    pub recovered_24h: u64,
    pub last_failure_at: Option<Timestamp>,
    /// Of the runs that failed and came to an end in the last 24 h, the share that recovered.
    pub recovery_rate_pct: Option<f64>,
    /// The tenant's limits, if any are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TenantLimits>,
}

/// A tenant's limits, and how much of them it uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantLimits {
    pub running: u64,
    pub max_running: Option<u64>,
    pub leases_per_s: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantView {
    pub tenant: Tenant,
    pub dead: u64,
    pub scheduled: u64,
    pub running: u64,
    pub last_failure_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TenantsAnswer {
    pub tenants: Vec<TenantView>,
    pub next_cursor: Option<String>,
}

/// A queue with due work and no worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueAlert {
    pub queue: QueueName,
    pub oldest_due_at: Timestamp,
    pub last_lease_call_at: Option<Timestamp>,
    pub what_to_do: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthAnswer {
    /// ok, or attention when something waits for a person or a worker.
    pub status: String,
    pub version: String,
    pub now: Timestamp,
    pub dead: u64,
    pub review: u64,
    pub scheduled: u64,
    pub running: u64,
    pub queues_without_workers: Vec<QueueAlert>,
    pub queues_without_owner: Vec<QueueName>,
    /// Rows that a service could not read and set aside: only for keys that span tenants.
    #[serde(default)]
    pub set_aside: u64,
    /// The server's clock was set, or is behind the times in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockJump>,
}

impl HealthAnswer {
    /// Reports a jump of the clock, which needs attention.
    #[must_use]
    pub fn with_clock(mut self, jump: Option<ClockJump>) -> Self {
        if jump.is_some() {
            "attention".clone_into(&mut self.status);
        }
        self.clock = jump;
        self
    }
}

/// The server's clock was set. Redrive's time continues: a little slower where the clock is behind, until it has
/// caught up; a clock that was set forward is followed after ten minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockJump {
    pub jumped_at: Timestamp,
    /// Negative: it was set back.
    pub by_ms: i64,
    /// How far the times given out are ahead of the server's clock now.
    pub ahead_ms: u64,
}

/// One hour of one kind of event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsPoint {
    pub hour: Timestamp,
    pub started: u64,
    pub failed: u64,
    pub retried: u64,
    pub dead: u64,
    pub recovered: u64,
    pub succeeded: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsAnswer {
    pub since: Timestamp,
    pub until: Timestamp,
    pub hours: Vec<StatsPoint>,
    /// Failed attempts by reason over the whole span.
    pub reasons: Vec<(Reason, u64)>,
    /// Runs by state now.
    pub states: Vec<(StateName, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsAnswer {
    pub body_max_bytes: u64,
    pub in_flight_max_bytes: u64,
    pub id_max_bytes: u64,
    pub label_max_bytes: u64,
    pub attempt_max: u32,
    pub lease_ms_min: u64,
    pub lease_ms_max: u64,
    pub leases_max: u32,
    pub lease_payload_max_bytes: u64,
    pub wait_ms_max: u64,
    pub page_max: u32,
    pub count_max: u64,
    pub step_output_max_bytes: u64,
}

/// A run that moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeEntry {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub queue: QueueName,
    pub state: StateName,
    pub attempt: u32,
    pub reason: Option<Reason>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesAnswer {
    /// Each run at most once, in its current state.
    pub changes: Vec<ChangeEntry>,
    /// Pass it as `since` next time.
    pub next: String,
    /// `since` is too old for the change log: read the list again.
    pub reset: bool,
}
