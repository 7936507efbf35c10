//! The health of tenants and of the whole store.

use redrive_core::ids::Tenant;
use redrive_core::policy::Limits;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{HealthAnswer, QueueAlert, TenantHealth, TenantLimits, TenantView, TenantsAnswer};

use super::columns::{Columns, json, number, parsed, text, time, whole};
use super::counters::{CounterRow, CountsByState, counters, counters_of};
use super::cursor::{seal, unseal};
use super::hours::{HourSums, Hours, hour_sums};
use super::lookup::{ReadScope, oldest_due, read_scope, tenant_number};
use super::reader::{SqlParam, StoreReader};
use super::runs::PAGE_MAX;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::health::{self, ServedQueue};
use redrive_engine::model::StateCounts;
use redrive_engine::model::{HourlyKind, TenantScope};
use redrive_engine::runs::document::{HELD, position};

/// Queues that health names, of each kind.
const QUEUES_NAMED_MAX: usize = 1_000;
/// The states that the list of tenants shows.
const TENANT_STATES: [StateName; 3] = [StateName::Dead, StateName::Scheduled, StateName::Running];
/// The question that cursors into the list of tenants are sealed for.
const TENANTS: &str = "tenants";

/// Sorted by name.
pub(crate) async fn list_tenants(reader: &impl StoreReader, limit: u32, cursor: Option<&str>) -> Result<TenantsAnswer> {
    let after = match cursor {
        Some(cursor) => String::from_utf8(unseal(TENANTS, cursor)?).map_err(|_| Error::BadCursor)?,
        None => String::new(),
    };
    let limit = limit.clamp(1, PAGE_MAX);
    let sql = "SELECT id, name FROM tenants WHERE name > $1 ORDER BY name LIMIT $2";
    let mut rows = reader
        .rows(sql, &[after.as_str().into(), (limit + 1).into()])
        .await?
        .read(|row| Ok((number(row, 0)?, parsed::<Tenant>(row, 1, "tenant")?)))?;
    let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if more {
        rows.pop();
    }
    let numbers: Vec<i64> = rows.iter().map(|(number, _)| *number).collect();
    let counters = counters_of(reader, &numbers, &TENANT_STATES).await?;
    let failed = reader.last_failures(&numbers).await?;
    let view = |(number, tenant): (i64, Tenant)| {
        let own = counters.iter().filter(|(of, _)| *of == number).map(|(_, counter)| counter);
        let states = CountsByState::sum(own);
        TenantView {
            tenant,
            dead: states.of(StateName::Dead),
            scheduled: states.of(StateName::Scheduled),
            running: states.of(StateName::Running),
            last_failure_at: failed.get(&number).copied(),
        }
    };
    let tenants: Vec<TenantView> = rows.into_iter().map(view).collect();
    let next_cursor = tenants.last().filter(|_| more).map(|last| seal(TENANTS, last.tenant.as_str().as_bytes()));
    Ok(TenantsAnswer { tenants, next_cursor })
}

pub(crate) async fn tenant_health(
    reader: &impl StoreReader,
    tenant: &Tenant,
    limits: Limits,
    now: Timestamp,
) -> Result<TenantHealth> {
    let number = tenant_number(reader, tenant).await?.ok_or(Error::NotFound("tenant"))?;
    let counters = counters(reader, ReadScope::One(number)).await?;
    let day = hour_sums(reader, ReadScope::One(number), None, Hours::last_day(now)).await?;
    let failed = reader.last_failures(&[number]).await?;
    Ok(health_of_tenant(&counters, &day, failed.get(&number).copied(), limits))
}

fn health_of_tenant(
    counters: &[CounterRow],
    day: &HourSums,
    last_failure_at: Option<Timestamp>,
    limits: Limits,
) -> TenantHealth {
    let of = |wanted: &dyn Fn(&CounterRow) -> bool| {
        u64::try_from(counters.iter().filter(|count| wanted(count)).map(|count| count.n).sum::<i64>()).unwrap_or(0)
    };
    let dead = of(&|count| count.state == StateName::Dead);
    let (recovered, died) = (day.of(HourlyKind::Recovered), day.of(HourlyKind::Dead));
    TenantHealth {
        pending_retries: of(&|count| count.state == StateName::Scheduled),
        held: of(&|count| count.state == StateName::Scheduled && count.detail == HELD),
        active_poison: of(&is_poison),
        escalated: dead + of(&|count| count.state == StateName::Review),
        dead,
        recovered_24h: recovered,
        last_failure_at,
        recovery_rate_pct: share_pct(recovered, recovered + died),
        limits: (!limits.is_none()).then(|| TenantLimits {
            running: of(&|count| count.state == StateName::Running),
            max_running: limits.max_running,
            leases_per_s: limits.leases_per_s,
        }),
    }
}

pub(crate) async fn standing(reader: &impl StoreReader, scope: &TenantScope) -> Result<StateCounts> {
    let counters = counters(reader, read_scope(reader, scope).await?).await?;
    let sum = |wanted: &dyn Fn(&CounterRow) -> bool| {
        u64::try_from(counters.iter().filter(|count| wanted(count)).map(|count| count.n).sum::<i64>()).unwrap_or(0)
    };
    let dead = DeadBecause::ALL.iter().map(|because| {
        let detail = position(DeadBecause::ALL, because);
        (*because, sum(&|count| count.state == StateName::Dead && count.detail == detail))
    });
    Ok(StateCounts {
        states: CountsByState::sum(&counters).all(),
        dead: dead.filter(|(_, n)| *n > 0).collect(),
        held: sum(&|count| count.state == StateName::Scheduled && count.detail == HELD),
    })
}

