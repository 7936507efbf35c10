//! Which pattern a fingerprint belongs to: looked up by its alias, made at its first sight, brought back when a fix
//! did not hold.
//!
//! Two steps lead from a failure to what people see. The alias names the fingerprint's own pattern, where the failure
//! is counted and which its run points at for good; `merged_into` names the head that people have put it under. So a
//! merge touches no run and no counter, and taking it back restores the exact figures.

use std::sync::Arc;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::pattern::Fingerprint;
use redrive_core::reason::Category;
use redrive_core::strategy::Failure;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternRef, PatternState, Versions};
use rusqlite::{Row, params};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::sqlite::batch::Batch;
use crate::sqlite::life::{position, word};
use crate::sqlite::map::Map;

/// Who is named for what nobody did.
const ENGINE: &str = "redrive";

/// A failed attempt as its pattern sees it.
pub(super) struct Sighting<'a> {
    pub(super) tenant: i64,
    pub(super) run_id: &'a RunId,
    pub(super) fingerprint: &'a Fingerprint,
    pub(super) failure: &'a Failure,
    pub(super) versions: &'a Versions,
    /// When the attempt began, where that is known; otherwise the report's own time counts.
    pub(super) began_at: Option<Timestamp>,
}

/// A pattern that a failure belongs to.
#[derive(Debug, Clone)]
pub(super) struct Sighted {
    /// Where it is counted, and what its run points at.
    pub(super) id: i64,
    /// What it is part of; often itself.
    pub(super) head: i64,
    pub(super) shown: PatternRef,
}

/// A fix that somebody has promised.
#[derive(Debug, Clone)]
struct Fix {
    at: Timestamp,
    versions: Option<Versions>,
}

/// A fingerprint's pattern as its rows have it.
#[derive(Debug, Clone)]
struct KnownPattern {
    sighted: Sighted,
    state: i64,
    muted_until: Option<i64>,
    before_mute: Option<i64>,
    fix: Option<Fix>,
}

/// Patterns met before. Whoever changes what is known of one lets go of all: people are slow, failures are not.
#[derive(Debug, Default)]
pub(super) struct KnownPatterns(Map<(i64, u64, u8), Arc<KnownPattern>>);

/// Beyond this the memory starts anew.
const REMEMBERED_MAX: usize = 10_000;

impl KnownPatterns {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

impl Batch<'_> {
    pub(super) fn sight(&mut self, seen: &Sighting<'_>) -> Result<Sighted> {
        self.see_versions(seen.tenant, seen.versions)?;
        let Some(known) = self.known_pattern(seen)? else { return self.first_sight(seen) };
        if let Some(fix) = &known.fix
            && state_now(known.state, known.muted_until, known.before_mute, self.now)? == PatternState::Resolved
            && self.is_regression(seen, fix)?
        {
            self.come_back(seen, known.sighted.head)?;
        }
        Ok(known.sighted.clone())
    }

    fn known_pattern(&mut self, seen: &Sighting<'_>) -> Result<Option<Arc<KnownPattern>>> {
        let key = (seen.tenant, seen.fingerprint.hash, seen.fingerprint.version);
        if let Some(known) = self.known.patterns.0.get(&key) {
            return Ok(Some(known.clone()));
        }
        let Some(read) = self.read_pattern(seen)?.map(Arc::new) else { return Ok(None) };
        if self.known.patterns.0.len() >= REMEMBERED_MAX {
            self.known.patterns.forget();
        }
        self.known.patterns.0.insert(key, read.clone());
        Ok(Some(read))
    }

