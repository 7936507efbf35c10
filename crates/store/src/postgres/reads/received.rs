//! What the order of the rows tells without a scan.

use redrive_core::time::{MINUTE_MS, Timestamp};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::number;
use redrive_engine::error::PortResult as Result;

/// Several commit at once, so numbers rise with the time of receipt only by and large: what lies further apart than this
/// is in order.
pub(crate) const OUT_OF_ORDER_MS: u64 = MINUTE_MS;

/// The newest run's number; 0 when there is none.
pub(crate) async fn last_id(snapshot: &Snapshot<'_>) -> Result<i64> {
    let found = snapshot.row("SELECT coalesce(max(id), 0) FROM runs", &[]).await?;
    found.map_or(Ok(0), |row| number(&row, 0))
}

/// The first number whose run was received at `at` or later; one past `last` when there is none. Halving finds it, in the
/// database: some twenty looks at a million runs.
pub(crate) async fn first_received_from(snapshot: &Snapshot<'_>, at: Timestamp, last: i64) -> Result<i64> {
    let found = snapshot
        .row(
            "WITH RECURSIVE halved (low, high) AS (
                 SELECT 1::bigint, $2::bigint + 1
                 UNION ALL
                 SELECT CASE WHEN seen.received_at < $1 THEN seen.id + 1 ELSE low END,
                     CASE WHEN seen.received_at < $1 THEN high ELSE low + (high - low) / 2 END
                 FROM halved LEFT JOIN LATERAL (
                     SELECT id, received_at FROM runs WHERE id >= low + (high - low) / 2 AND id < high
                     ORDER BY id LIMIT 1
                 ) seen ON true
                 WHERE low < high
             )
             SELECT max(low) FROM halved",
            &[&at.as_millis(), &last],
        )
        .await?;
    found.map_or(Ok(1), |row| number(&row, 0))
}

pub(crate) async fn any_deferred(snapshot: &Snapshot<'_>, now: Timestamp) -> Result<bool> {
    let sql = "SELECT 1::bigint FROM runs WHERE deferred_until > $1 ORDER BY deferred_until LIMIT 1";
    Ok(snapshot.row(sql, &[&now.as_millis()]).await?.is_some())
}
