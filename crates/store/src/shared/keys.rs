//! API keys and portal links. The store has the hash of a secret, never the secret.

use std::collections::BTreeSet;
use std::str::FromStr;

use redrive_core::access::KeyLimits;
use redrive_core::ids::Tenant;
use redrive_core::text::Label;
use redrive_core::wire::Role;

use super::columns::{
    Columns, bytes, label_or_none, number, owned, owned_or_none, parsed, parsed_or_none, time, time_or_none, unexpected,
};
use super::reader::{SqlParam, SqlReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{KeyRecord, PortalLinkRecord};
use redrive_engine::runs::document::word;

/// The columns of [`key_of`].
pub(crate) const KEYS: &str = "SELECT id, hash, role, tenant, note, created_at, expires_at, revoked_at, lineage, name, scopes, \
     queues, created_by, revoked_by, last_used_at FROM keys";

/// The columns of [`portal_link_of`].
const LINKS: &str =
    "SELECT id, tenant, hash, session, created_at, created_by, expires_at, used_at, revoked_at FROM portal_links";

/// Links that one answer lists.
const LINKS_LISTED_MAX: i64 = 1_000;

/// All keys, the oldest first.
pub(crate) async fn list_keys(reader: &impl SqlReader) -> Result<Vec<KeyRecord>> {
    reader.rows(&format!("{KEYS} ORDER BY created_at, id"), &[]).await?.read(key_of)
}

/// Also finds revoked and expired keys.
pub(crate) async fn key_by_hash(reader: &impl SqlReader, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
    let hash = SqlParam::Bytes(hash.to_vec());
    reader.row(&format!("{KEYS} WHERE hash = $1"), &[hash]).await?.read(key_of)
}

/// The newest links of a tenant, whatever became of them.
pub(crate) async fn portal_links(reader: &impl SqlReader, tenant: &Tenant) -> Result<Vec<PortalLinkRecord>> {
    let sql = format!("{LINKS} WHERE tenant = $1 ORDER BY created_at DESC, id LIMIT $2");
    reader.rows(&sql, &[tenant.as_str().into(), LINKS_LISTED_MAX.into()]).await?.read(portal_link_of)
}

pub(crate) async fn portal_link(reader: &impl SqlReader, id: &str) -> Result<Option<PortalLinkRecord>> {
    reader.row(&format!("{LINKS} WHERE id = $1"), &[id.into()]).await?.read(portal_link_of)
}

/// The link that began a session, whether it has ended or not.
pub(crate) async fn portal_session(reader: &impl SqlReader, session: &[u8; 32]) -> Result<Option<PortalLinkRecord>> {
    let session = SqlParam::Bytes(session.to_vec());
    reader.row(&format!("{LINKS} WHERE session = $1"), &[session]).await?.read(portal_link_of)
}

pub(crate) fn key_of(row: &impl Columns) -> Result<KeyRecord> {
    Ok(KeyRecord {
        id: owned(row, 0)?,
        hash: hash(row, 1)?,
        role: word(Role::ALL, number(row, 2)?, "role")?,
        tenant: parsed_or_none(row, 3, "tenant")?,
        note: label_or_none(row, 4)?,
        created_at: time(row, 5)?,
        expires_at: time_or_none(row, 6)?,
        revoked_at: time_or_none(row, 7)?,
        lineage: owned(row, 8)?,
        name: label_or_none(row, 9)?,
        limits: KeyLimits { scopes: words(row, 10, "scopes")?, queues: words(row, 11, "queues")? },
        created_by: actor(row, 12)?,
        revoked_by: actor(row, 13)?,
        last_used_at: time_or_none(row, 14)?,
    })
}

fn portal_link_of(row: &impl Columns) -> Result<PortalLinkRecord> {
    Ok(PortalLinkRecord {
        id: owned(row, 0)?,
        tenant: parsed(row, 1, "tenant")?,
        hash: hash(row, 2)?,
        session: row
            .bytes_or_none(3)?
            .map(|session| session.try_into())
            .transpose()
            .map_err(|_| unexpected("session"))?,
        created_at: time(row, 4)?,
        created_by: owned(row, 5)?.as_str().into(),
        expires_at: time(row, 6)?,
        used_at: time_or_none(row, 7)?,
        revoked_at: time_or_none(row, 8)?,
    })
}

fn hash(row: &impl Columns, at: usize) -> Result<[u8; 32]> {
    Ok(bytes(row, at)?.try_into().map_err(|_| unexpected("hash"))?)
}

fn actor(row: &impl Columns, at: usize) -> Result<Option<Label>> {
    Ok(owned_or_none(row, at)?.map(|actor| actor.as_str().into()))
}

/// Words separated by commas. An unknown one refuses the whole row: a limit that cannot be read must not be dropped.
fn words<T: FromStr + Ord>(row: &impl Columns, at: usize, what: &str) -> Result<Option<BTreeSet<T>>> {
    let Some(text) = owned_or_none(row, at)? else { return Ok(None) };
    let parsed = text.split(',').map(|word| word.parse().map_err(|_| unexpected(what).into()));
    parsed.collect::<Result<_>>().map(Some)
}

/// As [`words`] reads them.
pub(crate) fn joined<T: ToString>(words: Option<&BTreeSet<T>>) -> Option<String> {
    words.map(|words| words.iter().map(T::to_string).collect::<Vec<_>>().join(","))
}
