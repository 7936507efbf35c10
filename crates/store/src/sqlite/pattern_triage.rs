//! What a person does about a pattern, and the record of it. Acting on a fingerprint over all tenants is the same act
//! on each tenant's pattern of it, in one commit.

use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternEvent, PatternState, Versions};
use rusqlite::{OptionalExtension, Row, params};

use crate::error::{Error, Result};
use crate::model::TenantScope;
use crate::pattern_model::{PatternAct, PatternVerb};
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::fingerprints::FingerprintKey;
use crate::sqlite::life::position;
use crate::sqlite::pattern_clock::PatternClocks;
use crate::sqlite::patterns::state_now;

/// A pattern as an act finds it.
#[derive(Debug, Clone)]
struct Found {
    id: i64,
    tenant: i64,
    public_id: String,
    key: FingerprintKey,
    /// The head's number and id, where it is a part.
    merged: Option<(i64, String)>,
    state: (i64, Option<i64>, Option<i64>),
}

const COLUMNS: &str = "SELECT p.id, p.tenant, p.public_id, p.fp_version, p.fp_hash, h.id, h.public_id, p.state, \
     p.muted_until, p.before_mute FROM patterns p LEFT JOIN patterns h ON h.id = p.merged_into";

impl Found {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let head: Option<i64> = row.get(5)?;
        let merged = head.map(|head| Ok::<_, rusqlite::Error>((head, row.get(6)?))).transpose()?;
        Ok(Self {
            id: row.get(0)?,
            tenant: row.get(1)?,
            public_id: row.get(2)?,
            key: FingerprintKey { version: row.get(3)?, hash: row.get(4)? },
            merged,
            state: (row.get(7)?, row.get(8)?, row.get(9)?),
        })
    }
}

