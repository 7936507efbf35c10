//! Keys: never the secret, only its hash.

use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use rusqlite::{Connection, OptionalExtension, params};

use crate::shared::keys::{KEYS, key_of};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::KeyRecord;
use redrive_engine::runs::document::position;

/// All keys, the oldest first.
pub(crate) fn list_keys(conn: &Connection) -> Result<Vec<KeyRecord>> {
    let mut find = conn.prepare_cached(&format!("{KEYS} ORDER BY created_at, id"))?;
    find.query_and_then([], |row| key_of(row))?.collect()
}

/// Also finds keys that are revoked or expired: whoever asks decides what that means.
pub(crate) fn key_by_hash(conn: &Connection, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
    let mut find = conn.prepare_cached(&format!("{KEYS} WHERE hash = ?"))?;
    find.query_row([hash.as_slice()], |row| Ok(key_of(row))).optional()?.transpose()
}

pub(crate) fn insert_key(conn: &Connection, key: &KeyRecord) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO keys (id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    insert.execute(params![
        key.id,
        key.hash.as_slice(),
        position(Role::ALL, &key.role),
        key.tenant.as_ref().map(|tenant| tenant.as_str()),
        key.note.as_ref().map(|note| note.as_str()),
        key.created_at.as_millis(),
        key.expires_at.map(Timestamp::as_millis),
        key.revoked_at.map(Timestamp::as_millis),
        key.lineage,
    ])?;
    Ok(())
}

/// False when there is no such key. Revoking again keeps the first time.
pub(crate) fn revoke_key(conn: &Connection, id: &str, now: Timestamp) -> Result<bool> {
    let mut revoke = conn.prepare_cached("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?")?;
    Ok(revoke.execute(params![now.as_millis(), id])? == 1)
}
