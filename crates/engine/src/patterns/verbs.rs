//! Actions on patterns, with their history. In the scope of all tenants a fingerprint names every tenant's pattern of it;
//! one commit changes them all.

use redrive_core::ids::RunId;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternState, Versions};

use crate::error::{Error, Result};
use crate::ingest::fingerprints::FingerprintKey;
use crate::model::TenantScope;
use crate::model::patterns::{PatternAct, PatternVerb};
use crate::names::versions;
use crate::patterns::sightings;
use crate::patterns::sightings::state_now;
use crate::ports::rows::PatternChange;
use crate::runs::attempts::json;
use crate::runs::document::position;
use crate::tx::Tx;

/// A row of patterns as actions need it.
#[derive(Debug, Clone)]
pub struct PatternRow {
    pub id: i64,
    pub tenant: i64,
    pub public_id: String,
    pub key: FingerprintKey,
    /// Number and id of the head, if it was merged.
    pub merged: Option<(i64, String)>,
    /// State, end of the mute, and state before the mute.
    pub state: (i64, Option<i64>, Option<i64>),
}

/// Returns the id of the pattern to show.
pub fn triage_pattern(tx: &mut Tx<'_>, act: &PatternAct) -> Result<String> {
    tx.known.patterns.forget();
    let found = patterns_named(tx, &act.scope, &act.id)?;
    match &act.verb {
        PatternVerb::Merge { into } => merge_all(tx, act, found, into),
        PatternVerb::Unmerge { fingerprint } => unmerge_all(tx, act, found, fingerprint.as_deref()),
        PatternVerb::Acknowledge
        | PatternVerb::Resolve { .. }
        | PatternVerb::Mute { .. }
        | PatternVerb::Assign { .. }
        | PatternVerb::Note => {
            for pattern in heads(found)? {
                apply(tx, act, &pattern)?;
            }
            Ok(act.id.clone())
        }
    }
}

/// The patterns that are not merged into another. An action on a merged one alone is refused.
fn heads(found: Vec<PatternRow>) -> Result<Vec<PatternRow>> {
    let first = found.first().cloned();
    let heads: Vec<PatternRow> = found.into_iter().filter(|pattern| pattern.merged.is_none()).collect();
    match (heads.is_empty(), first.and_then(|pattern| pattern.merged)) {
        (true, Some((_, into))) => Err(Error::PatternMerged { into }),
        (_, _) => Ok(heads),
    }
}

fn apply(tx: &mut Tx<'_>, act: &PatternAct, pattern: &PatternRow) -> Result<()> {
    let about = match &act.verb {
        PatternVerb::Acknowledge => {
            tx.rows.change_pattern(pattern.id, &PatternChange::State(PatternState::Acknowledged))?;
            None
        }
        PatternVerb::Resolve { in_version } => {
            resolve_pattern(tx, pattern, in_version)?;
            (!in_version.is_empty()).then(|| in_words(in_version))
        }
        PatternVerb::Mute { until } => {
            mute_pattern(tx, pattern, *until)?;
            until.map(|until| format!("until {until}"))
        }
        PatternVerb::Assign { to } => {
            tx.rows.change_pattern(pattern.id, &PatternChange::Owner(to.as_ref()))?;
            Some(to.as_ref().map_or_else(|| "to nobody".to_owned(), |to| format!("to {to}")))
        }
        PatternVerb::Note | PatternVerb::Merge { .. } | PatternVerb::Unmerge { .. } => None,
    };
    sightings::note_pattern(tx, pattern.id, &act.actor, act.verb.event(), about.as_deref(), act.reason.as_ref())
}

fn in_words(versions: &Versions) -> String {
    let words: Vec<String> = versions.iter().map(|(kind, version)| format!("{kind}={version}")).collect();
    format!("in {}", words.join(", "))
}

/// Merges each into a pattern of the same tenant; skips tenants without that pattern.
fn merge_all(tx: &mut Tx<'_>, act: &PatternAct, found: Vec<PatternRow>, into: &str) -> Result<String> {
    let mut shown = None;
    for pattern in heads(found)? {
        let Some(target) = pattern_of_tenant(tx, pattern.tenant, into)? else { continue };
        let (head, head_id) = target.merged.clone().unwrap_or((target.id, target.public_id.clone()));
        if head == pattern.id {
            return Err(Error::MergeRefused("a pattern can't become part of itself"));
        }
        tx.rows.merge_pattern(pattern.id, head)?;
        let note = act.reason.as_ref();
        let (to, from) = (format!("into {head_id}"), format!("with {}", pattern.public_id));
        sightings::note_pattern(tx, pattern.id, &act.actor, PatternEvent::Merge, Some(&to), note)?;
        sightings::note_pattern(tx, head, &act.actor, PatternEvent::Merge, Some(&from), note)?;
        shown = Some(if act.scope == TenantScope::All { into.to_owned() } else { head_id });
    }
    shown.ok_or(Error::NotFound("pattern"))
}