    fn read_pattern(&mut self, seen: &Sighting<'_>) -> Result<Option<KnownPattern>> {
        let mut find = self.conn.prepare_cached(
            "SELECT own.id, head.id, head.public_id, head.template, head.state, head.muted_until, head.before_mute,
                 head.resolved_at, head.resolved_in
             FROM pattern_alias a JOIN patterns own ON own.id = a.pattern
                 JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)
             WHERE a.tenant = ?1 AND a.fp_hash = ?2 AND a.fp_version = ?3",
        )?;
        let key = params![seen.tenant, seen.fingerprint.hash.cast_signed(), seen.fingerprint.version];
        let mut rows = find.query(key)?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let shown = PatternRef { id: row.get(2)?, template: row.get(3)?, new: false };
        Ok(Some(KnownPattern {
            sighted: Sighted { id: row.get(0)?, head: row.get(1)?, shown },
            state: row.get(4)?,
            muted_until: row.get(5)?,
            before_mute: row.get(6)?,
            fix: fix(row)?,
        }))
    }

    /// With versions: a failure that has the fix. Without: an attempt that began after it; one that was under way
    /// already could not have had it.
    fn is_regression(&mut self, seen: &Sighting<'_>, fix: &Fix) -> Result<bool> {
        match &fix.versions {
            Some(versions) => self.has_fix(seen.tenant, versions, seen.versions),
            // Reported without a beginning, it was reported after the resolve was committed.
            None => Ok(seen.began_at.is_none_or(|began_at| began_at > fix.at)),
        }
    }

    fn come_back(&mut self, seen: &Sighting<'_>, head: i64) -> Result<()> {
        self.known.patterns.forget();
        let mut back = self.conn.prepare_cached(
            "UPDATE patterns SET state = ?2, regression = 1, muted_until = NULL, resolved_at = NULL, resolved_in = NULL
             WHERE id = ?1",
        )?;
        back.execute([head, position(PatternState::ALL, &PatternState::New)])?;
        self.note_pattern(head, ENGINE, PatternEvent::Regression, Some(&about_run(seen)), None)
    }

    fn first_sight(&mut self, seen: &Sighting<'_>) -> Result<Sighted> {
        let Sighting { tenant, fingerprint, failure, .. } = *seen;
        let public_id = public_id(&self.tenant_name(tenant)?, fingerprint);
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO patterns (public_id, tenant, fp_version, fp_hash, template, reason, category, count, open,
                 first_seen, last_seen, group_seen, state, regression)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, ?8, ?8, ?8, ?9, 0)",
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
        self.note_pattern(id, ENGINE, PatternEvent::New, Some(&about_run(seen)), None)?;
        let shown = PatternRef { id: public_id, template: fingerprint.template.clone(), new: true };
        Ok(Sighted { id, head: id, shown })
    }

    /// The pattern of an earlier answer, as it is known now.
    pub(super) fn pattern_shown(&mut self, id: i64, new: bool) -> Result<PatternRef> {
        let mut find = self.conn.prepare_cached(
            "SELECT head.public_id, head.template FROM patterns own
                 JOIN patterns head ON head.id = coalesce(own.merged_into, own.id) WHERE own.id = ?1",
        )?;
        Ok(find.query_row([id], |row| Ok(PatternRef { id: row.get(0)?, template: row.get(1)?, new }))?)
    }
}

/// A mute that is over is over without anybody writing it down.
pub(super) fn state_now(
    state: i64,
    muted_until: Option<i64>,
    before_mute: Option<i64>,
    now: Timestamp,
) -> Result<PatternState> {
    let state = word(PatternState::ALL, state, "pattern state")?;
    match (state, muted_until, before_mute) {
        (PatternState::Muted, Some(until), Some(before)) if until <= now.as_millis() => {
            word(PatternState::ALL, before, "pattern state")
        }
        (state, _, _) => Ok(state),
    }
}

fn fix(row: &Row<'_>) -> Result<Option<Fix>> {
    let Some(at) = row.get::<_, Option<i64>>(7)? else { return Ok(None) };
    let versions: Option<String> = row.get(8)?;
    let versions = versions.map(|json| serde_json::from_str(&json)).transpose();
    let versions = versions.map_err(|e| Error::Unexpected(format!("a pattern's fix: {e}")))?;
    Ok(Some(Fix { at: Timestamp::from_millis(at), versions }))
}

fn about_run(seen: &Sighting<'_>) -> String {
    format!("run {}", seen.run_id)
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
