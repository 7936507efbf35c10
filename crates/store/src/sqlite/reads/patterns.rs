//! Patterns: a tenant's own, or for those who span tenants one row for each fingerprint. What was merged stands in its
//! head's row: its figures are added when they are read, one look into a small index for each head.

use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternSort, PatternState, PatternView, PatternsPage};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

pub(crate) use crate::shared::patterns::Shown;

use crate::shared::cursor::{seal_numbers, unseal_numbers};
use crate::shared::patterns::{rolled_up, urgency, view};
use crate::sqlite::reads::list::PAGE_MAX;
use crate::sqlite::reads::lookup::{Whose, whose};
use crate::sqlite::reads::predicate::Clause;
use redrive_engine::error::{BoxError, Error, PortResult as Result};
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::TenantScope;
use redrive_engine::model::patterns::{PatternFilter, PatternsCall};
use redrive_engine::runs::document::position;

const FIRST: [i64; 3] = [i64::MAX; 3];
const COUNT: &str = "(p.count + coalesce((SELECT sum(m.count) FROM patterns m WHERE m.merged_into = p.id), 0))";
const OPEN: &str = "(p.open + coalesce((SELECT sum(m.open) FROM patterns m WHERE m.merged_into = p.id), 0))";
const FIRST_SEEN: &str = "min(p.first_seen, coalesce((SELECT min(m.first_seen) FROM patterns m \
     WHERE m.merged_into = p.id), p.first_seen))";

/// The state with a mute that is over taken off; asks for the time.
fn state_sql() -> String {
    let muted = position(PatternState::ALL, &PatternState::Muted);
    format!("(CASE WHEN p.state = {muted} AND p.muted_until <= ? THEN coalesce(p.before_mute, 0) ELSE p.state END)")
}

/// Every row of a view begins with the time that its state is asked for.
fn columns() -> String {
    format!(
        "SELECT p.public_id, p.fp_version, p.fp_hash, p.template, p.reason, p.category, {COUNT}, {OPEN}, {FIRST_SEEN}, \
         CASE WHEN p.merged_into IS NULL THEN p.group_seen ELSE p.last_seen END, {}, p.regression, p.owner, \
         tenants.name, p.id, p.muted_until, p.resolved_at, p.resolved_in, head.public_id \
         FROM patterns p JOIN tenants ON tenants.id = p.tenant LEFT JOIN patterns head ON head.id = p.merged_into",
        state_sql()
    )
}

/// The greatest first.
pub(crate) fn list_patterns(
    conn: &Connection,
    scope: &TenantScope,
    call: &PatternsCall,
    now: Timestamp,
) -> Result<PatternsPage> {
    let question = format!("patterns {scope:?} {:?} {}", call.filter, call.sort);
    let after = call.cursor.as_deref().map_or(Ok(FIRST), |cursor| unseal_numbers(&question, cursor))?;
    let limit = call.limit.clamp(1, PAGE_MAX);
    let mut rows = match whose(conn, scope)? {
        Whose::Nobody => Vec::new(),
        Whose::One(tenant) => of_tenant(conn, tenant, call, after, limit + 1, now)?,
        Whose::All => over_all(conn, call, after, limit + 1, now)?,
    };
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let next_cursor = rows.last().filter(|_| more).map(|(place, _)| seal_numbers(&question, place));
    Ok(PatternsPage { patterns: rows.into_iter().map(|(_, view)| view).collect(), next_cursor })
}

type Placed = ([i64; 3], PatternView);

fn of_tenant(
    conn: &Connection,
    tenant: i64,
    call: &PatternsCall,
    after: [i64; 3],
    most: u32,
    now: Timestamp,
) -> Result<Vec<Placed>> {
    let key = match call.sort {
        PatternSort::LastSeen => "p.group_seen",
        PatternSort::Count => COUNT,
        PatternSort::Open => OPEN,
    };
    let [place, id, _] = after;
    let mut values: Vec<Value> = vec![now.as_millis().into(), tenant.into(), place.into(), id.into()];
    let mut sql = format!("{} WHERE p.tenant = ? AND p.merged_into IS NULL AND ({key}, p.id) < (?, ?)", columns());
    let mut wanted = narrow(&call.filter);
    if !call.filter.states.is_empty() {
        let states: Vec<i64> = call.filter.states.iter().map(|s| position(PatternState::ALL, s)).collect();
        values.push(now.as_millis().into());
        wanted.insert(0, Clause::numbers(&state_sql(), &states));
    }
    for clause in wanted {
        sql = format!("{sql} AND {}", clause.sql);
        values.extend(clause.values);
    }
    values.push(i64::from(most).into());
    let mut find = conn.prepare_cached(&format!("{sql} ORDER BY {key} DESC, p.id DESC LIMIT ?"))?;
    find.query_and_then(params_from_iter(values), |row| {
        let place: i64 = match call.sort {
            PatternSort::LastSeen => row.get(9)?,
            PatternSort::Count => row.get(6)?,
            PatternSort::Open => row.get(7)?,
        };
        Ok(([place, row.get(14)?, 0], view(row)?))
    })?
    .collect()
}

