//! Keys: never the secret, only its hash.

use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{label_or_none, parsed_or_none, time, time_or_none, unexpected};
use super::life::{position, word};
use crate::error::Result;
use crate::model::KeyRecord;

/// All keys, the oldest first.
pub(super) fn list_keys(conn: &Connection) -> Result<Vec<KeyRecord>> {
    let mut find = conn.prepare_cached(
        "SELECT id, hash, role, tenant, note, created_at, expires_at, revoked_at FROM keys ORDER BY created_at, id",
    )?;
    find.query_and_then([], key_of)?.collect()
}

/// Also finds keys that are revoked or expired: whoever asks decides what that means.
pub(super) fn key_by_hash(conn: &Connection, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
    let mut find = conn.prepare_cached(
        "SELECT id, hash, role, tenant, note, created_at, expires_at, revoked_at FROM keys WHERE hash = ?",
    )?;
    find.query_row([hash.as_slice()], |row| Ok(key_of(row))).optional()?.transpose()
}

pub(super) fn insert_key(conn: &Connection, key: &KeyRecord) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO keys (id, hash, role, tenant, note, created_at, expires_at, revoked_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
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
    ])?;
    Ok(())
}

/// False when there is no such key. Revoking again keeps the first time.
pub(super) fn revoke_key(conn: &Connection, id: &str, now: Timestamp) -> Result<bool> {
    let mut revoke = conn.prepare_cached("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?")?;
    Ok(revoke.execute(params![now.as_millis(), id])? == 1)
}

fn key_of(row: &Row<'_>) -> Result<KeyRecord> {
    Ok(KeyRecord {
        id: row.get(0)?,
        hash: row.get::<_, Vec<u8>>(1)?.try_into().map_err(|_| unexpected("key hash"))?,
        role: word(Role::ALL, row.get(2)?, "role")?,
        tenant: parsed_or_none(row, 3, "tenant")?,
        note: label_or_none(row, 4)?,
        created_at: time(row, 5)?,
        expires_at: time_or_none(row, 6)?,
        revoked_at: time_or_none(row, 7)?,
    })
}
