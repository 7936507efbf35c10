//! Assigns a failure to the pattern of its fingerprint, creates new patterns, and detects regressions.
//!
//! A fingerprint's alias names its own pattern, which counts the failure and which the run refers to for good. Its
//! `merged_into` names the head of its group. A merge therefore touches no run and no counter, and can be undone exactly.

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

/// The actor of events without a person.
const ENGINE: &str = "redrive";

/// A failed attempt to count for its pattern.
pub struct Sighting<'a> {
    pub tenant: i64,
    pub run_id: &'a RunId,
    pub fingerprint: &'a Fingerprint,
    pub failure: &'a Failure,
    pub versions: &'a Versions,
    /// None: unknown; then the time of the report counts.
    pub began_at: Option<Timestamp>,
}

/// The pattern of a failure.
#[derive(Debug, Clone)]
pub struct Sighted {
    /// Counts the failure; the run refers to it.
    pub id: i64,
    /// The head of its group; often itself.
    pub head: i64,
    pub shown: PatternRef,
}

/// The fix that a resolved pattern has.
#[derive(Debug, Clone)]
pub struct PromisedFix {
    pub at: Timestamp,
    pub versions: Option<Versions>,
}

/// A pattern as it was read.
#[derive(Debug, Clone)]
pub struct CachedPattern {
    pub sighted: Sighted,
    pub state: i64,
    pub muted_until: Option<i64>,
    pub before_mute: Option<i64>,
    pub fix: Option<PromisedFix>,
}

/// A cache of patterns. Any change to a pattern clears it: changes are rare, failures are not.
#[derive(Debug, Default)]
pub struct CachedPatterns(Map<(i64, u64, u8), Arc<CachedPattern>>);

/// The newest events of a pattern that are stored.
const EVENTS_KEPT_MAX: usize = 1_000;

/// Beyond this many patterns the cache is cleared.
const CACHED_MAX: usize = 10_000;

impl CachedPatterns {
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

pub fn sight(tx: &mut Tx<'_>, seen: &Sighting<'_>) -> Result<Sighted> {
    versions::see_versions(tx, seen.tenant, seen.versions)?;
    let Some(known) = find(tx, seen)? else { return create(tx, seen) };
    if let Some(fix) = &known.fix
        && state_now(known.state, known.muted_until, known.before_mute, tx.now)? == PatternState::Resolved
        && is_regression(tx, seen, fix)?
    {
        record_regression(tx, seen, known.sighted.head)?;
    }
    Ok(known.sighted.clone())
}

fn find(tx: &mut Tx<'_>, seen: &Sighting<'_>) -> Result<Option<Arc<CachedPattern>>> {
    let key = (seen.tenant, seen.fingerprint.hash, seen.fingerprint.version);
    if let Some(known) = tx.known.patterns.0.get(&key) {
        return Ok(Some(known.clone()));
    }
    let Some(read) = tx.rows.pattern_of(seen.tenant, seen.fingerprint)?.map(Arc::new) else { return Ok(None) };
    if tx.known.patterns.0.len() >= CACHED_MAX {
        tx.known.patterns.forget();
    }
    tx.known.patterns.0.insert(key, read.clone());
    Ok(Some(read))
}

/// A failure is a regression if its versions have the fix, or without versions if its attempt began after the fix.
fn is_regression(tx: &mut Tx<'_>, seen: &Sighting<'_>, fix: &PromisedFix) -> Result<bool> {
    match &fix.versions {
        Some(versions) => versions::has_fix(tx, seen.tenant, versions, seen.versions),
        // Without a start time, the report came after the pattern was resolved.
        None => Ok(seen.began_at.is_none_or(|began_at| began_at > fix.at)),
    }
}

fn record_regression(tx: &mut Tx<'_>, seen: &Sighting<'_>, head: i64) -> Result<()> {
    tx.known.patterns.forget();
    tx.rows.change_pattern(head, &PatternChange::CameBack)?;
    note_pattern(tx, head, ENGINE, PatternEvent::Regression, Some(&about_run(seen)), None)
}

fn create(tx: &mut Tx<'_>, seen: &Sighting<'_>) -> Result<Sighted> {
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
    // The first event cannot exceed the limit.
    if event == PatternEvent::New { Ok(()) } else { Ok(tx.rows.forget_pattern_events(pattern, EVENTS_KEPT_MAX)?) }
}

/// The current state: a mute ends by time, without a write.
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
    /// From the columns of a pattern's row.
    pub fn from_columns(at: Option<i64>, versions: Option<&str>) -> Result<Option<Self>> {
        let Some(at) = at else { return Ok(None) };
        let versions = versions.map(serde_json::from_str).transpose();
        let versions = versions.map_err(|e| Error::Unexpected(format!("a pattern's fix: {e}")))?;
        Ok(Some(Self { at: Timestamp::from_millis(at), versions }))
    }
}

fn about_run(seen: &Sighting<'_>) -> String {
    format!("run {}", seen.run_id)
}

/// The same on every replica, and independent of other tenants.
fn public_id(tenant: &Tenant, fingerprint: &Fingerprint) -> String {
    let hash = Sha256::new()
        .chain_update(tenant.as_str())
        .chain_update([0, fingerprint.version])
        .chain_update(fingerprint.hash.to_le_bytes())
        .finalize();
    hash[..8].iter().fold(String::from("p"), |id, byte| id + &format!("{byte:02x}"))
}
