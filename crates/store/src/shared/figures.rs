//! The health of tenants and of the whole store.

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Limits, RetryBy};
use redrive_core::run::StateName;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{
    HealthAnswer, QueueAlert, QueueSettings, TenantHealth, TenantLimits, TenantView, TenantsAnswer,
};

use super::columns::{Columns, json, number, parsed, text, time, whole};
use super::counters::{CounterRow, CountsByState, counters, counters_of};
use super::cursor::{seal, unseal};
use super::hours::{HourSums, Hours, hour_sums};
use super::lookup::{ReadScope, oldest_due, read_scope, tenant_number};
use super::reader::{SqlParam, StoreReader};
use super::runs::PAGE_MAX;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::StateCounts;
use redrive_engine::model::{HourlyKind, TenantScope};
use redrive_engine::runs::document::{HELD, position};

/// A queue with due runs and no lease call for this long seems to have no worker.
const NO_WORKER_AFTER_MS: u64 = 5 * MINUTE_MS;
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
    let poison = [DeadBecause::Poison, DeadBecause::Permanent, DeadBecause::Unsafe, DeadBecause::Rejected];
    count.state == StateName::Dead && poison.iter().any(|because| position(DeadBecause::ALL, because) == count.detail)
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
    for queue in queues.iter().filter(|queue| queue.is_quiet(now)).take(QUEUES_NAMED_MAX) {
        let oldest = match scope {
            ReadScope::All => reader.oldest_due_by_tenant(queue.number).await?,
            ReadScope::One(tenant) => {
                oldest_due(reader, queue.number, tenant).await?.map(|due| (tenant, due)).into_iter().collect()
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
    queues: Vec<SeenQueue>,
    queues_without_workers: Vec<QueueAlert>,
    set_aside: u64,
    now: Timestamp,
) -> HealthAnswer {
    let states = CountsByState::sum(counters);
    let ownerless = queues.into_iter().filter(|queue| queue.settings.owner.is_none());
    let (dead, review) = (states.of(StateName::Dead), states.of(StateName::Review));
    let quiet = dead + review + set_aside == 0 && queues_without_workers.is_empty();
    HealthAnswer {
        status: if quiet { "ok" } else { "attention" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now,
        dead,
        review,
        scheduled: states.of(StateName::Scheduled),
        running: states.of(StateName::Running),
        queues_without_workers,
        queues_without_owner: ownerless.map(|queue| queue.name).take(QUEUES_NAMED_MAX).collect(),
        set_aside,
        clock: None,
    }
}

/// Rows that services have set aside, counted up to a bound.
const SET_ASIDE: &str = "SELECT count(*) FROM (
         SELECT 1 FROM set_aside UNION ALL SELECT 1 FROM runs_set_aside LIMIT 10000) AS kept";

/// A queue that a scope may see.
struct SeenQueue {
    number: i64,
    name: QueueName,
    settings: QueueSettings,
    /// When workers last asked for runs, by the tenant they asked for; 0 is all tenants.
    calls: Vec<(i64, Timestamp)>,
}

/// The queues of a scope, by name. A tenant sees the queues that it has runs in.
async fn seen_queues(reader: &impl StoreReader, scope: ReadScope, counters: &[CounterRow]) -> Result<Vec<SeenQueue>> {
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
    queues.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    Ok(queues)
}

fn seen_queue(row: &impl Columns, scope: ReadScope, calls: &[LeaseCallRow]) -> Result<SeenQueue> {
    let number = number(row, 0)?;
    Ok(SeenQueue {
        number,
        name: parsed(row, 1, "queue")?,
        settings: json(text(row, 2)?, "queue settings")?,
        calls: calls.iter().filter_map(|call| call.of(number, scope)).collect(),
    })
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

impl SeenQueue {
    /// No worker for all tenants has asked for it lately, so due runs may be without a worker.
    fn is_quiet(&self, now: Timestamp) -> bool {
        self.settings.retry_by == RetryBy::Worker && !self.has_workers(0, now)
    }

    /// A tenant's runs are served by its own workers and by workers for all tenants.
    fn has_workers(&self, tenant: i64, now: Timestamp) -> bool {
        let late = now.minus_ms(NO_WORKER_AFTER_MS);
        self.calls.iter().any(|(of, at)| (*of == tenant || *of == 0) && *at > late)
    }

    /// The longest wait for a worker among tenants with their oldest due time, if it is long enough to alert.
    fn alert(&self, oldest: impl IntoIterator<Item = (i64, Timestamp)>, now: Timestamp) -> Option<QueueAlert> {
        let late = now.minus_ms(NO_WORKER_AFTER_MS);
        let unserved = oldest.into_iter().filter(|(tenant, due)| *due <= late && !self.has_workers(*tenant, now));
        let oldest_due_at = unserved.map(|(_, due)| due).min()?;
        Some(QueueAlert {
            queue: self.name.clone(),
            oldest_due_at,
            last_lease_call_at: self.calls.iter().map(|(_, at)| *at).max(),
            what_to_do: what_to_do(&self.name),
        })
    }
}

fn what_to_do(queue: &QueueName) -> String {
    format!(
        "Start a worker that leases `{queue}`, or set its retry_by to caller if whoever reports its failures also \
         retries them."
    )
}
