//! The hourly roll-ups: how it went.

use redrive_core::time::Timestamp;
use redrive_core::wire::StatsAnswer;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::by_state::counts;
use crate::postgres::reads::columns::{text, time, whole};
use crate::postgres::reads::lookup::{Whose, queue_number, whose};
use crate::shared::hours::{HourSums, Hours, answer, asked, asked_queue};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{HourlyKind, StatsCall, TenantScope};

/// One look an hour, so that a tenant's figures cost the same beside any number of others.
pub(crate) async fn hour_sums(
    snapshot: &Snapshot<'_>,
    whose: Whose,
    queue: Option<i64>,
    hours: Hours,
) -> Result<HourSums> {
    let mut sums = HourSums::default();
    let tenant = match whose {
        Whose::Nobody => return Ok(sums),
        Whose::All => None,
        Whose::One(tenant) => Some(tenant),
    };
    let narrow = if tenant.is_some() { "AND tenant = $2" } else { "AND $2::bigint IS NULL" };
    let columns = "hour, reason, started, failed, retried, dead, recovered, succeeded";
    let condition = format!("{narrow} AND ($3::bigint IS NULL OR queue = $3)");
    let sql = format!(
        "SELECT hour, reason, sum(started)::bigint, sum(failed)::bigint, sum(retried)::bigint, sum(dead)::bigint,
             sum(recovered)::bigint, sum(succeeded)::bigint
         FROM (
             SELECT kept.* FROM unnest($1::bigint[]) AS asked CROSS JOIN LATERAL
                 (SELECT {columns} FROM hours WHERE hour = asked {condition}) kept
             UNION ALL SELECT {columns} FROM hour_deltas WHERE hour = ANY($1) {condition}
         ) counted GROUP BY hour, reason"
    );
    let asked: Vec<i64> = hours.each().map(Timestamp::as_millis).collect();
    for row in snapshot.rows(&sql, &[&asked, &tenant, &queue]).await? {
        for (column, kind) in (2..).zip(HourlyKind::ALL) {
            sums.add(time(&row, 0)?, *kind, text(&row, 1)?, whole(&row, column, "events")?);
        }
    }
    Ok(sums)
}

pub(crate) async fn stats(
    snapshot: &Snapshot<'_>,
    scope: &TenantScope,
    call: &StatsCall,
    now: Timestamp,
) -> Result<StatsAnswer> {
    let whose = whose(snapshot, scope).await?;
    let queue = match &call.queue {
        Some(name) => Some(asked_queue(queue_number(snapshot, name).await?, whose)?),
        None => None,
    };
    let hours = asked(call, now);
    let sums = hour_sums(snapshot, whose, queue, hours).await?;
    answer(hours, &sums, &counts(snapshot, whose).await?, queue)
}
