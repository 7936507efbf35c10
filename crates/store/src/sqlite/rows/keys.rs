//! Writes of API keys, by commands and beside a server.

use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use rusqlite::{Connection, params};

use redrive_engine::error::PortResult as Result;
use redrive_engine::model::KeyRecord;
use redrive_engine::runs::document::position;

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

/// False if there is no such key. Revoking again keeps the first time.
pub(crate) fn revoke_key(conn: &Connection, id: &str, now: Timestamp) -> Result<bool> {
    let mut revoke = conn.prepare_cached("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?")?;
    Ok(revoke.execute(params![now.as_millis(), id])? == 1)
}
