//! Keys: never the secret, only its hash.

use redrive_core::wire::Role;

use crate::shared::columns::{
    Columns, bytes, label_or_none, number, owned, parsed_or_none, time, time_or_none, unexpected,
};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::KeyRecord;
use redrive_engine::runs::document::word;

/// Of what [`key_of`] reads; a condition or an order follows.
pub(crate) const KEYS: &str =
    "SELECT id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage FROM keys";

pub(crate) fn key_of(row: &impl Columns) -> Result<KeyRecord> {
    Ok(KeyRecord {
        id: owned(row, 0)?,
        hash: bytes(row, 1)?.try_into().map_err(|_| unexpected("key hash"))?,
        role: word(Role::ALL, number(row, 2)?, "role")?,
        tenant: parsed_or_none(row, 3, "tenant")?,
        note: label_or_none(row, 4)?,
        created_at: time(row, 5)?,
        expires_at: time_or_none(row, 6)?,
        revoked_at: time_or_none(row, 7)?,
        lineage: owned(row, 8)?,
    })
}