fn is_poison(count: &CounterRow) -> bool {
    let because = DeadBecause::ALL.iter().find(|because| position(DeadBecause::ALL, because) == count.detail);
    count.state == StateName::Dead && because.is_some_and(|because| health::is_poison(*because))
}

/// To a tenth.
#[expect(clippy::cast_precision_loss, reason = "a share to a tenth needs no more than an f64 holds")]
fn share_pct(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 * 1_000.0 / whole as f64).round() / 10.0)
}

pub(crate) async fn health(reader: &impl StoreReader, scope: &TenantScope, now: Timestamp) -> Result<HealthAnswer> {
    let scope = read_scope(reader, scope).await?;
    let counters = counters(reader, scope).await?;
    let queues = seen_queues(reader, scope, &counters).await?;
    let mut without_workers = Vec::new();
    for (number, queue) in queues.iter().filter(|(_, queue)| queue.is_quiet(now)).take(QUEUES_NAMED_MAX) {
        let oldest = match scope {
            ReadScope::All => reader.oldest_due_by_tenant(*number).await?,
            ReadScope::One(tenant) => {
                oldest_due(reader, *number, tenant).await?.map(|due| (tenant, due)).into_iter().collect()
            }
            ReadScope::Nobody => Vec::new(),
        };
        without_workers.extend(queue.alert(oldest, now));
    }
    let set_aside = match scope {
        ReadScope::All => reader.row(SET_ASIDE, &[]).await?.read(|row| whole(row, 0, "count"))?.unwrap_or(0),
        ReadScope::One(_) | ReadScope::Nobody => 0,
    };
    Ok(health_answer(&counters, queues, without_workers, set_aside, now))
}

fn health_answer(
    counters: &[CounterRow],
    queues: Vec<(i64, ServedQueue)>,
    queues_without_workers: Vec<QueueAlert>,
    set_aside: u64,
    now: Timestamp,
) -> HealthAnswer {
    let states = CountsByState::sum(counters);
    let ownerless = queues.into_iter().filter(|(_, queue)| queue.settings.owner.is_none());
    let (dead, review) = (states.of(StateName::Dead), states.of(StateName::Review));
    HealthAnswer {
        status: health::status(dead + review + set_aside, &queues_without_workers).to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now,
        dead,
        review,
        scheduled: states.of(StateName::Scheduled),
        running: states.of(StateName::Running),
        queues_without_workers,
        queues_without_owner: ownerless.map(|(_, queue)| queue.name).take(QUEUES_NAMED_MAX).collect(),
        set_aside,
        clock: None,
    }
}

/// Rows that services have set aside, counted up to a bound.
const SET_ASIDE: &str = "SELECT count(*) FROM (
         SELECT 1 FROM set_aside UNION ALL SELECT 1 FROM runs_set_aside LIMIT 10000) AS kept";

/// The queues of a scope with their numbers, by name. A tenant sees the queues that it has runs in.
async fn seen_queues(
    reader: &impl StoreReader,
    scope: ReadScope,
    counters: &[CounterRow],
) -> Result<Vec<(i64, ServedQueue)>> {
    let calls = reader
        .rows("SELECT queue, tenant, at FROM lease_calls", &[])
        .await?
        .read(|row| Ok(LeaseCallRow { queue: number(row, 0)?, tenant: number(row, 1)?, at: time(row, 2)? }))?;
    let sql = "SELECT id, name, settings FROM queues";
    let mut queues = if scope == ReadScope::All {
        reader.rows(sql, &[]).await?.read(|row| seen_queue(row, scope, &calls))?
    } else {
        let mut numbers: Vec<i64> = counters.iter().filter(|count| count.n > 0).map(|count| count.queue).collect();
        numbers.sort_unstable();
        numbers.dedup();
        reader
            .rows_any(&format!("{sql} WHERE id = ANY($1)"), &[SqlParam::Numbers(numbers)])
            .await?
            .read(|row| seen_queue(row, scope, &calls))?
    };
    queues.sort_by(|(_, a), (_, b)| a.name.as_str().cmp(b.name.as_str()));
    Ok(queues)
}

fn seen_queue(row: &impl Columns, scope: ReadScope, calls: &[LeaseCallRow]) -> Result<(i64, ServedQueue)> {
    let number = number(row, 0)?;
    let queue = ServedQueue {
        name: parsed(row, 1, "queue")?,
        settings: json(text(row, 2)?, "queue settings")?,
        calls: calls.iter().filter_map(|call| call.of(number, scope)).collect(),
    };
    Ok((number, queue))
}

/// When workers last asked for runs of a queue and a tenant; 0 is all of either.
struct LeaseCallRow {
    queue: i64,
    tenant: i64,
    at: Timestamp,
}

impl LeaseCallRow {
    /// The tenant and time of a call for this queue, if the scope may see it: a tenant sees calls of its own workers
    /// and of workers for all tenants.
    fn of(&self, queue: i64, scope: ReadScope) -> Option<(i64, Timestamp)> {
        let is_seen = scope.sees(self.tenant) || (scope != ReadScope::Nobody && self.tenant == 0);
        ((self.queue == queue || self.queue == 0) && is_seen).then_some((self.tenant, self.at))
    }
}
