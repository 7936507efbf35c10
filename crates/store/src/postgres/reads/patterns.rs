//! Patterns: a tenant's own, or for those who span tenants one row for each fingerprint. What was merged stands in its
//! head's row, and what came since the figures were folded is added: both when they are read.

use std::collections::HashMap;

use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternSort, PatternState, PatternView, PatternsPage};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{number, text, whole};
use crate::postgres::reads::lookup::{Whose, whose};
use crate::postgres::reads::params::{Params, Value};
use crate::shared::cursor::{seal_numbers, unseal_numbers};
use crate::shared::filter::PAGE_MAX;
use crate::shared::patterns::{Shown, rolled_up, urgency, view};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::TenantScope;
use redrive_engine::model::patterns::{PatternFilter, PatternsCall};
use redrive_engine::runs::document::position;

const FIRST: [i64; 3] = [i64::MAX; 3];

type Placed = ([i64; 3], PatternView);

/// The greatest first.
pub(crate) async fn list_patterns(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    call: &PatternsCall,
    now: Timestamp,
) -> Result<PatternsPage> {
    let question = format!("patterns {scope:?} {:?} {}", call.filter, call.sort);
    let after = call.cursor.as_deref().map_or(Ok(FIRST), |cursor| unseal_numbers(&question, cursor))?;
    let limit = call.limit.clamp(1, PAGE_MAX);
    let mut rows = match whose(snapshot, scope).await? {
        Whose::Nobody => Vec::new(),
        Whose::One(tenant) => of_tenant(snapshot, tenant, call, after, limit + 1, now).await?,
        Whose::All => over_all(snapshot, call, after, limit + 1, now).await?,
    };
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let next_cursor = rows.last().filter(|_| more).map(|(place, _)| seal_numbers(&question, place));
    Ok(PatternsPage { patterns: rows.into_iter().map(|(_, view)| view).collect(), next_cursor })
}

/// Patterns as they stand, as a table `shown`; `p` is the patterns' row that `narrow` asks for. `now` is the place of the
/// time that mutes are held against.
fn shown_table(narrow: &str, now: &str) -> String {
    let muted = position(PatternState::ALL, &PatternState::Muted);
    format!(
        "WITH new AS (
             SELECT pattern, sum(count)::bigint AS count, sum(open)::bigint AS open, max(at) AS at,
                 max(group_seen) AS group_seen
             FROM pattern_deltas GROUP BY pattern
         ), seen AS (
             SELECT p.*, p.count + coalesce(new.count, 0) AS all_count, p.open + coalesce(new.open, 0) AS all_open,
                 greatest(p.last_seen, new.at) AS all_last, greatest(p.group_seen, new.group_seen) AS all_group
             FROM patterns p LEFT JOIN new ON new.pattern = p.id WHERE {narrow}
         ), parts AS (
             SELECT merged_into AS head, sum(all_count)::bigint AS count, sum(all_open)::bigint AS open,
                 min(first_seen) AS first_seen
             FROM seen WHERE merged_into IS NOT NULL GROUP BY merged_into
         ), shown AS (
             SELECT seen.*, all_count + coalesce(parts.count, 0) AS shown_count,
                 all_open + coalesce(parts.open, 0) AS shown_open,
                 least(seen.first_seen, parts.first_seen) AS shown_first,
                 CASE WHEN merged_into IS NULL THEN all_group ELSE all_last END AS shown_last,
                 CASE WHEN state = {muted} AND muted_until <= {now} THEN coalesce(before_mute, 0) ELSE state END
                     AS shown_state
             FROM seen LEFT JOIN parts ON parts.head = seen.id
         )"
    )
}

fn sorted_by(sort: PatternSort) -> &'static str {
    match sort {
        PatternSort::LastSeen => "shown_last",
        PatternSort::Count => "shown_count",
        PatternSort::Open => "shown_open",
    }
}

