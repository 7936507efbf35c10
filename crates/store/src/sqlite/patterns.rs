//! Which pattern a fingerprint belongs to: looked up by its alias, made at its first sight.

use redrive_core::ids::Tenant;
use redrive_core::pattern::Fingerprint;
use redrive_core::reason::Category;
use redrive_core::strategy::Failure;
use redrive_core::wire::{PatternRef, PatternState};
use rusqlite::{OptionalExtension, params};
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::sqlite::batch::Batch;
use crate::sqlite::life::position;

/// A pattern that a failure belongs to.
#[derive(Debug, Clone)]
pub(super) struct Sighted {
    pub(super) id: i64,
    pub(super) shown: PatternRef,
}

impl Batch<'_> {
    pub(super) fn sight(&mut self, tenant: i64, fingerprint: &Fingerprint, failure: &Failure) -> Result<Sighted> {
        let mut find = self.conn.prepare_cached(
            "SELECT p.id, p.public_id, p.template FROM pattern_alias a JOIN patterns p ON p.id = a.pattern
             WHERE a.tenant = ?1 AND a.fp_hash = ?2 AND a.fp_version = ?3",
        )?;
        let found = find
            .query_row(params![tenant, fingerprint.hash.cast_signed(), fingerprint.version], |row| {
                let shown = PatternRef { id: row.get(1)?, template: row.get(2)?, new: false };
                Ok(Sighted { id: row.get(0)?, shown })
            })
            .optional()?;
        match found {
            Some(sighted) => Ok(sighted),
            None => self.first_sight(tenant, fingerprint, failure),
        }
    }

    fn first_sight(&mut self, tenant: i64, fingerprint: &Fingerprint, failure: &Failure) -> Result<Sighted> {
        let public_id = public_id(&self.tenant_name(tenant)?, fingerprint);
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO patterns (public_id, tenant, fp_version, fp_hash, template, reason, category, count, open,
                 first_seen, last_seen, state, regression) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?8, ?9, 0)",
        )?;
        insert.execute(params![
            public_id,
            tenant,
            fingerprint.version,
            fingerprint.hash.cast_signed(),
            fingerprint.template,
            failure.reason.as_str(),
            position(&Category::ALL, &failure.category),
            self.now.as_millis(),
            position(PatternState::ALL, &PatternState::New),
        ])?;
        let id = self.conn.last_insert_rowid();
        self.conn
            .prepare_cached("INSERT INTO pattern_alias (tenant, fp_hash, fp_version, pattern) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![tenant, fingerprint.hash.cast_signed(), fingerprint.version, id])?;
        Ok(Sighted { id, shown: PatternRef { id: public_id, template: fingerprint.template.clone(), new: true } })
    }

    /// A pattern as an earlier answer showed it.
    pub(super) fn pattern_shown(&mut self, id: i64, new: bool) -> Result<PatternRef> {
        let mut find = self.conn.prepare_cached("SELECT public_id, template FROM patterns WHERE id = ?1")?;
        Ok(find.query_row([id], |row| Ok(PatternRef { id: row.get(0)?, template: row.get(1)?, new }))?)
    }
}

/// The same on every replica, and nothing of another tenant's in it.
fn public_id(tenant: &Tenant, fingerprint: &Fingerprint) -> String {
    let hash = Sha256::new()
        .chain_update(tenant.as_str())
        .chain_update([0, fingerprint.version])
        .chain_update(fingerprint.hash.to_le_bytes())
        .finalize();
    hash[..8].iter().fold(String::from("p"), |id, byte| id + &format!("{byte:02x}"))
}