fn unmerge_all(tx: &mut Tx<'_>, act: &PatternAct, found: Vec<PatternRow>, only: Option<&str>) -> Result<String> {
    let mut any = false;
    for pattern in found {
        for (part, head, head_id) in parts_to_take_out(tx, &pattern, only)? {
            any = true;
            tx.rows.unmerge_pattern(part.id, head)?;
            let note = act.reason.as_ref();
            let (from, out) = (format!("from {head_id}"), format!("without {}", part.public_id));
            sightings::note_pattern(tx, part.id, &act.actor, PatternEvent::Unmerge, Some(&from), note)?;
            sightings::note_pattern(tx, head, &act.actor, PatternEvent::Unmerge, Some(&out), note)?;
        }
    }
    if any { Ok(act.id.clone()) } else { Err(Error::MergeRefused("there is nothing to take apart")) }
}

/// The patterns with this id or fingerprint in the scope.
fn patterns_named(tx: &mut Tx<'_>, scope: &TenantScope, id: &str) -> Result<Vec<PatternRow>> {
    let missing = || Error::NotFound("pattern");
    let tenant = match scope {
        TenantScope::One(tenant) => Some(tx.find_tenant(tenant)?.ok_or_else(missing)?),
        TenantScope::All => None,
    };
    if let Some(tenant) = tenant {
        return pattern_of_tenant(tx, tenant, id)?.map(|found| vec![found]).ok_or_else(missing);
    }
    if let Some(found) = tx.rows.pattern_by_id(id)? {
        return Ok(vec![found]);
    }
    let found = tx.rows.patterns_by_key(FingerprintKey::parse(id).ok_or_else(missing)?)?;
    if found.is_empty() { Err(missing()) } else { Ok(found) }
}

fn pattern_of_tenant(tx: &mut Tx<'_>, tenant: i64, id: &str) -> Result<Option<PatternRow>> {
    // Pattern ids have the syntax of ids. PostgreSQL rejects a NUL in text.
    if id.parse::<RunId>().is_err() {
        return Ok(None);
    }
    if let Some(found) = tx.rows.pattern_by_id(id)?.filter(|found| found.tenant == tenant) {
        return Ok(Some(found));
    }
    let Some(key) = FingerprintKey::parse(id) else { return Ok(None) };
    Ok(tx.rows.pattern_by_alias(tenant, key)?)
}

/// A merged pattern itself, otherwise its parts; with `only`, just the part with that fingerprint or id.
fn parts_to_take_out(
    tx: &mut Tx<'_>,
    pattern: &PatternRow,
    only: Option<&str>,
) -> Result<Vec<(PatternRow, i64, String)>> {
    if let Some((head, head_id)) = &pattern.merged {
        return Ok(vec![(pattern.clone(), *head, head_id.clone())]);
    }
    let parts = tx.rows.parts_of_pattern(pattern.id)?;
    let wanted = |part: &PatternRow| only.is_none_or(|only| part.key.to_string() == only || part.public_id == only);
    Ok(parts.into_iter().filter(wanted).map(|part| (part, pattern.id, pattern.public_id.clone())).collect())
}

/// Records the named versions as seen, so that later ones count as newer.
fn resolve_pattern(tx: &mut Tx<'_>, pattern: &PatternRow, in_version: &Versions) -> Result<()> {
    versions::see_versions(tx, pattern.tenant, in_version)?;
    let versions = (!in_version.is_empty()).then(|| json(in_version)).transpose()?;
    let resolved = PatternChange::Resolved { at: tx.now, in_versions: versions.as_deref() };
    Ok(tx.rows.change_pattern(pattern.id, &resolved)?)
}

fn mute_pattern(tx: &mut Tx<'_>, pattern: &PatternRow, until: Option<Timestamp>) -> Result<()> {
    let (state, muted_until, before) = pattern.state;
    let now = state_now(state, muted_until, before, tx.now)?;
    // A second mute keeps the state from before the first.
    let before = if now == PatternState::Muted { before } else { Some(position(PatternState::ALL, &now)) };
    Ok(tx.rows.change_pattern(pattern.id, &PatternChange::Muted { until, before })?)
}
