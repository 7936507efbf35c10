//! The hourly roll-ups: how it went.

use redrive_core::time::Timestamp;
use redrive_core::wire::StatsAnswer;
use rusqlite::Connection;

pub(crate) use crate::shared::hours::{HourSums, Hours};

use crate::shared::hours::{answer, asked, asked_queue};
use crate::sqlite::reads::by_state::counts;
use crate::sqlite::reads::columns::{text, whole};
use crate::sqlite::reads::lookup::{Whose, queue_number, whose};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{HourlyKind, StatsCall, TenantScope};

/// One look an hour, so that a tenant's figures cost the same beside any number of others.
pub(crate) fn hour_sums(conn: &Connection, whose: Whose, queue: Option<i64>, hours: Hours) -> Result<HourSums> {
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
                sums.add(hour, *kind, text(row, 0)?, whole(row, column, "events")?);
            }
        }
    }
    Ok(sums)
}

pub(crate) fn stats(conn: &Connection, scope: &TenantScope, call: &StatsCall, now: Timestamp) -> Result<StatsAnswer> {
    let whose = whose(conn, scope)?;
    let queue = match &call.queue {
        Some(name) => Some(asked_queue(queue_number(conn, name)?, whose)?),
        None => None,
    };
    let hours = asked(call, now);
    let sums = hour_sums(conn, whose, queue, hours)?;
    answer(hours, &sums, &counts(conn, whose)?, queue)
}
