//! What a person does about a pattern, and the record of it. Acting on a fingerprint over all tenants is the same act
//! on each tenant's pattern of it, in one commit.

use redrive_core::ids::RunId;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternState, Versions};

use crate::commands::attempts::json;
use crate::commands::batch::Batch;
use crate::commands::fingerprints::FingerprintKey;
use crate::commands::life::position;
use crate::commands::patterns::state_now;
use crate::commands::rows::PatternChange;
use crate::error::{Error, Result};
use crate::kept::columns::{Columns, number, owned, owned_or_none, whole};
use crate::model::TenantScope;
use crate::pattern_model::{PatternAct, PatternVerb};

/// A pattern as an act finds it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) tenant: i64,
    pub(crate) public_id: String,
    pub(crate) key: FingerprintKey,
    /// The head's number and id, where it is a part.
    pub(crate) merged: Option<(i64, String)>,
    /// Its state, until when it is muted, and what it was before.
    pub(crate) state: (i64, Option<i64>, Option<i64>),
}

/// The columns of [`Found::read`] and where they come from.
pub(crate) const FOUND: &str = "p.id, p.tenant, p.public_id, p.fp_version, p.fp_hash, h.id, h.public_id, p.state, \
     p.muted_until, p.before_mute FROM patterns p LEFT JOIN patterns h ON h.id = p.merged_into";

impl Found {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            id: number(row, 0)?,
            tenant: number(row, 1)?,
            public_id: owned(row, 2)?,
            key: FingerprintKey { version: whole(row, 3, "fingerprint")?, hash: number(row, 4)? },
            merged: row.number_or_none(5)?.zip(owned_or_none(row, 6)?),
            state: (number(row, 7)?, row.number_or_none(8)?, row.number_or_none(9)?),
        })
    }
}

/// Answers with the name of what to show.
pub(crate) fn triage_pattern(batch: &mut Batch<'_>, act: &PatternAct) -> Result<String> {
    batch.known.patterns.forget();
    let found = batch.patterns_named(&act.scope, &act.id)?;
    match &act.verb {
        PatternVerb::Merge { into } => merge_all(batch, act, found, into),
        PatternVerb::Unmerge { fingerprint } => unmerge_all(batch, act, found, fingerprint.as_deref()),
        PatternVerb::Acknowledge
        | PatternVerb::Resolve { .. }
        | PatternVerb::Mute { .. }
        | PatternVerb::Assign { .. }
        | PatternVerb::Note => {
            for pattern in heads(found)? {
                apply(batch, act, &pattern)?;
            }
            Ok(act.id.clone())
        }
    }
}

/// What is part of another is acted on there; among many tenants' it is left out.
fn heads(found: Vec<Found>) -> Result<Vec<Found>> {
    let first = found.first().cloned();
    let heads: Vec<Found> = found.into_iter().filter(|pattern| pattern.merged.is_none()).collect();
    match (heads.is_empty(), first.and_then(|pattern| pattern.merged)) {
        (true, Some((_, into))) => Err(Error::PatternMerged { into }),
        (_, _) => Ok(heads),
    }
}

fn apply(batch: &mut Batch<'_>, act: &PatternAct, pattern: &Found) -> Result<()> {
    let about = match &act.verb {
        PatternVerb::Acknowledge => {
            batch.rows.change_pattern(pattern.id, &PatternChange::State(PatternState::Acknowledged))?;
            None
        }
        PatternVerb::Resolve { in_version } => {
            batch.resolve_pattern(pattern, in_version)?;
            (!in_version.is_empty()).then(|| in_words(in_version))
        }
        PatternVerb::Mute { until } => {
            batch.mute_pattern(pattern, *until)?;
            until.map(|until| format!("until {until}"))
        }
        PatternVerb::Assign { to } => {
            batch.rows.change_pattern(pattern.id, &PatternChange::Owner(to.as_ref()))?;
            Some(to.as_ref().map_or_else(|| "to nobody".to_owned(), |to| format!("to {to}")))
        }
        PatternVerb::Note | PatternVerb::Merge { .. } | PatternVerb::Unmerge { .. } => None,
    };
    batch.note_pattern(pattern.id, &act.actor, act.verb.event(), about.as_deref(), act.reason.as_ref())
}

fn in_words(versions: &Versions) -> String {
    let words: Vec<String> = versions.iter().map(|(kind, version)| format!("{kind}={version}")).collect();
    format!("in {}", words.join(", "))
}