/// One row for each fingerprint. The grouping reads every pattern: there are as many as kinds of failure, not as
/// many as failures.
fn over_all(conn: &Connection, call: &PatternsCall, after: [i64; 3], most: u32, now: Timestamp) -> Result<Vec<Placed>> {
    let place = match call.sort {
        PatternSort::LastSeen => "max(p.group_seen)".to_owned(),
        PatternSort::Count => format!("sum({COUNT})"),
        PatternSort::Open => format!("sum({OPEN})"),
    };
    let mut sql =
        format!("SELECT {place} AS place, p.fp_hash, p.fp_version FROM patterns p WHERE p.merged_into IS NULL");
    let mut values: Vec<Value> = Vec::new();
    for clause in narrow(&call.filter) {
        sql = format!("{sql} AND {}", clause.sql);
        values.extend(clause.values);
    }
    sql.push_str(" GROUP BY p.fp_hash, p.fp_version HAVING (place, p.fp_hash, p.fp_version) < (?, ?, ?)");
    values.extend(after.map(Value::from));
    if !call.filter.states.is_empty() {
        let states: Vec<i64> = call.filter.states.iter().map(|state| i64::from(urgency(*state))).collect();
        values.push(now.as_millis().into());
        let clause = Clause::numbers(&format!("max({})", urgency_sql()), &states);
        sql = format!("{sql} AND {}", clause.sql);
        values.extend(clause.values);
    }
    values.push(i64::from(most).into());
    let mut find =
        conn.prepare_cached(&format!("{sql} ORDER BY place DESC, p.fp_hash DESC, p.fp_version DESC LIMIT ?"))?;
    let mut rows = find.query(params_from_iter(values))?;
    let mut placed = Vec::new();
    while let Some(row) = rows.next()? {
        let place = [row.get(0)?, row.get(1)?, row.get(2)?];
        let key = FingerprintKey { hash: row.get(1)?, version: row.get(2)? };
        if let Some(shown) = roll_up(conn, key, now)? {
            placed.push((place, shown.view));
        }
    }
    Ok(placed)
}

/// What a filter asks of each row, but for its state.
fn narrow(filter: &PatternFilter) -> Vec<Clause> {
    let mut clauses = Vec::new();
    if !filter.reasons.is_empty() {
        clauses.push(Clause::texts("p.reason", filter.reasons.iter().map(|reason| reason.as_str())));
    }
    if let Some(q) = &filter.q {
        let values = vec![Value::from(q.to_lowercase())];
        clauses.push(Clause { sql: "instr(lower(p.template), ?) > 0".into(), values });
    }
    clauses
}

/// By a pattern's id or a fingerprint.
pub(crate) fn shown(conn: &Connection, scope: &TenantScope, id: &str, now: Timestamp) -> Result<Shown> {
    let missing = || Error::NotFound("pattern");
    let tenant = match whose(conn, scope)? {
        Whose::Nobody => return Err(missing().into()),
        Whose::All => None,
        Whose::One(tenant) => Some(tenant),
    };
    let one = |row: &Row<'_>| Ok(view(row).and_then(|view| Ok(Shown { view, rows: vec![row.get(14)?] })));
    let mut by_id =
        conn.prepare_cached(&format!("{} WHERE p.public_id = ? AND p.tenant = coalesce(?, p.tenant)", columns()))?;
    if let Some(found) = by_id.query_row(params![now.as_millis(), id, tenant], one).optional()? {
        return found;
    }
    let key = FingerprintKey::parse(id).ok_or_else(missing)?;
    let Some(tenant) = tenant else { return Ok(roll_up(conn, key, now)?.ok_or_else(missing)?) };
    let mut by_alias = conn.prepare_cached(&format!(
        "{} WHERE p.id = (SELECT coalesce(own.merged_into, own.id) FROM pattern_alias a \
         JOIN patterns own ON own.id = a.pattern WHERE a.tenant = ? AND a.fp_hash = ? AND a.fp_version = ?)",
        columns()
    ))?;
    let found = by_alias.query_row(params![now.as_millis(), tenant, key.hash, key.version], one).optional()?;
    found.ok_or_else(missing)?
}

pub(crate) fn one_pattern(conn: &Connection, scope: &TenantScope, id: &str, now: Timestamp) -> Result<PatternView> {
    shown(conn, scope, id, now).map(|shown| shown.view)
}

/// One row for each tenant that has met it.
fn roll_up(conn: &Connection, key: FingerprintKey, now: Timestamp) -> Result<Option<Shown>> {
    let mut find = conn.prepare_cached(&format!(
        "{} WHERE p.fp_hash = ? AND p.fp_version = ? ORDER BY p.group_seen DESC, p.id",
        columns()
    ))?;
    let found = find.query_and_then(params![now.as_millis(), key.hash, key.version], |row| {
        Ok::<_, BoxError>((row.get::<_, i64>(14)?, view(row)?))
    })?;
    Ok(rolled_up(key, found.collect::<Result<Vec<_>>>()?))
}

fn urgency_sql() -> String {
    let each = PatternState::ALL
        .iter()
        .map(|state| format!(" WHEN {} THEN {}", position(PatternState::ALL, state), urgency(*state)));
    format!("CASE {}{} END", state_sql(), each.collect::<String>())
}
