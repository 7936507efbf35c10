//! `GET /v1/audit`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RawJson;
use crate::text::Text;
use crate::time::Timestamp;

/// An act of a person, key, schedule or agent. It holds ids, states and digests, never payloads.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Its place in the chain, without gaps. Tenants do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    pub at: Timestamp,
    /// `operator:key-…`, `cli`, `config`, `schedule:…`, `engine`.
    pub actor: String,
    pub role: Option<String>,
    /// `run.replay`, `key.revoke`, `operation.create`, …
    pub action: String,
    pub tenant: Option<String>,
    /// A kind and an id: `run:task-42`.
    pub subject: String,
    #[schemars(with = "Option<serde_json::Value>")]
    pub before: Option<RawJson>,
    #[schemars(with = "Option<serde_json::Value>")]
    pub after: Option<RawJson>,
    pub reason: Option<Text>,
    /// The bulk operation that it is part of.
    pub operation: Option<String>,
    /// The source address of the request.
    pub from: Option<String>,
    pub request_id: Option<String>,
    /// SHA-256 of the hash before it and the entry. Tenants do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// The last entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditHead {
    pub seq: i64,
    pub hash: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AuditAnswer {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    pub next_cursor: Option<String>,
    /// Tenants do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<AuditHead>,
}
