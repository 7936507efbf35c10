//! How it stands: tenants and the whole.

use std::collections::HashMap;

use redrive_core::ids::Tenant;
use redrive_core::policy::Limits;
use redrive_core::time::Timestamp;
use redrive_core::wire::{HealthAnswer, TenantHealth, TenantsAnswer};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::by_state::{counts, counts_of};
use crate::postgres::reads::columns::{number, time_or_none};
use crate::postgres::reads::due::{oldest_by_tenant, oldest_due};
use crate::postgres::reads::hours::hour_sums;
use crate::postgres::reads::lookup::{Whose, tenant_number, whose};
use crate::shared::cursor::{seal, unseal};
use crate::shared::figures::{
    self, CALLS, LeaseCalls, QUEUES_NAMED_MAX, SEEN, SET_ASIDE, SHOWN, SeenQueue, numbers_seen, seen_queue,
};
use crate::shared::filter::PAGE_MAX;
use crate::shared::hours::Hours;
use crate::shared::patterns::GROUP_SEEN_LAG_MS;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::StateCounts;
use redrive_engine::model::TenantScope;

const TENANTS: &str = "tenants";

/// By name.
pub(crate) async fn list_tenants(snapshot: &Snapshot<'_>, limit: u32, cursor: Option<&str>) -> Result<TenantsAnswer> {
    let after = match cursor {
        Some(cursor) => String::from_utf8(unseal(TENANTS, cursor)?).map_err(|_| Error::BadCursor)?,
        None => String::new(),
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let sql = format!("SELECT id, name FROM tenants WHERE name > $1 ORDER BY name LIMIT {}", limit + 1);
    let mut rows = snapshot.rows(&sql, &[&after]).await?;
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let numbers = rows.iter().map(|row| number(row, 0)).collect::<Result<Vec<_>>>()?;
    let (counts, failed) = (counts_of(snapshot, &numbers, &SHOWN).await?, last_failures(snapshot, &numbers).await?);
    let view = |(row, tenant): (&tokio_postgres::Row, &i64)| {
        let own = counts.iter().filter(|(of, _)| of == tenant).map(|(_, count)| count);
        figures::tenant_view(row, own, failed.get(tenant).copied())
    };
    let tenants = rows.iter().zip(&numbers).map(view).collect::<Result<Vec<_>>>()?;
    let next_cursor = tenants.last().filter(|_| more).map(|last| seal(TENANTS, last.tenant.as_str().as_bytes()));
    Ok(TenantsAnswer { tenants, next_cursor })
}

pub(crate) async fn tenant_health(
    snapshot: &Snapshot<'_>,
    tenant: &Tenant,
    limits: Limits,
    now: Timestamp,
) -> Result<TenantHealth> {
    let number = tenant_number(snapshot, tenant).await?.ok_or(Error::NotFound("tenant"))?;
    let counts = counts(snapshot, Whose::One(number)).await?;
    let day = hour_sums(snapshot, Whose::One(number), None, Hours::last_day(now)).await?;
    let failed = last_failures(snapshot, &[number]).await?;
    Ok(figures::tenant_health(&counts, &day, failed.get(&number).copied(), limits))
}

/// The newest of what each tenant's newest patterns have seen (their place in the index lags by a second at most), and of
/// what came since they were folded.
async fn last_failures(snapshot: &Snapshot<'_>, tenants: &[i64]) -> Result<HashMap<i64, Timestamp>> {
    let lag = i64::try_from(GROUP_SEEN_LAG_MS).unwrap_or(0);
    let rows = snapshot
        .rows(
            "SELECT asked, greatest(kept.at, new.at) FROM unnest($1::bigint[]) AS asked
             LEFT JOIN LATERAL (
                 SELECT greatest(max(head.last_seen), max(part.last_seen)) AS at
                 FROM patterns head LEFT JOIN patterns part ON part.merged_into = head.id
                 WHERE head.tenant = asked AND head.merged_into IS NULL AND head.group_seen >=
                     (SELECT max(group_seen) - $2 FROM patterns WHERE tenant = asked AND merged_into IS NULL)
             ) kept ON true
             LEFT JOIN (
                 SELECT patterns.tenant, max(pattern_deltas.at) AS at
                 FROM pattern_deltas JOIN patterns ON patterns.id = pattern_deltas.pattern
                 WHERE pattern_deltas.at > 0 GROUP BY patterns.tenant
             ) new ON new.tenant = asked",
            &[&tenants, &lag],
        )
        .await?;
    let mut failed = HashMap::new();
    for row in &rows {
        if let Some(at) = time_or_none(row, 1)? {
            failed.insert(number(row, 0)?, at);
        }
    }
    Ok(failed)
}

pub(crate) async fn how_it_stands(snapshot: &Snapshot<'_>, scope: &TenantScope) -> Result<StateCounts> {
    let whose = whose(snapshot, scope).await?;
    Ok(figures::how_it_stands(&counts(snapshot, whose).await?))
}

pub(crate) async fn health(snapshot: &Snapshot<'_>, scope: &TenantScope, now: Timestamp) -> Result<HealthAnswer> {
    let whose = whose(snapshot, scope).await?;
    let counts = counts(snapshot, whose).await?;
    let mut calls = LeaseCalls::default();
    for row in snapshot.rows(CALLS, &[]).await? {
        calls.add(&row)?;
    }
    let numbers = numbers_seen(whose, &counts);
    let narrow = if numbers.is_some() { "id = ANY($1)" } else { "$1::bigint[] IS NULL" };
    let rows = snapshot.rows(&format!("{SEEN} WHERE {narrow} ORDER BY name"), &[&numbers]).await?;
    let queues = rows.iter().map(|row| seen_queue(row, whose, &calls)).collect::<Result<Vec<SeenQueue>>>()?;
    let mut without_workers = Vec::new();
    for queue in queues.iter().filter(|queue| queue.is_quiet(now)).take(QUEUES_NAMED_MAX) {
        let oldest = match whose {
            Whose::All => oldest_by_tenant(snapshot, queue.number).await?,
            Whose::One(tenant) => {
                oldest_due(snapshot, queue.number, tenant).await?.map(|due| (tenant, due)).into_iter().collect()
            }
            Whose::Nobody => Vec::new(),
        };
        without_workers.extend(queue.alert(oldest, now));
    }
    let set_aside = match whose {
        Whose::All => snapshot.rows(SET_ASIDE, &[]).await?.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0),
        Whose::One(_) | Whose::Nobody => 0,
    };
    Ok(figures::health(&counts, queues, without_workers, u64::try_from(set_aside).unwrap_or(0), now))
}
