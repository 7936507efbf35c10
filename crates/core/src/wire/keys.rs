//! Keys and the links of the tenant portal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bounds;
use crate::access::{KEY_QUEUES_MAX, KEY_SCOPES_MAX, KeyScope};
use crate::ids::{QueueName, Tenant};
use crate::text::Label;
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    pub role: Role,
    /// A tenant's name, or `*` for all; absent: `default` (operators and admins always span all).
    #[serde(default)]
    pub tenant: Option<Label>,
    /// What it is called in lists and logs.
    #[serde(default)]
    pub name: Option<Label>,
    #[serde(default)]
    pub note: Option<Label>,
    /// Absent: all that the role may do. With scopes, only what they name.
    #[serde(default)]
    #[schemars(length(min = 1, max = KEY_SCOPES_MAX))]
    pub scopes: Option<Vec<KeyScope>>,
    /// The queues that it may touch; absent: all.
    #[serde(default)]
    #[schemars(length(min = 1, max = KEY_QUEUES_MAX))]
    pub queues: Option<Vec<QueueName>>,
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
    /// The first key of its rotations; its own id if it was never rotated.
    #[serde(default)]
    pub lineage: String,
    pub role: Role,
    pub tenant: String,
    pub name: Option<Label>,
    pub note: Option<Label>,
    /// None: all that the role may do.
    pub scopes: Option<Vec<KeyScope>>,
    /// None: all queues.
    pub queues: Option<Vec<QueueName>>,
    pub created_at: Timestamp,
    /// Who made it; none for keys from before this was recorded.
    pub created_by: Option<Label>,
    pub expires_at: Option<Timestamp>,
    /// To about a minute; none for a key that was never used.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub revoked_by: Option<Label>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeysAnswer {
    pub keys: Vec<KeyView>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// How long the old key works beside the new one; 0 or absent: it ends at once.
    #[serde(default)]
    #[schemars(range(max = bounds::KEY_OVERLAP_MS_MAX))]
    pub overlap_ms: u64,
}

/// The successor of a key: the only time its secret is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RotatedKey {
    pub id: String,
    pub key: String,
    /// The key that it replaces, and when that one ends.
    pub replaces: String,
    pub replaced_until: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePortalLink {
    pub tenant: Tenant,
    /// When the link and the session that it opens end; absent: an hour, at most a day.
    #[serde(default)]
    #[schemars(range(min = bounds::PORTAL_MS_MIN, max = bounds::PORTAL_MS_MAX))]
    pub expires_ms: Option<u64>,
}

/// A new link: the only time its secret is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedPortalLink {
    pub id: String,
    pub url: String,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortalLinkView {
    pub id: String,
    pub tenant: Tenant,
    pub created_at: Timestamp,
    pub created_by: Label,
    /// The link's end and its session's.
    pub expires_at: Timestamp,
    /// When it was opened, which began its session.
    pub used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortalLinksAnswer {
    /// Newest first, at most 1,000.
    pub links: Vec<PortalLinkView>,
}
