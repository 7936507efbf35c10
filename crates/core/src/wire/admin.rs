//! Queues and keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::QueueName;
use crate::policy::{PolicyLayer, RetryBy};
use crate::text::Label;
use crate::time::Timestamp;
use crate::wire::bounds;
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
    /// Nobody has said whose it is.
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