/// Each into the pattern of its own tenant; a tenant that has no such pattern keeps what it has.
fn merge_all(batch: &mut Batch<'_>, act: &PatternAct, found: Vec<Found>, into: &str) -> Result<String> {
    let mut shown = None;
    for pattern in heads(found)? {
        let Some(target) = batch.pattern_of_tenant(pattern.tenant, into)? else { continue };
        let (head, head_id) = target.merged.clone().unwrap_or((target.id, target.public_id.clone()));
        if head == pattern.id {
            return Err(Error::MergeRefused("a pattern can't become part of itself"));
        }
        batch.rows.merge_pattern(pattern.id, head)?;
        let note = act.reason.as_ref();
        let (to, from) = (format!("into {head_id}"), format!("with {}", pattern.public_id));
        batch.note_pattern(pattern.id, &act.actor, PatternEvent::Merge, Some(&to), note)?;
        batch.note_pattern(head, &act.actor, PatternEvent::Merge, Some(&from), note)?;
        shown = Some(if act.scope == TenantScope::All { into.to_owned() } else { head_id });
    }
    shown.ok_or(Error::NotFound("pattern"))
}

fn unmerge_all(batch: &mut Batch<'_>, act: &PatternAct, found: Vec<Found>, only: Option<&str>) -> Result<String> {
    let mut any = false;
    for pattern in found {
        for (part, head, head_id) in batch.parts_to_take_out(&pattern, only)? {
            any = true;
            batch.rows.unmerge_pattern(part.id, head)?;
            let note = act.reason.as_ref();
            let (from, out) = (format!("from {head_id}"), format!("without {}", part.public_id));
            batch.note_pattern(part.id, &act.actor, PatternEvent::Unmerge, Some(&from), note)?;
            batch.note_pattern(head, &act.actor, PatternEvent::Unmerge, Some(&out), note)?;
        }
    }
    if any { Ok(act.id.clone()) } else { Err(Error::MergeRefused("there is nothing to take apart")) }
}

impl Batch<'_> {
    /// One tenant's, or for all tenants those of a fingerprint; a pattern's id names one in either case.
    fn patterns_named(&mut self, scope: &TenantScope, id: &str) -> Result<Vec<Found>> {
        let missing = || Error::NotFound("pattern");
        let tenant = match scope {
            TenantScope::One(tenant) => Some(self.find_tenant(tenant)?.ok_or_else(missing)?),
            TenantScope::All => None,
        };
        if let Some(tenant) = tenant {
            return self.pattern_of_tenant(tenant, id)?.map(|found| vec![found]).ok_or_else(missing);
        }
        if let Some(found) = self.rows.pattern_by_id(id)? {
            return Ok(vec![found]);
        }
        let found = self.rows.patterns_by_key(FingerprintKey::parse(id).ok_or_else(missing)?)?;
        if found.is_empty() { Err(missing()) } else { Ok(found) }
    }

    fn pattern_of_tenant(&mut self, tenant: i64, id: &str) -> Result<Option<Found>> {
        // We named it ourselves: what is no id names nothing, and PostgreSQL takes no NUL in a text.
        if id.parse::<RunId>().is_err() {
            return Ok(None);
        }
        if let Some(found) = self.rows.pattern_by_id(id)?.filter(|found| found.tenant == tenant) {
            return Ok(Some(found));
        }
        let Some(key) = FingerprintKey::parse(id) else { return Ok(None) };
        self.rows.pattern_by_alias(tenant, key)
    }

    /// The pattern itself where it is a part, otherwise its parts; with a fingerprint only the one of it.
    fn parts_to_take_out(&mut self, pattern: &Found, only: Option<&str>) -> Result<Vec<(Found, i64, String)>> {
        if let Some((head, head_id)) = &pattern.merged {
            return Ok(vec![(pattern.clone(), *head, head_id.clone())]);
        }
        let parts = self.rows.parts_of_pattern(pattern.id)?;
        let wanted = |part: &Found| only.is_none_or(|only| part.key.to_string() == only || part.public_id == only);
        Ok(parts.into_iter().filter(wanted).map(|part| (part, pattern.id, pattern.public_id.clone())).collect())
    }

    /// A version that is named counts as seen: what comes after it is newer, whether or not it was ever met.
    fn resolve_pattern(&mut self, pattern: &Found, in_version: &Versions) -> Result<()> {
        self.see_versions(pattern.tenant, in_version)?;
        let versions = (!in_version.is_empty()).then(|| json(in_version)).transpose()?;
        let resolved = PatternChange::Resolved { at: self.now, in_versions: versions.as_deref() };
        self.rows.change_pattern(pattern.id, &resolved)
    }

    fn mute_pattern(&mut self, pattern: &Found, until: Option<Timestamp>) -> Result<()> {
        let (state, muted_until, before) = pattern.state;
        let now = state_now(state, muted_until, before, self.now)?;
        // Muted once more: what was before the first time comes back.
        let before = if now == PatternState::Muted { before } else { Some(position(PatternState::ALL, &now)) };
        self.rows.change_pattern(pattern.id, &PatternChange::Muted { until, before })
    }
}
