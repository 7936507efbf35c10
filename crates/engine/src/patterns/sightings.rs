//! Which pattern a fingerprint belongs to: looked up by its alias, made at its first sight, brought back when a fix
//! did not hold.
//!
//! Two steps lead from a failure to what people see. The alias names the fingerprint's own pattern, where the failure
//! is counted and which its run points at for good; `merged_into` names the head that people have put it under. So a
//! merge touches no run and no counter, and taking it back restores the exact figures.

use std::sync::Arc;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::pattern::Fingerprint;
use redrive_core::strategy::Failure;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternRef, PatternState, Versions};
use sha2::{Digest as _, Sha256};

use crate::Map;
use crate::error::{Error, Result};
use crate::names::versions;
use crate::ports::rows::PatternChange;
use crate::runs::document::word;
use crate::tx::Tx;

/// Who is named for what nobody did.
const ENGINE: &str = "redrive";

/// A failed attempt as its pattern sees it.
pub struct Sighting<'a> {
    pub tenant: i64,
    pub run_id: &'a RunId,
    pub fingerprint: &'a Fingerprint,
    pub failure: &'a Failure,
    pub versions: &'a Versions,
    /// When the attempt began, where that is known; otherwise the report's own time counts.
    pub began_at: Option<Timestamp>,
}

/// A pattern that a failure belongs to.
#[derive(Debug, Clone)]
pub struct Sighted {
    /// Where it is counted, and what its run points at.
    pub id: i64,
    /// What it is part of; often itself.
    pub head: i64,
    pub shown: PatternRef,
}

/// A fix that somebody has promised.
#[derive(Debug, Clone)]
pub struct PromisedFix {
    pub at: Timestamp,
    pub versions: Option<Versions>,
}

/// A fingerprint's pattern as its rows have it.
#[derive(Debug, Clone)]
pub struct CachedPattern {
    pub sighted: Sighted,
    pub state: i64,
    pub muted_until: Option<i64>,
    pub before_mute: Option<i64>,
    pub fix: Option<PromisedFix>,
}

/// Patterns met before. Whoever changes what is known of one lets go of all: people are slow, failures are not.
#[derive(Debug, Default)]
pub struct CachedPatterns(Map<(i64, u64, u8), Arc<CachedPattern>>);

/// Of one pattern; what is older is pushed out by what is newer.
const EVENTS_KEPT_MAX: usize = 1_000;

/// Beyond this the memory starts anew.
const REMEMBERED_MAX: usize = 10_000;

impl CachedPatterns {
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

pub fn sight(tx: &mut Tx<'_>, seen: &Sighting<'_>) -> Result<Sighted> {
    versions::see_versions(tx, seen.tenant, seen.versions)?;
    let Some(known) = known_pattern(tx, seen)? else { return first_sight(tx, seen) };
    if let Some(fix) = &known.fix
        && state_now(known.state, known.muted_until, known.before_mute, tx.now)? == PatternState::Resolved
        && is_regression(tx, seen, fix)?
    {
        come_back(tx, seen, known.sighted.head)?;
    }
    Ok(known.sighted.clone())
}

fn known_pattern(tx: &mut Tx<'_>, seen: &Sighting<'_>) -> Result<Option<Arc<CachedPattern>>> {
    let key = (seen.tenant, seen.fingerprint.hash, seen.fingerprint.version);
    if let Some(known) = tx.known.patterns.0.get(&key) {
        return Ok(Some(known.clone()));
    }
    let Some(read) = tx.rows.pattern_of(seen.tenant, seen.fingerprint)?.map(Arc::new) else { return Ok(None) };
    if tx.known.patterns.0.len() >= REMEMBERED_MAX {
        tx.known.patterns.forget();
    }
    tx.known.patterns.0.insert(key, read.clone());
    Ok(Some(read))
}

/// With versions: a failure that has the fix. Without: an attempt that began after it; one that was under way
/// already could not have had it.
fn is_regression(tx: &mut Tx<'_>, seen: &Sighting<'_>, fix: &PromisedFix) -> Result<bool> {
    match &fix.versions {
        Some(versions) => versions::has_fix(tx, seen.tenant, versions, seen.versions),
        // Reported without a beginning, it was reported after the resolve was committed.
        None => Ok(seen.began_at.is_none_or(|began_at| began_at > fix.at)),
    }
}

fn come_back(tx: &mut Tx<'_>, seen: &Sighting<'_>, head: i64) -> Result<()> {
    tx.known.patterns.forget();
    tx.rows.change_pattern(head, &PatternChange::CameBack)?;
    note_pattern(tx, head, ENGINE, PatternEvent::Regression, Some(&about_run(seen)), None)
}

fn first_sight(tx: &mut Tx<'_>, seen: &Sighting<'_>) -> Result<Sighted> {
    let Sighting { tenant, fingerprint, failure, .. } = *seen;
    let public_id = public_id(&tx.tenant_name(tenant)?, fingerprint);
    let id = tx.rows.insert_pattern(&public_id, tenant, fingerprint, failure, tx.now)?;
    note_pattern(tx, id, ENGINE, PatternEvent::New, Some(&about_run(seen)), None)?;
    let shown = PatternRef { id: public_id, template: fingerprint.template.clone(), new: true };
    Ok(Sighted { id, head: id, shown })
}

pub fn note_pattern(
    tx: &mut Tx<'_>,
    pattern: i64,
    actor: &str,
    event: PatternEvent,
    about: Option<&str>,
    note: Option<&Text>,
) -> Result<()> {
    tx.rows.insert_pattern_event(pattern, actor, event, about, note, tx.now)?;
    // Its first one pushes nothing out.
    if event == PatternEvent::New { Ok(()) } else { Ok(tx.rows.forget_pattern_events(pattern, EVENTS_KEPT_MAX)?) }
}

/// A mute that is over is over without anybody writing it down.
pub fn state_now(
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

impl PromisedFix {
    /// As a pattern's row has it.
    pub fn kept(at: Option<i64>, versions: Option<&str>) -> Result<Option<Self>> {
        let Some(at) = at else { return Ok(None) };
        let versions = versions.map(serde_json::from_str).transpose();
        let versions = versions.map_err(|e| Error::Unexpected(format!("a pattern's fix: {e}")))?;
        Ok(Some(Self { at: Timestamp::from_millis(at), versions }))
    }
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
