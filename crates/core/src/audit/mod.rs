//! The audit log as a hash chain, and the check that finds edits, insertions, deletions, reordering and truncation.
//!
//! The hash of an entry is SHA-256 over the hash before it and the entry's canonical bytes. The newest position is kept in the
//! database and outside of it, so that a chain that was cut or computed again is found too.

mod ecs;
mod verify;

pub use ecs::ecs_line;
pub use verify::{Fault, Tampered, Verified, Verifier};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

use crate::time::Timestamp;

/// The action of the entry that proves a checkpoint.
pub const TRIM: &str = "audit.trim";

const HASH_BYTES: usize = 32;
/// The first of the canonical bytes, for a later format.
const FORMAT: u8 = 1;

/// The hash of an entry and everything before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ChainHash(pub [u8; HASH_BYTES]);

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 hexadecimal digits")]
pub struct BadHash;

impl FromStr for ChainHash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        if text.len() != 2 * HASH_BYTES || !text.is_ascii() {
            return Err(BadHash);
        }
        let mut hash = [0; HASH_BYTES];
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| BadHash)?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A position in the chain. The default is the one before the first entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChainPoint {
    pub seq: i64,
    pub hash: ChainHash,
    pub at: Timestamp,
}

impl ChainPoint {
    /// `after` of the entry that proves that everything up to here was exported and removed.
    pub fn trim_proof(&self) -> String {
        format!(r#"{{"hash":"{}","seq":{}}}"#, self.hash, self.seq)
    }
}

/// An act, as texts: what a person wrote is bounded by the wire format, everything else is ids, states and digests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditRecord {
    /// Never before that of the entry before it.
    pub at: Timestamp,
    pub actor: String,
    pub role: Option<String>,
    pub action: String,
    pub tenant: Option<String>,
    /// A kind and an id: `run:task-42`.
    pub subject: String,
    /// A JSON object.
    pub before: Option<String>,
    /// A JSON object.
    pub after: Option<String>,
    /// A JSON string, as sent.
    pub reason: Option<String>,
    /// The bulk operation that it is part of.
    pub operation: Option<String>,
    /// The source address.
    pub from: Option<String>,
    pub request_id: Option<String>,
}

impl AuditRecord {
    /// The entry after `last`. Time does not go back in the chain, so that a time is found by bisection.
    #[must_use]
    pub fn chained(mut self, last: &ChainPoint) -> ChainedEntry {
        self.at = self.at.max(last.at);
        let seq = last.seq + 1;
        let hash = self.hash(seq, &last.hash);
        ChainedEntry { seq, record: self, hash }
    }

    fn hash(&self, seq: i64, before: &ChainHash) -> ChainHash {
        let mut bytes = Vec::with_capacity(512);
        self.write_canonical(seq, &mut bytes);
        ChainHash(Sha256::new().chain_update(before.0).chain_update(&bytes).finalize().into())
    }

    /// Every field with its length, so that no two records have the same bytes.
    fn write_canonical(&self, seq: i64, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&seq.to_le_bytes());
        out.extend_from_slice(&self.at.as_millis().to_le_bytes());
        let fields = [
            Some(&self.actor),
            self.role.as_ref(),
            Some(&self.action),
            self.tenant.as_ref(),
            Some(&self.subject),
            self.before.as_ref(),
            self.after.as_ref(),
            self.reason.as_ref(),
            self.operation.as_ref(),
            self.from.as_ref(),
            self.request_id.as_ref(),
        ];
        for field in fields {
            match field {
                Some(text) => {
                    out.push(1);
                    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
                None => out.push(0),
            }
        }
    }
}

/// A stored entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedEntry {
    pub seq: i64,
    pub record: AuditRecord,
    pub hash: ChainHash,
}

impl ChainedEntry {
    pub fn point(&self) -> ChainPoint {
        ChainPoint { seq: self.seq, hash: self.hash, at: self.record.at }
    }
}

#[cfg(test)]
mod tests;
