//! Keys and portal links as they are stored: without their secrets.

use redrive_core::access::KeyLimits;
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{KeyView, Role};

use crate::audit::Actor;

/// An API key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRecord {
    pub id: String,
    /// The id of the first key in its line: rotation changes the id and keeps the lineage.
    pub lineage: String,
    pub hash: [u8; 32],
    pub role: Role,
    /// None: all tenants.
    pub tenant: Option<Tenant>,
    pub name: Option<Label>,
    pub note: Option<Label>,
    pub limits: KeyLimits,
    pub created_at: Timestamp,
    pub created_by: Option<Label>,
    pub expires_at: Option<Timestamp>,
    /// Written about once a minute.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub revoked_by: Option<Label>,
}

impl KeyRecord {
    /// A key that nothing narrows and that never ends.
    pub fn new(id: String, hash: [u8; 32], role: Role, tenant: Option<Tenant>, created_at: Timestamp) -> Self {
        Self {
            lineage: id.clone(),
            id,
            hash,
            role,
            tenant,
            name: None,
            note: None,
            limits: KeyLimits::default(),
            created_at,
            created_by: None,
            expires_at: None,
            last_used_at: None,
            revoked_at: None,
            revoked_by: None,
        }
    }

    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// As lists show it: without its hash.
impl From<KeyRecord> for KeyView {
    fn from(key: KeyRecord) -> Self {
        Self {
            id: key.id,
            lineage: key.lineage,
            role: key.role,
            tenant: key.tenant.map_or_else(|| "*".into(), |tenant| tenant.to_string()),
            name: key.name,
            note: key.note,
            scopes: key.limits.scopes.map(|scopes| scopes.into_iter().collect()),
            queues: key.limits.queues.map(|queues| queues.into_iter().collect()),
            created_at: key.created_at,
            created_by: key.created_by,
            expires_at: key.expires_at,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
            revoked_by: key.revoked_by,
        }
    }
}

/// A key gets a successor.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyRotation {
    /// The key that is replaced.
    pub id: String,
    /// The successor's id and the hash of its secret.
    pub new_id: String,
    pub new_hash: [u8; 32],
    /// How long both work.
    pub overlap_ms: u64,
    pub actor: Actor,
}

/// A rotation as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RotatedRecord {
    pub successor: KeyRecord,
    /// When the replaced key ends.
    pub replaced_until: Timestamp,
}

/// A key was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    pub id: String,
    pub at: Timestamp,
}

/// Links of one tenant that have not ended.
pub const PORTAL_LINKS_PER_TENANT_MAX: usize = 1_000;

/// A link that logs a browser in once as its tenant, and the session that it began.
#[derive(Debug, Clone, PartialEq)]
pub struct PortalLinkRecord {
    pub id: String,
    pub tenant: Tenant,
    /// Of the link's secret.
    pub hash: [u8; 32],
    /// Of the session's secret; none until the link is opened.
    pub session: Option<[u8; 32]>,
    pub created_at: Timestamp,
    pub created_by: Label,
    /// The end of the link and of its session.
    pub expires_at: Timestamp,
    pub used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}