async fn of_tenant(
    snapshot: &Snapshot<'_>,
    tenant: i64,
    call: &PatternsCall,
    after: [i64; 3],
    most: u32,
    now: Timestamp,
) -> Result<Vec<Placed>> {
    let mut params = Params::default();
    let at = params.number(now.as_millis());
    let table = shown_table(&format!("p.tenant = {}", params.number(tenant)), &at);
    let key = sorted_by(call.sort);
    let mut wanted = narrow(snapshot, &call.filter, &mut params).await?;
    if !call.filter.states.is_empty() {
        let states: Vec<i64> = call.filter.states.iter().map(|s| position(PatternState::ALL, s)).collect();
        wanted.push(format!("shown_state = ANY({})", params.numbers(&states)));
    }
    let [place, id, _] = after;
    wanted.push(format!("({key}, id) < ({}, {})", params.number(place), params.number(id)));
    let sql = format!(
        "{table} SELECT {key}, id FROM shown WHERE merged_into IS NULL AND {} ORDER BY {key} DESC, id DESC LIMIT {most}",
        wanted.join(" AND ")
    );
    let rows = snapshot.rows_of(&sql, &params).await?;
    let places = rows.iter().map(|row| Ok([number(row, 0)?, number(row, 1)?, 0])).collect::<Result<Vec<_>>>()?;
    let ids: Vec<i64> = places.iter().map(|[_, id, _]| *id).collect();
    let mut views: HashMap<i64, PatternView> = views(snapshot, &ids, now).await?.into_iter().collect();
    Ok(places.into_iter().filter_map(|place| Some((place, views.remove(&place[1])?))).collect())
}

/// One row for each fingerprint. The grouping reads every pattern: there are as many as kinds of failure, not as
/// many as failures.
async fn over_all(
    snapshot: &Snapshot<'_>,
    call: &PatternsCall,
    after: [i64; 3],
    most: u32,
    now: Timestamp,
) -> Result<Vec<Placed>> {
    let mut params = Params::default();
    let at = params.number(now.as_millis());
    let table = shown_table("true", &at);
    let place = match call.sort {
        PatternSort::LastSeen => "max(shown_last)",
        PatternSort::Count => "sum(shown_count)::bigint",
        PatternSort::Open => "sum(shown_open)::bigint",
    };
    let mut wanted = narrow(snapshot, &call.filter, &mut params).await?;
    wanted.push("merged_into IS NULL".to_owned());
    let states: Vec<i64> = call.filter.states.iter().map(|state| i64::from(urgency(*state))).collect();
    let urgent =
        if states.is_empty() { String::new() } else { format!("AND urgent = ANY({})", params.numbers(&states)) };
    let after = after.map(|n| params.number(n)).join(", ");
    let sql = format!(
        "{table}, grouped AS (
             SELECT {place} AS place, fp_hash, fp_version, max({})::bigint AS urgent FROM shown WHERE {}
             GROUP BY fp_hash, fp_version
         )
         SELECT place, fp_hash, fp_version FROM grouped WHERE (place, fp_hash, fp_version) < ({after}) {urgent}
         ORDER BY place DESC, fp_hash DESC, fp_version DESC LIMIT {most}",
        urgency_sql(),
        wanted.join(" AND ")
    );
    let rows = snapshot.rows_of(&sql, &params).await?;
    let mut placed = Vec::new();
    let keys = rows.iter().map(key_at_one).collect::<Result<Vec<_>>>()?;
    let mut rolled = roll_up(snapshot, &keys, now).await?;
    for (row, key) in rows.iter().zip(keys) {
        if let Some(shown) = rolled.remove(&key) {
            placed.push(([number(row, 0)?, number(row, 1)?, number(row, 2)?], shown.view));
        }
    }
    Ok(placed)
}

fn key_at_one(row: &tokio_postgres::Row) -> Result<FingerprintKey> {
    Ok(FingerprintKey { hash: number(row, 1)?, version: whole(row, 2, "fingerprint version")? })
}

fn urgency_sql() -> String {
    let each = PatternState::ALL
        .iter()
        .map(|state| format!(" WHEN {} THEN {}", position(PatternState::ALL, state), urgency(*state)));
    format!("CASE shown_state{} END", each.collect::<String>())
}

/// What a filter asks of each row, but for its state. Words are looked for here and not in SQL: a template is bytes.
async fn narrow(snapshot: &Snapshot<'_>, filter: &PatternFilter, params: &mut Params) -> Result<Vec<String>> {
    let mut all = Vec::new();
    if !filter.reasons.is_empty() {
        let reasons = filter.reasons.iter().map(|reason| reason.as_str().to_owned()).collect();
        all.push(format!("reason = ANY({})", params.add(Value::Texts(reasons))));
    }
    if let Some(q) = &filter.q {
        let q = q.to_lowercase();
        let mut ids = Vec::new();
        for row in snapshot.rows("SELECT id, template FROM patterns WHERE merged_into IS NULL", &[]).await? {
            if text(&row, 1)?.to_lowercase().contains(&q) {
                ids.push(number(&row, 0)?);
            }
        }
        all.push(format!("id = ANY({})", params.numbers(&ids)));
    }
    Ok(all)
}

