//! How it stands, from counters: tenants and the whole.

use redrive_core::ids::QueueName;
use redrive_core::policy::{Limits, RetryBy};
use redrive_core::run::StateName;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{HealthAnswer, QueueAlert, QueueSettings, TenantHealth, TenantLimits, TenantView};

use super::by_state::{Count, standing};
use super::hours::HourSums;
use super::lookup::Whose;
use crate::shared::columns::{Columns, json, number, parsed, text, time};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::HourlyKind;
use redrive_engine::model::StateCounts;
use redrive_engine::runs::document::{HELD, position};

/// Due work and no lease call for this long: nobody seems to be there.
const NO_WORKER_AFTER_MS: u64 = 5 * MINUTE_MS;
/// Queues that health names, of each kind.
pub(crate) const QUEUES_NAMED_MAX: usize = 1_000;
/// What the list of tenants shows.
pub(crate) const SHOWN: [StateName; 3] = [StateName::Dead, StateName::Scheduled, StateName::Running];

/// `row`: a tenant's number and name.
pub(crate) fn tenant_view<'a>(
    row: &impl Columns,
    counts: impl IntoIterator<Item = &'a Count>,
    last_failure_at: Option<Timestamp>,
) -> Result<TenantView> {
    let standing = standing(counts);
    Ok(TenantView {
        tenant: parsed(row, 1, "tenant")?,
        dead: standing.of(StateName::Dead),
        scheduled: standing.of(StateName::Scheduled),
        running: standing.of(StateName::Running),
        last_failure_at,
    })
}

pub(crate) fn tenant_health(
    counts: &[Count],
    day: &HourSums,
    last_failure_at: Option<Timestamp>,
    limits: Limits,
) -> TenantHealth {
    let of = |wanted: &dyn Fn(&Count) -> bool| {
        u64::try_from(counts.iter().filter(|count| wanted(count)).map(|count| count.n).sum::<i64>()).unwrap_or(0)
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

pub(crate) fn how_it_stands(counts: &[Count]) -> StateCounts {
    let sum = |wanted: &dyn Fn(&Count) -> bool| {
        u64::try_from(counts.iter().filter(|count| wanted(count)).map(|count| count.n).sum::<i64>()).unwrap_or(0)
    };
    let dead = DeadBecause::ALL.iter().map(|because| {
        let detail = position(DeadBecause::ALL, because);
        (*because, sum(&|count| count.state == StateName::Dead && count.detail == detail))
    });
    StateCounts {
        states: standing(counts).all(),
        dead: dead.filter(|(_, n)| *n > 0).collect(),
        held: sum(&|count| count.state == StateName::Scheduled && count.detail == HELD),
    }
}

fn is_poison(count: &Count) -> bool {
    let poison = [DeadBecause::Poison, DeadBecause::Permanent, DeadBecause::Unsafe, DeadBecause::Rejected];
    count.state == StateName::Dead && poison.iter().any(|because| position(DeadBecause::ALL, because) == count.detail)
}

/// To a tenth.
#[expect(clippy::cast_precision_loss, reason = "a share to a tenth needs no more than an f64 holds")]
fn share_pct(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 * 1_000.0 / whole as f64).round() / 10.0)
}

/// The queues that are seen, and of them those that nobody leases.
pub(crate) fn health(
    counts: &[Count],
    queues: Vec<SeenQueue>,
    queues_without_workers: Vec<QueueAlert>,
    set_aside: u64,
    now: Timestamp,
) -> HealthAnswer {
    let standing = standing(counts);
    let ownerless = queues.into_iter().filter(|queue| queue.settings.owner.is_none());
    let (dead, review) = (standing.of(StateName::Dead), standing.of(StateName::Review));
    let quiet = dead + review + set_aside == 0 && queues_without_workers.is_empty();
    HealthAnswer {
        status: if quiet { "ok" } else { "attention" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now,
        dead,
        review,
        scheduled: standing.of(StateName::Scheduled),
        running: standing.of(StateName::Running),
        queues_without_workers,
        queues_without_owner: ownerless.map(|queue| queue.name).take(QUEUES_NAMED_MAX).collect(),
        set_aside,
        clock: None,
    }
}

/// What services have set aside, counted up to a bound.
pub(crate) const SET_ASIDE: &str = "SELECT count(*) FROM (
         SELECT 1 FROM set_aside UNION ALL SELECT 1 FROM runs_set_aside LIMIT 10000) AS kept";

pub(crate) struct SeenQueue {
    pub(crate) number: i64,
    name: QueueName,
    settings: QueueSettings,
    /// When workers last asked for it, by the tenant they asked for; 0 stands for all.
    calls: Vec<(i64, Timestamp)>,
}

/// What [`seen_queue`] reads.
pub(crate) const SEEN: &str = "SELECT id, name, settings FROM queues";

/// What [`LeaseCalls`] are made of.
pub(crate) const CALLS: &str = "SELECT queue, tenant, at FROM lease_calls";

/// When workers last asked, by queue and tenant; 0 stands for all of either.
#[derive(Debug, Default)]
pub(crate) struct LeaseCalls(Vec<(i64, i64, Timestamp)>);

impl LeaseCalls {
    pub(crate) fn add(&mut self, row: &impl Columns) -> Result<()> {
        self.0.push((number(row, 0)?, number(row, 1)?, time(row, 2)?));
        Ok(())
    }

    /// Of a queue, as far as a reader may know: its own workers' calls, and those of keys that span all tenants.
    fn of(&self, queue: i64, whose: Whose) -> Vec<(i64, Timestamp)> {
        let seen = |tenant: i64| match whose {
            Whose::All => true,
            Whose::One(own) => tenant == own || tenant == 0,
            Whose::Nobody => false,
        };
        let calls = self.0.iter().filter(|(of, tenant, _)| (*of == queue || *of == 0) && seen(*tenant));
        calls.map(|(_, tenant, at)| (*tenant, *at)).collect()
    }
}

/// The queues that a tenant sees: those that it has runs in. None: all of them.
pub(crate) fn numbers_seen(whose: Whose, counts: &[Count]) -> Option<Vec<i64>> {
    if whose == Whose::All {
        return None;
    }
    let mut numbers: Vec<i64> = counts.iter().filter(|count| count.n > 0).map(|count| count.queue).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

pub(crate) fn seen_queue(row: &impl Columns, whose: Whose, calls: &LeaseCalls) -> Result<SeenQueue> {
    let number = number(row, 0)?;
    Ok(SeenQueue {
        number,
        name: parsed(row, 1, "queue")?,
        settings: json(text(row, 2)?, "queue settings")?,
        calls: calls.of(number, whose),
    })
}

impl SeenQueue {
    /// Nobody who serves all tenants has leased it for so long that due work should be looked for.
    pub(crate) fn is_quiet(&self, now: Timestamp) -> bool {
        self.settings.retry_by == RetryBy::Worker && !self.has_workers(0, now)
    }

    /// A tenant's runs have workers when its own ask for them, or those of a key that spans all tenants.
    fn has_workers(&self, tenant: i64, now: Timestamp) -> bool {
        let late = now.minus_ms(NO_WORKER_AFTER_MS);
        self.calls.iter().any(|(of, at)| (*of == tenant || *of == 0) && *at > late)
    }

    /// Of tenants with their oldest due work, the one that has waited longest for a worker; none unless it has waited long.
    pub(crate) fn alert(
        &self,
        oldest: impl IntoIterator<Item = (i64, Timestamp)>,
        now: Timestamp,
    ) -> Option<QueueAlert> {
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
