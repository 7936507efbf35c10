//! Writes of API keys, by commands and beside a server; and of portal links.

use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use tokio_postgres::types::ToSql;

use crate::numbers::{counted, limit};
use crate::postgres::reads::columns::{number, owned_or_none};
use crate::postgres::rows::PgRows;
use crate::shared::keys::{KEYS, joined, key_of};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{KeyRecord, KeyUse, PortalLinkRecord, Swept};
use redrive_engine::ports::rows::AccessRows;
use redrive_engine::runs::document::position;

pub(crate) const INSERT_KEY: &str =
    "INSERT INTO keys (id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage, name, scopes, queues,
         created_by, revoked_by, last_used_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

/// `$1` the id, `$2` the actor, `$3` now. Revoking again keeps the first time and actor.
pub(crate) const REVOKE_KEY: &str =
    "UPDATE keys SET revoked_by = CASE WHEN revoked_at IS NULL THEN $2 ELSE revoked_by END,
         revoked_at = coalesce(revoked_at, $3) WHERE id = $1";

/// `$1` the id, `$2` the time.
pub(crate) const END_KEY: &str = "UPDATE keys SET expires_at = $2 WHERE id = $1";

/// A key as the values of [`INSERT_KEY`].
pub(crate) struct KeyColumns<'a> {
    key: &'a KeyRecord,
    hash: &'a [u8],
    role: i64,
    tenant: Option<&'a str>,
    note: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    times: [Option<i64>; 4],
    scopes: Option<String>,
    queues: Option<String>,
    actors: [Option<&'a str>; 2],
}

impl<'a> KeyColumns<'a> {
    pub(crate) fn of(key: &'a KeyRecord) -> Self {
        let bytes = |label: &'a Option<Label>| label.as_ref().map(|label| label.as_str().as_bytes());
        let text = |label: &'a Option<Label>| label.as_ref().map(Label::as_str);
        let times = [Some(key.created_at), key.expires_at, key.revoked_at, key.last_used_at];
        Self {
            key,
            hash: &key.hash,
            role: position(Role::ALL, &key.role),
            tenant: key.tenant.as_ref().map(|tenant| tenant.as_str()),
            note: bytes(&key.note),
            name: bytes(&key.name),
            times: times.map(|at| at.map(Timestamp::as_millis)),
            scopes: joined(key.limits.scopes.as_ref()),
            queues: joined(key.limits.queues.as_ref()),
            actors: [text(&key.created_by), text(&key.revoked_by)],
        }
    }

    pub(crate) fn values(&self) -> [&(dyn ToSql + Sync); 15] {
        let [created_at, expires_at, revoked_at, last_used_at] = &self.times;
        let [created_by, revoked_by] = &self.actors;
        [
            &self.key.id,
            &self.hash,
            &self.role,
            &self.tenant,
            &self.note,
            created_at,
            expires_at,
            revoked_at,
            &self.key.lineage,
            &self.name,
            &self.scopes,
            &self.queues,
            created_by,
            revoked_by,
            last_used_at,
        ]
    }
}

impl AccessRows for PgRows<'_> {
    fn has_keys(&mut self) -> Result<bool> {
        self.run("LOCK TABLE keys IN SHARE ROW EXCLUSIVE MODE", &[])?;
        Ok(self.ask_one("SELECT 1 FROM keys LIMIT 1", &[])?.is_some())
    }

    fn key(&mut self, id: &str) -> Result<Option<KeyRecord>> {
        let row = self.ask_one(&format!("{KEYS} WHERE id = $1 FOR UPDATE"), &[&id])?;
        row.map(|row| key_of(&row)).transpose()
    }

    fn insert_key(&mut self, key: &KeyRecord) -> Result<()> {
        self.run(INSERT_KEY, &KeyColumns::of(key).values())?;
        Ok(())
    }

    fn revoke_key(&mut self, id: &str, by: &str, now: Timestamp) -> Result<bool> {
        Ok(self.run(REVOKE_KEY, &[&id, &by, &now.as_millis()])? == 1)
    }

    fn tenant_of_key(&mut self, id: &str) -> Result<Option<String>> {
        let found = self.ask_one("SELECT tenant FROM keys WHERE id = $1", &[&id])?;
        Ok(found.map(|row| owned_or_none(&row, 0)).transpose()?.flatten())
    }

    fn end_key(&mut self, id: &str, at: Timestamp) -> Result<()> {
        self.run(END_KEY, &[&id, &at.as_millis()])?;
        Ok(())
    }

    fn put_key_use(&mut self, used: &KeyUse) -> Result<()> {
        let sql = "UPDATE keys SET last_used_at = $1 WHERE id = $2 AND coalesce(last_used_at, 0) < $1";
        self.run(sql, &[&used.at.as_millis(), &used.id])?;
        Ok(())
    }

    fn insert_portal_link(&mut self, link: &PortalLinkRecord) -> Result<()> {
        let sql = "INSERT INTO portal_links (id, tenant, hash, session, created_at, created_by, expires_at, used_at, revoked_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        self.run(
            sql,
            &[
                &link.id,
                &link.tenant.as_str(),
                &link.hash.as_slice(),
                &link.session.as_ref().map(|session| session.as_slice()),
                &link.created_at.as_millis(),
                &link.created_by.as_str(),
                &link.expires_at.as_millis(),
                &link.used_at.map(Timestamp::as_millis),
                &link.revoked_at.map(Timestamp::as_millis),
            ],
        )?;
        Ok(())
    }

    /// Two replicas may count at the same time; the bound is for the size of the table, so one more does no harm.
    fn live_portal_links(&mut self, tenant: &Tenant, now: Timestamp) -> Result<usize> {
        let sql = "SELECT count(*) FROM portal_links WHERE tenant = $1 AND expires_at > $2 AND revoked_at IS NULL";
        let row = self.ask_one(sql, &[&tenant.as_str(), &now.as_millis()])?;
        let count = row.map(|row| number(&row, 0)).transpose()?.unwrap_or_default();
        Ok(counted(count))
    }

    fn open_portal_link(&mut self, hash: &[u8; 32], session: &[u8; 32], now: Timestamp) -> Result<bool> {
        let sql = "UPDATE portal_links SET session = $2, used_at = $3
             WHERE hash = $1 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > $3";
        Ok(self.run(sql, &[&hash.as_slice(), &session.as_slice(), &now.as_millis()])? == 1)
    }

    fn revoke_portal_link(&mut self, id: &str, now: Timestamp) -> Result<bool> {
        let sql = "UPDATE portal_links SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1";
        Ok(self.run(sql, &[&id, &now.as_millis()])? == 1)
    }

    fn trim_portal_links(&mut self, before: Timestamp, most: usize) -> Result<Swept> {
        let sql = "DELETE FROM portal_links WHERE id IN
             (SELECT id FROM portal_links WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)";
        let gone = counted(self.run(sql, &[&before.as_millis(), &limit(most)])?);
        Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
    }
}
