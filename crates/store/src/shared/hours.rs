//! Statistics by the hour.

use std::collections::BTreeMap;

use redrive_core::reason::Reason;
use redrive_core::time::{DAY_MS, HOUR_MS, Timestamp};
use redrive_core::wire::{StatsAnswer, StatsPoint};

use super::columns::{Columns, text, unexpected, whole};
use super::counters::{CountsByState, counters};
use super::lookup::{ReadScope, queue_number, read_scope};
use super::reader::StoreReader;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{HourlyKind, StatsCall, TenantScope};
use redrive_engine::runs::document::position;

/// No queue has this number.
const NO_QUEUE: i64 = 0;
const SPAN_MAX_MS: u64 = 31 * DAY_MS;

/// Whole hours, from the first up to `before`, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hours {
    pub(crate) first: Timestamp,
    pub(crate) before: Timestamp,
}

impl Hours {
    /// The current hour and the 23 before it.
    pub(crate) fn last_day(now: Timestamp) -> Self {
        let before = now.hour().plus_ms(HOUR_MS);
        Self { first: before.minus_ms(DAY_MS), before }
    }

    /// Every hour that the span touches, at most the last 31 days of it.
    pub(crate) fn touched(since: Timestamp, until: Timestamp) -> Self {
        let before = if until.hour() == until { until } else { until.hour().plus_ms(HOUR_MS) };
        Self { first: since.max(before.minus_ms(SPAN_MAX_MS)).hour(), before }
    }

    pub(crate) fn each(self) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(Some(self.first), |hour| Some(hour.plus_ms(HOUR_MS)))
            .take_while(move |h| *h < self.before)
    }
}

/// Events of one span, by kind, by hour and by reason.
#[derive(Debug, Default)]
pub(crate) struct HourSums {
    by_hour: BTreeMap<Timestamp, [u64; HourlyKind::ALL.len()]>,
    reasons: BTreeMap<String, u64>,
}

impl HourSums {
    pub(crate) fn of(&self, kind: HourlyKind) -> u64 {
        self.by_hour.values().map(|kinds| at(kinds, kind)).sum()
    }

    /// Adds a row whose columns from `first` on are the reason and the count of each kind.
    pub(crate) fn read(&mut self, hour: Timestamp, row: &impl Columns, first: usize) -> Result<()> {
        for (column, kind) in (first + 1..).zip(HourlyKind::ALL) {
            self.add(hour, *kind, text(row, first)?, whole(row, column, "events")?);
        }
        Ok(())
    }

    fn add(&mut self, hour: Timestamp, kind: HourlyKind, reason: &str, n: u64) {
        let kinds = self.by_hour.entry(hour).or_default();
        if let Some(slot) = usize::try_from(position(HourlyKind::ALL, &kind)).ok().and_then(|at| kinds.get_mut(at)) {
            *slot += n;
        }
        if kind == HourlyKind::Failed && n > 0 {
            *self.reasons.entry(reason.to_owned()).or_default() += n;
        }
    }

    fn point(&self, hour: Timestamp) -> StatsPoint {
        let kinds = self.by_hour.get(&hour).copied().unwrap_or_default();
        StatsPoint {
            hour,
            started: at(&kinds, HourlyKind::Started),
            failed: at(&kinds, HourlyKind::Failed),
            retried: at(&kinds, HourlyKind::Retried),
            dead: at(&kinds, HourlyKind::Dead),
            recovered: at(&kinds, HourlyKind::Recovered),
            succeeded: at(&kinds, HourlyKind::Succeeded),
        }
    }

    /// The most frequent first.
    fn reasons(&self) -> Result<Vec<(Reason, u64)>> {
        let parse = |(reason, n): (&String, &u64)| Ok((reason.parse().map_err(|_| unexpected("reason"))?, *n));
        let mut reasons = self.reasons.iter().map(parse).collect::<Result<Vec<(Reason, u64)>>>()?;
        reasons.sort_by(|(a, n), (b, m)| m.cmp(n).then_with(|| a.as_str().cmp(b.as_str())));
        Ok(reasons)
    }
}

fn at(kinds: &[u64; HourlyKind::ALL.len()], kind: HourlyKind) -> u64 {
    usize::try_from(position(HourlyKind::ALL, &kind)).ok().and_then(|at| kinds.get(at)).copied().unwrap_or(0)
}

/// Whole hours: those that the asked span touches, by default the last 24 h, at most 31 days.
fn asked(call: &StatsCall, now: Timestamp) -> Hours {
    let until = call.until.unwrap_or(now);
    match call.since {
        None if call.until.is_none() => Hours::last_day(now),
        since => Hours::touched(since.unwrap_or(until.minus_ms(DAY_MS)), until),
    }
}

/// The queue asked for. A tenant must not learn whether another tenant has a queue of that name.
fn asked_queue(found: Option<i64>, scope: ReadScope) -> Result<i64> {
    match (found, scope) {
        (Some(queue), _) => Ok(queue),
        (None, ReadScope::All) => Err(Error::NotFound("queue").into()),
        (None, ReadScope::One(_) | ReadScope::Nobody) => Ok(NO_QUEUE),
    }
}

/// The events of whole hours. Costs one index seek per hour, whatever other tenants do.
pub(crate) async fn hour_sums(
    reader: &impl StoreReader,
    scope: ReadScope,
    queue: Option<i64>,
    hours: Hours,
) -> Result<HourSums> {
    let mut sums = HourSums::default();
    let tenant = match scope {
        ReadScope::Nobody => return Ok(sums),
        ReadScope::All => None,
        ReadScope::One(tenant) => Some(tenant),
    };
    let each: Vec<Timestamp> = hours.each().collect();
    reader.hour_events(&each, tenant, queue, &mut sums).await?;
    Ok(sums)
}

pub(crate) async fn stats(
    reader: &impl StoreReader,
    scope: &TenantScope,
    call: &StatsCall,
    now: Timestamp,
) -> Result<StatsAnswer> {
    let scope = read_scope(reader, scope).await?;
    let queue = match &call.queue {
        Some(name) => Some(asked_queue(queue_number(reader, name).await?, scope)?),
        None => None,
    };
    let hours = asked(call, now);
    let sums = hour_sums(reader, scope, queue, hours).await?;
    let counters = counters(reader, scope).await?;
    let seen = counters.iter().filter(|counter| queue.is_none_or(|queue| queue == counter.queue));
    Ok(StatsAnswer {
        since: hours.first,
        until: hours.before,
        hours: hours.each().map(|hour| sums.point(hour)).collect(),
        reasons: sums.reasons()?,
        states: CountsByState::sum(seen).all(),
    })
}
