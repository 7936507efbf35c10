//! Patterns: lists, one pattern, and the patterns of all tenants with one fingerprint as one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redrive_core::ids::Tenant;
use redrive_core::reason::Category;
use redrive_core::time::{DAY_MS, HOUR_MS, SECOND_MS, Timestamp};
use redrive_core::wire::{
    MergedPattern, PatternBody, PatternDetail, PatternEntry, PatternEvent, PatternHour, PatternSort, PatternState,
    PatternView, PatternsPage,
};

use super::columns::{
    Columns, flag, json, label_or_none, number, owned, owned_or_none, packed_note, parsed, time, time_or_none, whole,
};
use super::cursor::{seal_numbers, unseal_numbers};
use super::lookup::{ReadScope, read_scope};
use super::reader::{SqlParam, SqlParams, StoreReader};
use super::runs::PAGE_MAX;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::TenantScope;
use redrive_engine::model::patterns::{PatternFilter, PatternsCall};
use redrive_engine::runs::document::{position, word};

/// How far back a pattern's failures are kept by the hour.
pub(crate) const PATTERN_HOURS_KEPT_MS: u64 = 7 * DAY_MS;
/// How far `group_seen`, by which lists are sorted, may lag behind the last failure.
pub(crate) const GROUP_SEEN_LAG_MS: u64 = SECOND_MS;
/// Tenants that a pattern of all tenants names.
const TENANTS_MAX: usize = 20;
/// Merged patterns that a page names.
const MERGED_MAX: usize = 100;
/// The last events that a page shows.
pub(crate) const EVENTS_MAX: usize = 200;

/// Positions are sort key, then what makes it unique: a pattern number, or a fingerprint's hash and version.
type PatternPosition = [i64; 3];
const BEFORE_ALL: PatternPosition = [i64::MAX; 3];

/// A tenant's patterns, or for a spanning scope one row per fingerprint. The greatest come first.
pub(crate) async fn list_patterns(
    reader: &impl StoreReader,
    scope: &TenantScope,
    call: &PatternsCall,
    now: Timestamp,
) -> Result<PatternsPage> {
    let question = format!("patterns {scope:?} {:?} {}", call.filter, call.sort);
    let after = call.cursor.as_deref().map_or(Ok(BEFORE_ALL), |cursor| unseal_numbers(&question, cursor))?;
    let limit = call.limit.clamp(1, PAGE_MAX);
    let mut rows = match read_scope(reader, scope).await? {
        ReadScope::Nobody => Vec::new(),
        ReadScope::One(tenant) => patterns_of_tenant(reader, tenant, call, after, limit + 1, now).await?,
        ReadScope::All => patterns_of_all(reader, call, after, limit + 1, now).await?,
    };
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let next_cursor = rows.last().filter(|_| more).map(|(position, _)| seal_numbers(&question, position));
    Ok(PatternsPage { patterns: rows.into_iter().map(|(_, view)| view).collect(), next_cursor })
}

