//! API keys. The store has the hash of a secret, never the secret.

use redrive_core::wire::Role;

use super::columns::{Columns, bytes, label_or_none, number, owned, parsed_or_none, time, time_or_none, unexpected};
use super::reader::{SqlParam, SqlReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::KeyRecord;
use redrive_engine::runs::document::word;

/// The columns of [`key_of`].
const KEYS: &str = "SELECT id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage FROM keys";

/// All keys, the oldest first.
pub(crate) async fn list_keys(reader: &impl SqlReader) -> Result<Vec<KeyRecord>> {
    reader.rows(&format!("{KEYS} ORDER BY created_at, id"), &[]).await?.read(key_of)
}

/// Also finds revoked and expired keys.
pub(crate) async fn key_by_hash(reader: &impl SqlReader, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
    let hash = SqlParam::Bytes(hash.to_vec());
    reader.row(&format!("{KEYS} WHERE hash = $1"), &[hash]).await?.read(key_of)
}

fn key_of(row: &impl Columns) -> Result<KeyRecord> {
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
