//! The audit log: who did what. A use case records its acts in its transaction; [`chain`] appends those of a batch to the
//! hash chain right before the commit. Reports, leases and automatic verdicts are not acts.

pub mod acts;
pub mod trim;

use std::net::IpAddr;
use std::path::PathBuf;

use redrive_core::audit::{AuditRecord, ChainedEntry};
use redrive_core::ids::Tenant;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::tx::Tx;

/// Larger descriptions of a state are replaced by their digest.
const STATE_MAX_BYTES: usize = 4_096;

/// Who acts, and the request it came with. Authentication makes one for a key; services and commands name themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actor {
    /// As in a run's history: `operator:key-…`, `cli`, `schedule:…`, `engine`.
    pub name: String,
    pub role: Option<Role>,
    /// The source address.
    pub from: Option<IpAddr>,
    pub request_id: Option<String>,
    /// The bulk operation that acts on its behalf.
    pub operation: Option<String>,
}

impl From<&str> for Actor {
    /// Without a request.
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// The server itself.
pub const ENGINE: &str = "engine";
/// Commands that open the store themselves.
pub const CLI: &str = "cli";
/// The configuration file, at a start.
pub const CONFIG: &str = "config";

/// An act, as its use case describes it.
pub struct AuditedAct<'a> {
    /// `run.replay`, `key.revoke`, …
    pub action: String,
    /// None: it is not about one tenant.
    pub tenant: Option<&'a Tenant>,
    /// A kind and an id: `run:task-42`.
    pub subject: String,
    /// States, ids, revisions and digests, never payloads.
    pub before: Map<String, Value>,
    pub after: Map<String, Value>,
    pub reason: Option<&'a Text>,
}

/// Records an act; it is stored with the commit.
pub fn record(tx: &mut Tx<'_>, actor: &Actor, act: AuditedAct<'_>) {
    let entry = AuditRecord {
        at: tx.now,
        actor: printable(&actor.name),
        role: actor.role.map(|role| role.as_str().to_owned()),
        action: act.action,
        tenant: act.tenant.map(|tenant| tenant.as_str().to_owned()),
        subject: printable(&act.subject),
        before: object(act.before),
        after: object(act.after),
        // The operation's own entry has the reason of its items.
        reason: act.reason.filter(|_| actor.operation.is_none()).map(|reason| reason.token().to_owned()),
        operation: actor.operation.clone(),
        from: actor.from.map(|from| from.to_string()),
        request_id: actor.request_id.clone(),
    };
    tx.audit.push(entry);
}

/// Appends the acts of a batch to the chain: the last step before the counters are folded. The head stays locked until the
/// commit; a batch without acts does not touch it.
pub fn chain(tx: &mut Tx<'_>) -> Result<()> {
    if tx.audit.is_empty() {
        return Ok(());
    }
    let mut last = tx.rows.audit_head()?;
    let chained = |record: AuditRecord| {
        let entry = record.chained(&last);
        last = entry.point();
        entry
    };
    let entries: Vec<ChainedEntry> = std::mem::take(&mut tx.audit).into_iter().map(chained).collect();
    Ok(tx.rows.append_audit(entries)?)
}

/// A JSON object of these fields, without those that are null.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A digest in place of a content.
pub fn digest(content: &[u8]) -> Value {
    hex(&Sha256::digest(content)).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn object(fields: Map<String, Value>) -> Option<String> {
    if fields.is_empty() {
        return None;
    }
    let text = Value::Object(fields).to_string();
    if text.len() <= STATE_MAX_BYTES {
        return Some(text);
    }
    Some(serde_json::json!({ "sha256": digest(text.as_bytes()), "bytes": text.len() }).to_string())
}

/// PostgreSQL rejects a NUL in text.
fn printable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Positions that a store keeps beside the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditMark {
    /// The last entry.
    Head,
    /// The last removed entry.
    Checkpoint,
    /// The last exported entry.
    Sealed,
}

impl AuditMark {
    /// Its name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Checkpoint => "checkpoint",
            Self::Sealed => "sealed",
        }
    }
}

/// `[audit]` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file that keeps the head outside the database; none: where the store keeps it by default.
    pub head_to: Option<PathBuf>,
    /// Exported entries are removed after so many days; none: never.
    pub days: Option<u32>,
}

/// `GET /v1/audit`: every field narrows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub actor: Option<String>,
    pub action: Option<String>,
    /// The `run_id` of the subject.
    pub run: Option<String>,
    pub operation: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditCall {
    pub filter: AuditFilter,
    pub limit: u32,
    pub cursor: Option<String>,
    /// The place in the chain and the head are for operators; cursors for others hold nothing of other tenants.
    pub shows_chain: bool,
}

/// The subject of acts on a run.
pub fn run_subject(run_id: &str) -> String {
    format!("run:{run_id}")
}