/// Answers with the name of what to show.
pub(super) fn triage_pattern(batch: &mut Batch<'_>, act: &PatternAct) -> Result<String> {
    batch.known.patterns.forget();
    batch.known.pattern_clocks = PatternClocks::default();
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
            batch.set_pattern_state(pattern.id, PatternState::Acknowledged)?;
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
            let mut assign = batch.conn.prepare_cached("UPDATE patterns SET owner = ?2 WHERE id = ?1")?;
            assign.execute(params![pattern.id, to.as_ref().map(|to| to.as_str())])?;
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
        batch.merge_pattern(pattern.id, head)?;
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
            batch.unmerge_pattern(part.id, head)?;
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
        let mut by_id = self.conn.prepare_cached(&format!("{COLUMNS} WHERE p.public_id = ?1"))?;
        if let Some(found) = by_id.query_row([id], Found::read).optional()? {
            return Ok(vec![found]);
        }
        let key = FingerprintKey::parse(id).ok_or_else(missing)?;
        let mut by_key =
            self.conn.prepare_cached(&format!("{COLUMNS} WHERE p.fp_hash = ?1 AND p.fp_version = ?2 ORDER BY p.id"))?;
        let found = by_key.query_map(params![key.hash, key.version], Found::read)?.collect::<Result<Vec<_>, _>>()?;
        if found.is_empty() { Err(missing()) } else { Ok(found) }
    }

    fn pattern_of_tenant(&mut self, tenant: i64, id: &str) -> Result<Option<Found>> {
        let mut by_id = self.conn.prepare_cached(&format!("{COLUMNS} WHERE p.public_id = ?1 AND p.tenant = ?2"))?;
        if let Some(found) = by_id.query_row(params![id, tenant], Found::read).optional()? {
            return Ok(Some(found));
        }
        let Some(key) = FingerprintKey::parse(id) else { return Ok(None) };
        let mut by_alias = self.conn.prepare_cached(&format!(
            "{COLUMNS} JOIN pattern_alias a ON a.pattern = p.id \
             WHERE a.tenant = ?1 AND a.fp_hash = ?2 AND a.fp_version = ?3"
        ))?;
        Ok(by_alias.query_row(params![tenant, key.hash, key.version], Found::read).optional()?)
    }

    /// The pattern itself where it is a part, otherwise its parts; with a fingerprint only the one of it.
    fn parts_to_take_out(&mut self, pattern: &Found, only: Option<&str>) -> Result<Vec<(Found, i64, String)>> {
        if let Some((head, head_id)) = &pattern.merged {
            return Ok(vec![(pattern.clone(), *head, head_id.clone())]);
        }
        let mut find = self.conn.prepare_cached(&format!("{COLUMNS} WHERE p.merged_into = ?1 ORDER BY p.id"))?;
        let parts = find.query_map([pattern.id], Found::read)?.collect::<Result<Vec<_>, _>>()?;
        let wanted = |part: &Found| only.is_none_or(|only| part.key.to_string() == only || part.public_id == only);
        Ok(parts.into_iter().filter(wanted).map(|part| (part, pattern.id, pattern.public_id.clone())).collect())
    }

    fn set_pattern_state(&mut self, id: i64, state: PatternState) -> Result<()> {
        let mut set = self.conn.prepare_cached(
            "UPDATE patterns SET state = ?2, muted_until = NULL, resolved_at = NULL, resolved_in = NULL WHERE id = ?1",
        )?;
        set.execute([id, position(PatternState::ALL, &state)])?;
        Ok(())
    }

    /// A version that is named counts as seen: what comes after it is newer, whether or not it was ever met.
    fn resolve_pattern(&mut self, pattern: &Found, in_version: &Versions) -> Result<()> {
        self.see_versions(pattern.tenant, in_version)?;
        let versions = (!in_version.is_empty()).then(|| json(in_version)).transpose()?;
        let mut resolve = self.conn.prepare_cached(
            "UPDATE patterns SET state = ?2, regression = 0, muted_until = NULL, resolved_at = ?3, resolved_in = ?4
             WHERE id = ?1",
        )?;
        let resolved = position(PatternState::ALL, &PatternState::Resolved);
        resolve.execute(params![pattern.id, resolved, self.now.as_millis(), versions])?;
        Ok(())
    }

    fn mute_pattern(&mut self, pattern: &Found, until: Option<Timestamp>) -> Result<()> {
        let (state, muted_until, before) = pattern.state;
        let now = state_now(state, muted_until, before, self.now)?;
        let muted = position(PatternState::ALL, &PatternState::Muted);
        // Muted once more: what was before the first time comes back.
        let before = if now == PatternState::Muted { before } else { Some(position(PatternState::ALL, &now)) };
        let mut mute = self
            .conn
            .prepare_cached("UPDATE patterns SET state = ?2, muted_until = ?3, before_mute = ?4 WHERE id = ?1")?;
        mute.execute(params![pattern.id, muted, until.map(Timestamp::as_millis), before])?;
        Ok(())
    }

    /// The pattern and its own parts become parts of `head`: never a chain.
    fn merge_pattern(&mut self, pattern: i64, head: i64) -> Result<()> {
        let mut seen = self.conn.prepare_cached(
            "UPDATE patterns SET group_seen = max(group_seen, (SELECT group_seen FROM patterns WHERE id = ?1))
             WHERE id = ?2",
        )?;
        seen.execute([pattern, head])?;
        let mut merge =
            self.conn.prepare_cached("UPDATE patterns SET merged_into = ?2 WHERE id = ?1 OR merged_into = ?1")?;
        merge.execute([pattern, head])?;
        Ok(())
    }

    fn unmerge_pattern(&mut self, part: i64, head: i64) -> Result<()> {
        let mut out =
            self.conn.prepare_cached("UPDATE patterns SET merged_into = NULL, group_seen = last_seen WHERE id = ?1")?;
        out.execute([part])?;
        let mut seen = self.conn.prepare_cached(
            "UPDATE patterns SET group_seen = max(last_seen, coalesce(
                 (SELECT max(m.last_seen) FROM patterns m WHERE m.merged_into = ?1), 0)) WHERE id = ?1",
        )?;
        seen.execute([head])?;
        Ok(())
    }
}
