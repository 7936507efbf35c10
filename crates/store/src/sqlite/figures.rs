//! How it stands: tenants and the whole.

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Limits, RetryBy};
use redrive_core::run::StateName;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{
    HealthAnswer, QueueAlert, QueueSettings, TenantHealth, TenantLimits, TenantView, TenantsAnswer,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::by_state::{Count, counts, counts_in, standing};
use super::columns::{json, parsed, text, time_or_none};
use super::cursor::{seal, unseal};
use super::due::{oldest_by_tenant, oldest_due};
use super::hours::{Hours, hour_sums};
use super::life::{HELD, position};
use super::list::PAGE_MAX;
use super::lookup::{Whose, tenant_number, whose};
use super::pattern_clock::GROUP_SEEN_LAG_MS;
use crate::error::{Error, Result};
use crate::model::{HourlyKind, TenantScope};
use crate::standing_model::Standing;

/// Due work and no lease call for this long: nobody seems to be there.
const NO_WORKER_AFTER_MS: u64 = 5 * MINUTE_MS;
const TENANTS: &str = "tenants";

/// By name.
pub(super) fn list_tenants(conn: &Connection, limit: u32, cursor: Option<&str>) -> Result<TenantsAnswer> {
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
    let shown = [StateName::Dead, StateName::Scheduled, StateName::Running];
    let number = row.get(0)?;
    let standing = standing(&counts_in(conn, Whose::One(number), &shown)?);
    Ok(TenantView {
        tenant: parsed(row, 1, "tenant")?,
        dead: standing.of(StateName::Dead),
        scheduled: standing.of(StateName::Scheduled),
        running: standing.of(StateName::Running),
        last_failure_at: last_failure_at(conn, number)?,
    })
}

pub(super) fn tenant_health(
    conn: &Connection,
    tenant: &Tenant,
    limits: Limits,
    now: Timestamp,
) -> Result<TenantHealth> {
    let number = tenant_number(conn, tenant)?.ok_or(Error::NotFound("tenant"))?;
    let counts = counts(conn, Whose::One(number))?;
    let of = |wanted: &dyn Fn(&Count) -> bool| {
        u64::try_from(counts.iter().filter(|count| wanted(count)).map(|count| count.n).sum::<i64>()).unwrap_or(0)
    };
    let dead = of(&|count| count.state == StateName::Dead);
    let day = hour_sums(conn, Whose::One(number), None, Hours::last_day(now))?;
    let (recovered, died) = (day.of(HourlyKind::Recovered), day.of(HourlyKind::Dead));
    Ok(TenantHealth {
        pending_retries: of(&|count| count.state == StateName::Scheduled),
        held: of(&|count| count.state == StateName::Scheduled && count.detail == HELD),
        active_poison: of(&is_poison),
        escalated: dead + of(&|count| count.state == StateName::Review),
        dead,
        recovered_24h: recovered,
        last_failure_at: last_failure_at(conn, number)?,
        recovery_rate_pct: share_pct(recovered, recovered + died),
        limits: (!limits.is_none()).then(|| TenantLimits {
            running: of(&|count| count.state == StateName::Running),
            max_running: limits.max_running,
            leases_per_s: limits.leases_per_s,
        }),
    })
}

fn is_poison(count: &Count) -> bool {
    let poison = [DeadBecause::Poison, DeadBecause::Permanent, DeadBecause::Unsafe, DeadBecause::Rejected];
    count.state == StateName::Dead && poison.iter().any(|because| position(DeadBecause::ALL, because) == count.detail)
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

/// To a tenth.
#[expect(clippy::cast_precision_loss, reason = "a share to a tenth needs no more than an f64 holds")]
fn share_pct(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 * 1_000.0 / whole as f64).round() / 10.0)
}

pub(super) fn health(conn: &Connection, scope: &TenantScope, now: Timestamp) -> Result<HealthAnswer> {
    let whose = whose(conn, scope)?;
    let counts = counts(conn, whose)?;
    let standing = standing(&counts);
    let queues = seen_queues(conn, whose, &counts)?;
    let mut queues_without_workers = Vec::new();
    for queue in &queues {
        queues_without_workers.extend(without_worker(conn, whose, queue, now)?);
    }
    let ownerless = queues.into_iter().filter(|queue| queue.settings.owner.is_none());
    let (dead, review) = (standing.of(StateName::Dead), standing.of(StateName::Review));
    let quiet = dead + review == 0 && queues_without_workers.is_empty();
    Ok(HealthAnswer {
        status: if quiet { "ok" } else { "attention" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now,
        dead,
        review,
        scheduled: standing.of(StateName::Scheduled),
        running: standing.of(StateName::Running),
        queues_without_workers,
        queues_without_owner: ownerless.map(|queue| queue.name).collect(),
    })
}

pub(super) fn how_it_stands(conn: &Connection, scope: &TenantScope) -> Result<Standing> {
    let counts = counts(conn, whose(conn, scope)?)?;
    let sum = |wanted: &dyn Fn(&Count) -> bool| {
        u64::try_from(counts.iter().filter(|count| wanted(count)).map(|count| count.n).sum::<i64>()).unwrap_or(0)
    };
    let dead = DeadBecause::ALL.iter().map(|because| {
        let detail = position(DeadBecause::ALL, because);
        (*because, sum(&|count| count.state == StateName::Dead && count.detail == detail))
    });
    Ok(Standing {
        states: standing(&counts).all(),
        dead: dead.filter(|(_, n)| *n > 0).collect(),
        held: sum(&|count| count.state == StateName::Scheduled && count.detail == HELD),
    })
}

struct SeenQueue {
    number: i64,
    name: QueueName,
    settings: QueueSettings,
    last_lease_call_at: Option<Timestamp>,
}

/// A tenant sees the queues that it has runs in.
fn seen_queues(conn: &Connection, whose: Whose, counts: &[Count]) -> Result<Vec<SeenQueue>> {
    let mut find = conn.prepare_cached("SELECT id, name, settings, last_lease_call_at FROM queues ORDER BY name")?;
    let mut rows = find.query([])?;
    let mut seen = Vec::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if whose == Whose::All || counts.iter().any(|count| count.queue == number && count.n > 0) {
            seen.push(SeenQueue {
                number,
                name: parsed(row, 1, "queue")?,
                settings: json(text(row, 2)?, "queue settings")?,
                last_lease_call_at: time_or_none(row, 3)?,
            });
        }
    }
    Ok(seen)
}

fn without_worker(conn: &Connection, whose: Whose, queue: &SeenQueue, now: Timestamp) -> Result<Option<QueueAlert>> {
    let late = now.minus_ms(NO_WORKER_AFTER_MS);
    let by_worker = queue.settings.retry_by == RetryBy::Worker;
    if !by_worker || queue.last_lease_call_at.is_some_and(|call| call > late) {
        return Ok(None);
    }
    let oldest = match whose {
        Whose::All => oldest_by_tenant(conn, queue.number)?.into_iter().map(|(_, due)| due).min(),
        Whose::One(tenant) => oldest_due(conn, queue.number, tenant)?,
        Whose::Nobody => None,
    };
    Ok(oldest.filter(|due| *due <= late).map(|oldest_due_at| QueueAlert {
        queue: queue.name.clone(),
        oldest_due_at,
        last_lease_call_at: queue.last_lease_call_at,
        what_to_do: what_to_do(&queue.name),
    }))
}

fn what_to_do(queue: &QueueName) -> String {
    format!(
        "Start a worker that leases `{queue}`, or set its retry_by to caller if whoever reports its failures also \
         retries them."
    )
}