async fn patterns_of_tenant<R: StoreReader>(
    reader: &R,
    tenant: i64,
    call: &PatternsCall,
    after: PatternPosition,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<(PatternPosition, PatternView)>> {
    let mut params = SqlParams::default();
    let (at, tenant) = (params.add(now), params.add(tenant));
    let pattern = R::pattern_sql(Some(&tenant), &at);
    let key = match call.sort {
        PatternSort::LastSeen => pattern.last_seen,
        PatternSort::Count => pattern.count,
        PatternSort::Open => pattern.open,
    };
    let mut all = conditions(reader, &call.filter, &mut params).await?;
    if !call.filter.states.is_empty() {
        let states = call.filter.states.iter().map(|state| position(PatternState::ALL, state)).collect();
        all.push(R::one_of(&pattern.state, SqlParam::Numbers(states), &mut params));
    }
    let [value, id, _] = after;
    all.push(format!("({key}, p.id) < ({}, {})", params.add(value), params.add(id)));
    let sql = format!(
        "{} SELECT {key}, p.id FROM {} WHERE p.tenant = {tenant} AND p.merged_into IS NULL AND {} \
         ORDER BY {key} DESC, p.id DESC LIMIT {limit}",
        pattern.with,
        pattern.table,
        all.join(" AND ")
    );
    let positions = reader.rows(&sql, params.values()).await?.read(|row| Ok([number(row, 0)?, number(row, 1)?, 0]))?;
    let ids: Vec<i64> = positions.iter().map(|[_, id, _]| *id).collect();
    let mut views: HashMap<i64, PatternView> = reader.pattern_views(&ids, now).await?.into_iter().collect();
    Ok(positions.into_iter().filter_map(|position| Some((position, views.remove(&position[1])?))).collect())
}

/// Grouping reads every pattern; there are as many as kinds of failure, not as many as failures.
async fn patterns_of_all<R: StoreReader>(
    reader: &R,
    call: &PatternsCall,
    after: PatternPosition,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<(PatternPosition, PatternView)>> {
    let mut params = SqlParams::default();
    let pattern = R::pattern_sql(None, &params.add(now));
    let key = match call.sort {
        PatternSort::LastSeen => format!("max({})", pattern.last_seen),
        PatternSort::Count => format!("CAST(sum({}) AS BIGINT)", pattern.count),
        PatternSort::Open => format!("CAST(sum({}) AS BIGINT)", pattern.open),
    };
    let mut all = conditions(reader, &call.filter, &mut params).await?;
    all.push("p.merged_into IS NULL".to_owned());
    let grouped = format!(
        "SELECT {key} AS value, p.fp_hash, p.fp_version, CAST(max({}) AS BIGINT) AS urgency FROM {} WHERE {} \
         GROUP BY p.fp_hash, p.fp_version",
        urgency_sql(&pattern.state),
        pattern.table,
        all.join(" AND ")
    );
    let mut of_groups = vec![format!("(value, fp_hash, fp_version) < ({})", after.map(|n| params.add(n)).join(", "))];
    if !call.filter.states.is_empty() {
        let states = call.filter.states.iter().map(|state| i64::from(urgency(*state))).collect();
        of_groups.push(R::one_of("urgency", SqlParam::Numbers(states), &mut params));
    }
    let sql = format!(
        "{} SELECT value, fp_hash, fp_version FROM ({grouped}) AS grouped WHERE {} \
         ORDER BY value DESC, fp_hash DESC, fp_version DESC LIMIT {limit}",
        pattern.with,
        of_groups.join(" AND ")
    );
    let positions = reader.rows(&sql, params.values()).await?.read(|row| {
        let key = FingerprintKey { hash: number(row, 1)?, version: whole(row, 2, "fingerprint version")? };
        Ok(([number(row, 0)?, number(row, 1)?, number(row, 2)?], key))
    })?;
    let keys: Vec<FingerprintKey> = positions.iter().map(|(_, key)| *key).collect();
    let mut rolled = roll_up(reader, &keys, now).await?;
    let shown = positions.into_iter().filter_map(|(position, key)| Some((position, rolled.remove(&key)?.view)));
    Ok(shown.collect())
}

fn urgency_sql(state: &str) -> String {
    let each = PatternState::ALL
        .iter()
        .map(|state| format!(" WHEN {} THEN {}", position(PatternState::ALL, state), urgency(*state)));
    format!("CASE {state}{} END", each.collect::<String>())
}

/// The conditions of a filter on each pattern, except its state.
async fn conditions<R: StoreReader>(reader: &R, filter: &PatternFilter, params: &mut SqlParams) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if !filter.reasons.is_empty() {
        let reasons = filter.reasons.iter().map(|reason| reason.as_str().to_owned()).collect();
        all.push(R::one_of("p.reason", SqlParam::Texts(reasons), params));
    }
    if let Some(q) = &filter.q {
        all.push(reader.template_contains(&q.to_lowercase(), params).await?);
    }
    Ok(all)
}

/// A pattern as it is shown, and its rows: one, or one of each tenant.
struct ShownPattern {
    view: PatternView,
    rows: Vec<i64>,
}

/// Finds a pattern by id or fingerprint.
async fn find(reader: &impl StoreReader, scope: &TenantScope, id: &str, now: Timestamp) -> Result<ShownPattern> {
    let missing = || Error::NotFound("pattern");
    let tenant = match read_scope(reader, scope).await? {
        ReadScope::Nobody => return Err(missing().into()),
        ReadScope::All => None,
        ReadScope::One(tenant) => Some(tenant),
    };
    // No id holds NUL, which PostgreSQL refuses in a text.
    if id.contains('\0') {
        return Err(missing().into());
    }
    let by_id = "SELECT id FROM patterns WHERE public_id = $1 AND tenant = coalesce($2, tenant)";
    let mut found = reader.row(by_id, &[id.into(), tenant.into()]).await?.read(|row| number(row, 0))?;
    if found.is_none() {
        let key = FingerprintKey::parse(id).ok_or_else(missing)?;
        let Some(tenant) = tenant else {
            return Ok(roll_up(reader, &[key], now).await?.remove(&key).ok_or_else(missing)?);
        };
        let by_alias = "SELECT coalesce(own.merged_into, own.id) FROM pattern_alias a
             JOIN patterns own ON own.id = a.pattern WHERE a.tenant = $1 AND a.fp_hash = $2 AND a.fp_version = $3";
        let values = [tenant.into(), key.hash.into(), i64::from(key.version).into()];
        found = reader.row(by_alias, &values).await?.read(|row| number(row, 0))?;
    }
    let found = found.ok_or_else(missing)?;
    let (row, view) = reader.pattern_views(&[found], now).await?.pop().ok_or_else(missing)?;
    Ok(ShownPattern { view, rows: vec![row] })
}

pub(crate) async fn one_pattern(
    reader: &impl StoreReader,
    scope: &TenantScope,
    id: &str,
    now: Timestamp,
) -> Result<PatternView> {
    find(reader, scope, id, now).await.map(|shown| shown.view)
}

/// A pattern with its failures by the hour, the patterns merged into it, and its events.
pub(crate) async fn pattern_detail(
    reader: &impl StoreReader,
    scope: &TenantScope,
    id: &str,
    now: Timestamp,
) -> Result<PatternDetail> {
    let ShownPattern { view, rows } = find(reader, scope, id, now).await?;
    let merged = reader.merged_patterns(&rows).await?;
    let all: Vec<i64> = rows.iter().copied().chain(merged.iter().map(|(id, _)| *id)).collect();
    let body = PatternBody {
        hours: hours(reader, &all, now).await?,
        merged: merged.into_iter().map(|(_, merged)| merged).take(MERGED_MAX).collect(),
        events: last_events(reader.pattern_events(&rows).await?),
    };
    Ok(PatternDetail { pattern: view, body })
}

/// The patterns of all tenants with the same fingerprint as one.
async fn roll_up(
    reader: &impl StoreReader,
    keys: &[FingerprintKey],
    now: Timestamp,
) -> Result<HashMap<FingerprintKey, ShownPattern>> {
    let mut parts: HashMap<FingerprintKey, Vec<(i64, PatternView)>> = HashMap::new();
    for (key, id, view) in reader.patterns_by_fingerprint(keys, now).await? {
        parts.entry(key).or_default().push((id, view));
    }
    Ok(parts.into_iter().filter_map(|(key, parts)| Some((key, rolled_up(key, parts)?))).collect())
}

/// Takes the template of the part seen last, which comes first. Merged parts count only if all are merged.
fn rolled_up(key: FingerprintKey, mut parts: Vec<(i64, PatternView)>) -> Option<ShownPattern> {
    if parts.iter().any(|(_, part)| part.merged_into.is_none()) {
        parts.retain(|(_, part)| part.merged_into.is_none());
    }
    let rows = parts.iter().map(|(id, _)| *id).collect();
    let tenants: BTreeSet<Tenant> = parts.iter().flat_map(|(_, part)| part.tenants.clone()).collect();
    let mut parts = parts.into_iter().map(|(_, part)| part);
    let mut whole = PatternView { id: key.to_string(), ..parts.next()? };
    parts.for_each(|part| fold(&mut whole, part));
    whole.tenants = tenants.into_iter().take(TENANTS_MAX).collect();
    Some(ShownPattern { view: whole, rows })
}

fn fold(whole: &mut PatternView, part: PatternView) {
    whole.count += part.count;
    whole.open += part.open;
    whole.first_seen = whole.first_seen.min(part.first_seen);
    whole.regression |= part.regression;
    whole.owner = whole.owner.take().or(part.owner);
    if urgency(part.state) > urgency(whole.state) {
        whole.state = part.state;
        whole.muted_until = part.muted_until;
        whole.resolved_at = part.resolved_at;
        whole.resolved_in = part.resolved_in;
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

/// `row`: the columns that an adapter selects for a pattern, see its `pattern_views`.
pub(crate) fn view(row: &impl Columns) -> Result<PatternView> {
    let key = FingerprintKey { version: whole(row, 1, "fingerprint version")?, hash: number(row, 2)? };
    let state = word(PatternState::ALL, number(row, 10)?, "pattern state")?;
    let versions = owned_or_none(row, 17)?;
    Ok(PatternView {
        id: owned(row, 0)?,
        fingerprint: key.to_string(),
        template: owned(row, 3)?,
        reason: parsed(row, 4, "reason")?,
        category: word(&Category::ALL, number(row, 5)?, "category")?,
        count: whole(row, 6, "count")?,
        open: whole(row, 7, "open")?,
        first_seen: time(row, 8)?,
        last_seen: time(row, 9)?,
        state,
        regression: flag(row, 11)?,
        owner: label_or_none(row, 12)?,
        tenants: vec![parsed(row, 13, "tenant")?],
        muted_until: time_or_none(row, 15)?.filter(|_| state == PatternState::Muted),
        resolved_at: time_or_none(row, 16)?,
        resolved_in: versions.map(|text| json(&text, "resolved_in")).transpose()?,
        merged_into: owned_or_none(row, 18)?,
    })
}

pub(crate) fn event(row: &impl Columns) -> Result<PatternEntry> {
    Ok(PatternEntry {
        at: time(row, 0)?,
        tenant: parsed(row, 1, "tenant")?,
        actor: owned(row, 2)?,
        event: word(PatternEvent::ALL, number(row, 3)?, "pattern event")?,
        about: owned_or_none(row, 4)?,
        note: packed_note(row, 5)?,
    })
}

fn last_events(mut events: Vec<PatternEntry>) -> Vec<PatternEntry> {
    events.sort_by_key(|event| event.at);
    events.split_off(events.len().saturating_sub(EVENTS_MAX))
}

/// `row`: number, id, fingerprint version and hash, template, count, open.
pub(crate) fn merged(row: &impl Columns) -> Result<(i64, MergedPattern)> {
    let part = MergedPattern {
        id: owned(row, 1)?,
        fingerprint: FingerprintKey { version: whole(row, 2, "fingerprint version")?, hash: number(row, 3)? }
            .to_string(),
        template: owned(row, 4)?,
        count: whole(row, 5, "count")?,
        open: whole(row, 6, "open")?,
    };
    Ok((number(row, 0)?, part))
}

/// Every hour that failures are kept for, also those without one.
async fn hours(reader: &impl StoreReader, patterns: &[i64], now: Timestamp) -> Result<Vec<PatternHour>> {
    let before = now.hour().plus_ms(HOUR_MS);
    let first = before.minus_ms(PATTERN_HOURS_KEPT_MS);
    let mut failed: BTreeMap<Timestamp, u64> = BTreeMap::new();
    for (hour, n) in reader.pattern_hours(patterns, first).await? {
        *failed.entry(hour).or_default() += n;
    }
    let each = std::iter::successors(Some(first), |hour| Some(hour.plus_ms(HOUR_MS))).take_while(|hour| *hour < before);
    Ok(each.map(|hour| PatternHour { hour, failed: failed.get(&hour).copied().unwrap_or(0) }).collect())
}
