//! How it stands: tenants and the whole.

use redrive_core::ids::Tenant;
use redrive_core::policy::Limits;
use redrive_core::time::Timestamp;
use redrive_core::wire::{HealthAnswer, TenantHealth, TenantView, TenantsAnswer};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::shared::cursor::{seal, unseal};
use crate::shared::figures::{
    self, CALLS, LeaseCalls, QUEUES_NAMED_MAX, SEEN, SET_ASIDE, SHOWN, SeenQueue, numbers_seen, seen_queue,
};
use crate::sqlite::reads::by_state::{Count, counts, counts_in};
use crate::sqlite::reads::due::{oldest_by_tenant, oldest_due};
use crate::sqlite::reads::hours::{Hours, hour_sums};
use crate::sqlite::reads::list::PAGE_MAX;
use crate::sqlite::reads::lookup::{Whose, tenant_number, whose};
use crate::sqlite::rows::pattern_clock::GROUP_SEEN_LAG_MS;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::StateCounts;
use redrive_engine::model::TenantScope;

const TENANTS: &str = "tenants";

/// By name.
pub(crate) fn list_tenants(conn: &Connection, limit: u32, cursor: Option<&str>) -> Result<TenantsAnswer> {
    let after = match cursor {
        Some(cursor) => String::from_utf8(unseal(TENANTS, cursor)?).map_err(|_| Error::BadCursor)?,
        None => String::new(),
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let mut find = conn.prepare_cached("SELECT id, name FROM tenants WHERE name > ? ORDER BY name LIMIT ?")?;
    let found = find.query_and_then(params![after, limit + 1], |row| tenant_view(conn, row))?;
    let mut tenants = found.collect::<Result<Vec<TenantView>>>()?;
    let more = tenants.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        tenants.pop();
    }
    let next_cursor = tenants.last().filter(|_| more).map(|last| seal(TENANTS, last.tenant.as_str().as_bytes()));
    Ok(TenantsAnswer { tenants, next_cursor })
}

fn tenant_view(conn: &Connection, row: &Row<'_>) -> Result<TenantView> {
    let number = row.get(0)?;
    figures::tenant_view(row, &counts_in(conn, Whose::One(number), &SHOWN)?, last_failure_at(conn, number)?)
}

pub(crate) fn tenant_health(
    conn: &Connection,
    tenant: &Tenant,
    limits: Limits,
    now: Timestamp,
) -> Result<TenantHealth> {
    let number = tenant_number(conn, tenant)?.ok_or(Error::NotFound("tenant"))?;
    let counts = counts(conn, Whose::One(number))?;
    let day = hour_sums(conn, Whose::One(number), None, Hours::last_day(now))?;
    Ok(figures::tenant_health(&counts, &day, last_failure_at(conn, number)?, limits))
}

/// The newest of what the tenant's newest patterns have seen: their place in the index lags by a second at most.
fn last_failure_at(conn: &Connection, tenant: i64) -> Result<Option<Timestamp>> {
    let mut find = conn.prepare_cached(
        "SELECT max(max(head.last_seen), coalesce(max(part.last_seen), 0))
         FROM patterns head LEFT JOIN patterns part ON part.merged_into = head.id
         WHERE head.tenant = ?1 AND head.merged_into IS NULL AND head.group_seen >=
             (SELECT max(group_seen) - ?2 FROM patterns WHERE tenant = ?1 AND merged_into IS NULL)",
    )?;
    let lag = i64::try_from(GROUP_SEEN_LAG_MS).unwrap_or(0);
    let at: Option<i64> = find.query_row([tenant, lag], |row| row.get(0)).optional()?.flatten();
    Ok(at.map(Timestamp::from_millis))
}

pub(crate) fn health(conn: &Connection, scope: &TenantScope, now: Timestamp) -> Result<HealthAnswer> {
    let whose = whose(conn, scope)?;
    let counts = counts(conn, whose)?;
    let queues = seen_queues(conn, whose, &counts)?;
    let mut without_workers = Vec::new();
    for queue in queues.iter().filter(|queue| queue.is_quiet(now)).take(QUEUES_NAMED_MAX) {
        let oldest = match whose {
            Whose::All => oldest_by_tenant(conn, queue.number)?,
            Whose::One(tenant) => {
                oldest_due(conn, queue.number, tenant)?.map(|due| (tenant, due)).into_iter().collect()
            }
            Whose::Nobody => Vec::new(),
        };
        without_workers.extend(queue.alert(oldest, now));
    }
    let set_aside = match whose {
        Whose::All => conn.prepare_cached(SET_ASIDE)?.query_row([], |row| row.get(0))?,
        Whose::One(_) | Whose::Nobody => 0,
    };
    Ok(figures::health(&counts, queues, without_workers, set_aside, now))
}

pub(crate) fn how_it_stands(conn: &Connection, scope: &TenantScope) -> Result<StateCounts> {
    Ok(figures::how_it_stands(&counts(conn, whose(conn, scope)?)?))
}

fn seen_queues(conn: &Connection, whose: Whose, counts: &[Count]) -> Result<Vec<SeenQueue>> {
    let mut find = conn.prepare_cached(CALLS)?;
    let mut rows = find.query([])?;
    let mut calls = LeaseCalls::default();
    while let Some(row) = rows.next()? {
        calls.add(row)?;
    }
    let numbers = numbers_seen(whose, counts);
    let narrow = if numbers.is_some() { "WHERE id IN (SELECT value FROM json_each(?1))" } else { "WHERE ?1 IS NULL" };
    let mut find = conn.prepare_cached(&format!("{SEEN} {narrow} ORDER BY name"))?;
    let numbers = numbers.map(|numbers| serde_json::Value::from(numbers).to_string());
    find.query_and_then([numbers], |row| seen_queue(row, whose, &calls))?.collect()
}
