//! The hourly roll-ups: how it went.

use std::collections::BTreeMap;

use redrive_core::reason::Reason;
use redrive_core::time::{DAY_MS, HOUR_MS, Timestamp};
use redrive_core::wire::{StatsAnswer, StatsPoint};
use rusqlite::Connection;

use super::by_state::{counts, standing};
use super::columns::unexpected;
use super::life::position;
use super::lookup::{Whose, queue_number, whose};
use crate::error::{Error, Result};
use crate::model::{HourlyKind, StatsCall, TenantScope};

const SPAN_MAX_MS: u64 = 31 * DAY_MS;

/// Whole hours, from the first one up to but without `before`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hours {
    first: Timestamp,
    before: Timestamp,
}

impl Hours {
    /// The hour under way and the 23 before it.
    pub(super) fn last_day(now: Timestamp) -> Self {
        let before = now.hour().plus_ms(HOUR_MS);
        Self { first: before.minus_ms(DAY_MS), before }
    }

    /// Every hour that the span touches; a longer one than 31 days loses its beginning.
    fn touched(since: Timestamp, until: Timestamp) -> Self {
        let before = if until.hour() == until { until } else { until.hour().plus_ms(HOUR_MS) };
        Self { first: since.max(before.minus_ms(SPAN_MAX_MS)).hour(), before }
    }

    fn each(self) -> impl Iterator<Item = Timestamp> {
        std::iter::successors(Some(self.first), |hour| Some(hour.plus_ms(HOUR_MS)))
            .take_while(move |h| *h < self.before)
    }
}

/// Events of one span, by kind, by hour and by reason.
#[derive(Debug, Default)]
pub(super) struct HourSums {
    by_hour: BTreeMap<Timestamp, [u64; HourlyKind::ALL.len()]>,
    reasons: BTreeMap<String, u64>,
}

impl HourSums {
    pub(super) fn of(&self, kind: HourlyKind) -> u64 {
        self.by_hour.values().map(|kinds| at(kinds, kind)).sum()
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

/// One look an hour, so that a tenant's figures cost the same beside any number of others.
pub(super) fn hour_sums(conn: &Connection, whose: Whose, queue: Option<i64>, hours: Hours) -> Result<HourSums> {
    let mut sums = HourSums::default();
    let tenant = match whose {
        Whose::Nobody => return Ok(sums),
        Whose::All => None,
        Whose::One(tenant) => Some(tenant),
    };
    let narrow = if tenant.is_some() { "AND tenant = ?2" } else { "AND ?2 IS NULL" };
    let mut find = conn.prepare_cached(&format!(
        "SELECT reason, sum(started), sum(failed), sum(retried), sum(dead), sum(recovered), sum(succeeded)
         FROM hours WHERE hour = ?1 {narrow} AND (?3 IS NULL OR queue = ?3) GROUP BY reason"
    ))?;
    for hour in hours.each() {
        let mut rows = find.query((hour.as_millis(), tenant, queue))?;
        while let Some(row) = rows.next()? {
            for (column, kind) in (1..).zip(HourlyKind::ALL) {
                sums.add(hour, *kind, super::columns::text(row, 0)?, super::columns::whole(row, column, "events")?);
            }
        }
    }
    Ok(sums)
}

/// Whole hours: those that the asked span touches, by default the last 24 h, at most 31 days.
pub(super) fn stats(conn: &Connection, scope: &TenantScope, call: &StatsCall, now: Timestamp) -> Result<StatsAnswer> {
    let whose = whose(conn, scope)?;
    let queue = match &call.queue {
        Some(name) => Some(queue_number(conn, name)?.ok_or(Error::NotFound("queue"))?),
        None => None,
    };
    let until = call.until.unwrap_or(now);
    let hours = match call.since {
        None if call.until.is_none() => Hours::last_day(now),
        since => Hours::touched(since.unwrap_or(until.minus_ms(DAY_MS)), until),
    };
    let sums = hour_sums(conn, whose, queue, hours)?;
    let counts = counts(conn, whose)?;
    let seen = counts.iter().filter(|count| queue.is_none_or(|queue| queue == count.queue));
    Ok(StatsAnswer {
        since: hours.first,
        until: hours.before,
        hours: hours.each().map(|hour| sums.point(hour)).collect(),
        reasons: sums.reasons()?,
        states: standing(seen).all(),
    })
}
