//! Versions in the order in which a tenant first met them. Their names say nothing of their order (a hash, a date, a
//! number), so what counts as newer is what came later.

use redrive_core::text::Label;
use redrive_core::wire::Versions;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Result;
use crate::sqlite::batch::Batch;

/// A tenant, a kind (worker, prompt, tool) and a version that are known to be in the table.
pub(super) type SeenVersion = (i64, String, String);

/// Beyond this the memory of what was written starts anew.
const REMEMBERED_MAX: usize = 10_000;
/// Versions of one tenant and kind that are kept: the newest.
const KEPT_MAX: usize = 1_000;
/// Old ones go when so many have come: whoever names each attempt another version pays for it now and then.
const TRIMMED_EVERY: i64 = 64;
/// Kinds of one report that are looked at: a deployment has a few.
const KINDS_MAX: usize = 16;

/// Of each kind among `kinds`, the version that the tenant met last.
pub(super) fn newest_seen<'a>(
    conn: &Connection,
    tenant: i64,
    kinds: impl IntoIterator<Item = &'a String>,
) -> Result<Versions> {
    let mut find = conn
        .prepare_cached("SELECT version FROM versions_seen WHERE tenant = ?1 AND kind = ?2 ORDER BY id DESC LIMIT 1")?;
    let mut newest = Versions::new();
    for kind in kinds.into_iter().take(KINDS_MAX) {
        let version: Option<String> = find.query_row(params![tenant, kind], |row| row.get(0)).optional()?;
        newest.extend(version.map(|version| (kind.clone(), Label::from(version.as_str()))));
    }
    Ok(newest)
}

impl Batch<'_> {
    /// Notes versions not met before. A version that was is a look into memory and no more.
    pub(super) fn see_versions(&mut self, tenant: i64, versions: &Versions) -> Result<()> {
        for (kind, version) in versions.iter().take(KINDS_MAX) {
            let seen = (tenant, kind.clone(), version.to_string());
            if self.known.versions.contains(&seen) {
                continue;
            }
            let mut insert = self.conn.prepare_cached(
                "INSERT INTO versions_seen (tenant, kind, version, first_seen) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
            )?;
            if insert.execute(params![tenant, kind, version.as_str(), self.now.as_millis()])? == 1
                && self.conn.last_insert_rowid() % TRIMMED_EVERY == 0
            {
                self.forget_versions(tenant, kind)?;
            }
            if self.known.versions.len() >= REMEMBERED_MAX {
                self.known.versions.clear();
            }
            self.known.versions.insert(seen);
        }
        Ok(())
    }

    /// The oldest go. A version that comes back after it was forgotten counts as new.
    fn forget_versions(&mut self, tenant: i64, kind: &str) -> Result<()> {
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM versions_seen WHERE tenant = ?1 AND kind = ?2 AND id <= (
                 SELECT id FROM versions_seen WHERE tenant = ?1 AND kind = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
        )?;
        if forget.execute(params![tenant, kind, KEPT_MAX])? > 0 {
            self.known.versions.clear();
        }
        Ok(())
    }

    /// Whether what was carried has the fix: of every kind named, that version or one first seen after it.
    pub(super) fn has_fix(&mut self, tenant: i64, fixed_in: &Versions, carried: &Versions) -> Result<bool> {
        for (kind, fixed) in fixed_in {
            let Some(version) = carried.get(kind) else { return Ok(false) };
            if version == fixed {
                continue;
            }
            let order = |version: &str| self.version_order(tenant, kind, version);
            // One that was forgotten is older than all that are known.
            match (order(version.as_str())?, order(fixed.as_str())?) {
                (Some(carried), fixed) if fixed.is_none_or(|fixed| fixed <= carried) => {}
                (Some(_) | None, _) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn version_order(&self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>> {
        let mut find = self
            .conn
            .prepare_cached("SELECT id FROM versions_seen WHERE tenant = ?1 AND kind = ?2 AND version = ?3")?;
        Ok(find.query_row(params![tenant, kind, version], |row| row.get(0)).optional()?)
    }
}