/// The patterns of these numbers, the last seen first.
async fn views(snapshot: &Snapshot<'_>, ids: &[i64], now: Timestamp) -> Result<Vec<(i64, PatternView)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let table = shown_table("p.id = ANY($2) OR p.merged_into = ANY($2)", "$1");
    let sql = format!(
        "{table} SELECT shown.public_id, shown.fp_version, shown.fp_hash, shown.template, shown.reason, shown.category,
             shown_count, shown_open, shown_first, shown_last, shown_state, shown.regression, shown.owner, tenants.name,
             shown.id, shown.muted_until, shown.resolved_at, shown.resolved_in, head.public_id
         FROM shown JOIN tenants ON tenants.id = shown.tenant LEFT JOIN patterns head ON head.id = shown.merged_into
         WHERE shown.id = ANY($2) ORDER BY shown.all_group DESC, shown.id"
    );
    let rows = snapshot.rows(&sql, &[&now.as_millis(), &ids]).await?;
    rows.iter().map(|row| Ok((number(row, 14)?, view(row)?))).collect()
}

/// By a pattern's id or a fingerprint.
pub(crate) async fn shown(snapshot: &Snapshot<'_>, scope: &TenantScope, id: &str, now: Timestamp) -> Result<Shown> {
    let missing = || Error::NotFound("pattern");
    let tenant = match whose(snapshot, scope).await? {
        Whose::Nobody => return Err(missing().into()),
        Whose::All => None,
        Whose::One(tenant) => Some(tenant),
    };
    // No id of ours holds NUL, and PostgreSQL takes none in a text.
    if id.contains('\0') {
        return Err(missing().into());
    }
    let by_id = "SELECT id FROM patterns WHERE public_id = $1 AND tenant = coalesce($2, tenant)";
    let mut found = snapshot.row(by_id, &[&id, &tenant]).await?;
    if found.is_none() {
        let key = FingerprintKey::parse(id).ok_or_else(missing)?;
        let Some(tenant) = tenant else {
            return Ok(roll_up(snapshot, &[key], now).await?.remove(&key).ok_or_else(missing)?);
        };
        let by_alias = "SELECT coalesce(own.merged_into, own.id) FROM pattern_alias a
             JOIN patterns own ON own.id = a.pattern WHERE a.tenant = $1 AND a.fp_hash = $2 AND a.fp_version = $3";
        found = snapshot.row(by_alias, &[&tenant, &key.hash, &i64::from(key.version)]).await?;
    }
    let found = number(&found.ok_or_else(missing)?, 0)?;
    let (row, view) = views(snapshot, &[found], now).await?.pop().ok_or_else(missing)?;
    Ok(Shown { view, rows: vec![row] })
}

pub(crate) async fn one_pattern(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    id: &str,
    now: Timestamp,
) -> Result<PatternView> {
    shown(snapshot, scope, id, now).await.map(|shown| shown.view)
}

/// Each fingerprint's patterns of all tenants as one.
async fn roll_up(
    snapshot: &Snapshot<'_>,
    keys: &[FingerprintKey],
    now: Timestamp,
) -> Result<HashMap<FingerprintKey, Shown>> {
    let (hashes, versions): (Vec<i64>, Vec<i64>) = keys.iter().map(|key| (key.hash, i64::from(key.version))).unzip();
    let sql = "SELECT patterns.id, patterns.fp_hash, patterns.fp_version FROM unnest($1::bigint[], $2::bigint[])
             AS asked (hash, version)
         JOIN patterns ON patterns.fp_hash = asked.hash AND patterns.fp_version = asked.version";
    let mut of: HashMap<i64, FingerprintKey> = HashMap::new();
    for row in snapshot.rows(sql, &[&hashes, &versions]).await? {
        of.insert(number(&row, 0)?, key_at_one(&row)?);
    }
    let ids: Vec<i64> = of.keys().copied().collect();
    let mut parts: HashMap<FingerprintKey, Vec<(i64, PatternView)>> = HashMap::new();
    for (id, view) in views(snapshot, &ids, now).await? {
        if let Some(key) = of.get(&id) {
            parts.entry(*key).or_default().push((id, view));
        }
    }
    Ok(parts.into_iter().filter_map(|(key, parts)| Some((key, rolled_up(key, parts)?))).collect())
}
