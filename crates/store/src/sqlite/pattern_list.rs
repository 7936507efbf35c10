//! Patterns: a tenant's own, or for those who span tenants one row for each fingerprint.

use std::collections::BTreeSet;

use redrive_core::ids::Tenant;
use redrive_core::reason::Category;
use redrive_core::wire::{PatternState, PatternView, PatternsPage};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{label_or_none, parsed, time, whole};
use super::cursor::{seal_numbers, unseal_numbers};
use super::fingerprints::FingerprintKey;
use super::life::word;
use super::list::PAGE_MAX;
use super::lookup::{Whose, whose};
use crate::error::{Error, Result};
use crate::model::TenantScope;

/// Tenants that a row over all of them names.
const TENANTS_MAX: usize = 20;
const FIRST: [i64; 3] = [i64::MAX; 3];
const COLUMNS: &str = "SELECT patterns.public_id, patterns.fp_version, patterns.fp_hash, patterns.template, \
     patterns.reason, patterns.category, patterns.count, patterns.open, patterns.first_seen, patterns.last_seen, \
     patterns.state, patterns.regression, patterns.owner, tenants.name, patterns.id \
     FROM patterns JOIN tenants ON tenants.id = patterns.tenant";

/// The last seen first.
pub(super) fn list_patterns(
    conn: &Connection,
    scope: &TenantScope,
    limit: u32,
    cursor: Option<&str>,
) -> Result<PatternsPage> {
    let question = format!("patterns {scope:?}");
    let after = cursor.map_or(Ok(FIRST), |cursor| unseal_numbers(&question, cursor))?;
    let limit = limit.clamp(1, PAGE_MAX);
    let mut rows = match whose(conn, scope)? {
        Whose::Nobody => Vec::new(),
        Whose::One(tenant) => of_tenant(conn, tenant, after, limit + 1)?,
        Whose::All => over_all(conn, after, limit + 1)?,
    };
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let next_cursor = rows.last().filter(|_| more).map(|(place, _)| seal_numbers(&question, place));
    Ok(PatternsPage { patterns: rows.into_iter().map(|(_, view)| view).collect(), next_cursor })
}

/// By a pattern's id or a fingerprint.
pub(super) fn one_pattern(conn: &Connection, scope: &TenantScope, id: &str) -> Result<PatternView> {
    let missing = || Error::NotFound("pattern");
    let tenant = match whose(conn, scope)? {
        Whose::Nobody => return Err(missing()),
        Whose::All => None,
        Whose::One(tenant) => Some(tenant),
    };
    let mut by_id = conn.prepare_cached(&format!(
        "{COLUMNS} WHERE patterns.public_id = ?1 AND patterns.tenant = coalesce(?2, patterns.tenant)"
    ))?;
    if let Some(found) = by_id.query_row(params![id, tenant], |row| Ok(view(row))).optional()? {
        return found;
    }
    let key = FingerprintKey::parse(id).ok_or_else(missing)?;
    match tenant {
        None => roll_up(conn, key)?.ok_or_else(missing),
        Some(tenant) => {
            let mut by_alias = conn.prepare_cached(&format!(
                "{COLUMNS} JOIN pattern_alias a ON a.pattern = patterns.id \
                 WHERE a.tenant = ? AND a.fp_hash = ? AND a.fp_version = ?"
            ))?;
            let found = by_alias.query_row(params![tenant, key.hash, key.version], |row| Ok(view(row))).optional()?;
            found.ok_or_else(missing)?
        }
    }
}

type Placed = ([i64; 3], PatternView);

fn of_tenant(conn: &Connection, tenant: i64, after: [i64; 3], most: u32) -> Result<Vec<Placed>> {
    let mut find = conn.prepare_cached(&format!(
        "{COLUMNS} WHERE patterns.tenant = ? AND (patterns.last_seen, patterns.id) < (?, ?) \
         ORDER BY patterns.last_seen DESC, patterns.id DESC LIMIT ?"
    ))?;
    let [seen, id, _] = after;
    find.query_and_then(params![tenant, seen, id, most], |row| Ok(([row.get(9)?, row.get(14)?, 0], view(row)?)))?
        .collect()
}

/// One row for each fingerprint. The grouping reads every pattern: there are as many as kinds of failure, not as
/// many as failures.
fn over_all(conn: &Connection, after: [i64; 3], most: u32) -> Result<Vec<Placed>> {
    let mut find = conn.prepare_cached(
        "SELECT max(last_seen) AS seen, fp_hash, fp_version FROM patterns GROUP BY fp_hash, fp_version \
         HAVING (seen, fp_hash, fp_version) < (?, ?, ?) ORDER BY seen DESC, fp_hash DESC, fp_version DESC LIMIT ?",
    )?;
    let [seen, hash, version] = after;
    let mut rows = find.query(params![seen, hash, version, most])?;
    let mut placed = Vec::new();
    while let Some(row) = rows.next()? {
        let place = [row.get(0)?, row.get(1)?, row.get(2)?];
        let key = FingerprintKey { hash: row.get(1)?, version: row.get(2)? };
        if let Some(view) = roll_up(conn, key)? {
            placed.push((place, view));
        }
    }
    Ok(placed)
}

/// All tenants' patterns of one fingerprint as one; words are those of the last seen.
fn roll_up(conn: &Connection, key: FingerprintKey) -> Result<Option<PatternView>> {
    let mut find = conn.prepare_cached(&format!(
        "{COLUMNS} WHERE patterns.fp_hash = ? AND patterns.fp_version = ? ORDER BY patterns.last_seen DESC, patterns.id"
    ))?;
    let mut whole: Option<PatternView> = None;
    let mut tenants: BTreeSet<Tenant> = BTreeSet::new();
    for part in find.query_and_then(params![key.hash, key.version], view)? {
        let part = part?;
        tenants.extend(part.tenants.iter().cloned());
        match &mut whole {
            None => whole = Some(PatternView { id: key.to_string(), ..part }),
            Some(whole) => fold(whole, part),
        }
    }
    Ok(whole.map(|whole| PatternView { tenants: tenants.into_iter().take(TENANTS_MAX).collect(), ..whole }))
}

fn fold(whole: &mut PatternView, part: PatternView) {
    whole.count += part.count;
    whole.open += part.open;
    whole.first_seen = whole.first_seen.min(part.first_seen);
    whole.regression |= part.regression;
    whole.owner = whole.owner.take().or(part.owner);
    if urgency(part.state) > urgency(whole.state) {
        whole.state = part.state;
    }
}

fn urgency(state: PatternState) -> u8 {
    match state {
        PatternState::Resolved => 0,
        PatternState::Muted => 1,
        PatternState::Acknowledged => 2,
        PatternState::New => 3,
    }
}

fn view(row: &Row<'_>) -> Result<PatternView> {
    let key = FingerprintKey { version: row.get(1)?, hash: row.get(2)? };
    Ok(PatternView {
        id: row.get(0)?,
        fingerprint: key.to_string(),
        template: row.get(3)?,
        reason: parsed(row, 4, "reason")?,
        category: word(&Category::ALL, row.get(5)?, "category")?,
        count: whole(row, 6, "count")?,
        open: whole(row, 7, "open")?,
        first_seen: time(row, 8)?,
        last_seen: time(row, 9)?,
        state: word(PatternState::ALL, row.get(10)?, "pattern state")?,
        regression: row.get(11)?,
        owner: label_or_none(row, 12)?,
        tenants: vec![parsed(row, 13, "tenant")?],
    })
}
