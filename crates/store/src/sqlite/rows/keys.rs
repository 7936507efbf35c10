//! Writes of API keys, by commands and beside a server; and of portal links.

use redrive_core::ids::Tenant;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use rusqlite::{Connection, OptionalExtension, params};

use crate::numbers::limit;
use crate::shared::keys::{KEYS, joined, key_of};
use crate::sqlite::rows::SqliteRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{KeyRecord, KeyUse, PortalLinkRecord, Swept};
use redrive_engine::ports::rows::AccessRows;
use redrive_engine::runs::document::position;

impl AccessRows for SqliteRows<'_> {
    fn has_keys(&mut self) -> Result<bool> {
        Ok(self.conn.prepare_cached("SELECT 1 FROM keys")?.exists([])?)
    }

    fn key(&mut self, id: &str) -> Result<Option<KeyRecord>> {
        find_key(self.conn, id)
    }

    fn insert_key(&mut self, key: &KeyRecord) -> Result<()> {
        insert_key(self.conn, key)
    }

    fn revoke_key(&mut self, id: &str, by: &str, now: Timestamp) -> Result<bool> {
        revoke_key(self.conn, id, by, now)
    }

    fn tenant_of_key(&mut self, id: &str) -> Result<Option<String>> {
        let mut find = self.conn.prepare_cached("SELECT tenant FROM keys WHERE id = ?1")?;
        Ok(find.query_row([id], |row| row.get(0)).optional()?.flatten())
    }

    fn end_key(&mut self, id: &str, at: Timestamp) -> Result<()> {
        end_key(self.conn, id, at)
    }

    fn put_key_use(&mut self, used: &KeyUse) -> Result<()> {
        let mut put = self
            .conn
            .prepare_cached("UPDATE keys SET last_used_at = ?1 WHERE id = ?2 AND ifnull(last_used_at, 0) < ?1")?;
        put.execute(params![used.at.as_millis(), used.id])?;
        Ok(())
    }

    fn insert_portal_link(&mut self, link: &PortalLinkRecord) -> Result<()> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO portal_links (id, tenant, hash, session, created_at, created_by, expires_at, used_at, revoked_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        insert.execute(params![
            link.id,
            link.tenant.as_str(),
            link.hash.as_slice(),
            link.session.as_ref().map(|session| session.as_slice()),
            link.created_at.as_millis(),
            link.created_by.as_str(),
            link.expires_at.as_millis(),
            link.used_at.map(Timestamp::as_millis),
            link.revoked_at.map(Timestamp::as_millis),
        ])?;
        Ok(())
    }

    fn live_portal_links(&mut self, tenant: &Tenant, now: Timestamp) -> Result<usize> {
        let sql = "SELECT count(*) FROM portal_links WHERE tenant = ?1 AND expires_at > ?2 AND revoked_at IS NULL";
        Ok(self.conn.prepare_cached(sql)?.query_row(params![tenant.as_str(), now.as_millis()], |row| row.get(0))?)
    }

    fn open_portal_link(&mut self, hash: &[u8; 32], session: &[u8; 32], now: Timestamp) -> Result<bool> {
        let mut open = self.conn.prepare_cached(
            "UPDATE portal_links SET session = ?2, used_at = ?3
             WHERE hash = ?1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > ?3",
        )?;
        Ok(open.execute(params![hash.as_slice(), session.as_slice(), now.as_millis()])? == 1)
    }

    fn revoke_portal_link(&mut self, id: &str, now: Timestamp) -> Result<bool> {
        let mut revoke =
            self.conn.prepare_cached("UPDATE portal_links SET revoked_at = ifnull(revoked_at, ?2) WHERE id = ?1")?;
        Ok(revoke.execute(params![id, now.as_millis()])? == 1)
    }

    fn trim_portal_links(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let mut delete = self.conn.prepare_cached(
            "DELETE FROM portal_links WHERE id IN
                 (SELECT id FROM portal_links WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)",
        )?;
        let gone = delete.execute(params![before.as_millis(), limit(most)])?;
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }
}

pub(crate) fn find_key(conn: &Connection, id: &str) -> Result<Option<KeyRecord>> {
    let mut find = conn.prepare_cached(&format!("{KEYS} WHERE id = ?"))?;
    find.query_row([id], |row| Ok(key_of(row))).optional()?.transpose()
}

pub(crate) fn insert_key(conn: &Connection, key: &KeyRecord) -> Result<()> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO keys (id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage, name, scopes, \
             queues, created_by, revoked_by, last_used_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        key.name.as_ref().map(|name| name.as_str()),
        joined(key.limits.scopes.as_ref()),
        joined(key.limits.queues.as_ref()),
        key.created_by.as_ref().map(|by| by.as_str()),
        key.revoked_by.as_ref().map(|by| by.as_str()),
        key.last_used_at.map(Timestamp::as_millis),
    ])?;
    Ok(())
}

/// False if there is no such key. Revoking again keeps the first time and actor.
pub(crate) fn revoke_key(conn: &Connection, id: &str, by: &str, now: Timestamp) -> Result<bool> {
    let mut revoke = conn.prepare_cached(
        "UPDATE keys SET revoked_by = CASE WHEN revoked_at IS NULL THEN ?2 ELSE revoked_by END, \
             revoked_at = ifnull(revoked_at, ?1) WHERE id = ?3",
    )?;
    Ok(revoke.execute(params![now.as_millis(), by, id])? == 1)
}

pub(crate) fn end_key(conn: &Connection, id: &str, at: Timestamp) -> Result<()> {
    conn.prepare_cached("UPDATE keys SET expires_at = ? WHERE id = ?")?.execute(params![at.as_millis(), id])?;
    Ok(())
}
