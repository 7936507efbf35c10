//! Who has work that is due, found by stepping over the index instead of through it.

use redrive_core::time::Timestamp;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{number, time};
use redrive_engine::error::PortResult as Result;

/// The tenants with a due time in a queue, each with its oldest: one look each, since the index has a tenant's
/// oldest first.
pub(crate) async fn oldest_by_tenant(snapshot: &Snapshot<'_>, queue: i64) -> Result<Vec<(i64, Timestamp)>> {
    let rows = snapshot
        .rows(
            "WITH RECURSIVE step (tenant, due) AS (
                 (SELECT tenant, due FROM runs WHERE queue = $1 AND due IS NOT NULL ORDER BY queue, tenant, due LIMIT 1)
                 UNION ALL
                 SELECT next.tenant, next.due FROM step CROSS JOIN LATERAL (
                     SELECT tenant, due FROM runs WHERE queue = $1 AND tenant > step.tenant AND due IS NOT NULL
                     ORDER BY queue, tenant, due LIMIT 1
                 ) next
             )
             SELECT tenant, due FROM step",
            &[&queue],
        )
        .await?;
    rows.iter().map(|row| Ok((number(row, 0)?, time(row, 1)?))).collect()
}

/// When the longest waiting run of a tenant in a queue is or was due.
pub(crate) async fn oldest_due(snapshot: &Snapshot<'_>, queue: i64, tenant: i64) -> Result<Option<Timestamp>> {
    let sql = "SELECT due FROM runs WHERE queue = $1 AND tenant = $2 AND due IS NOT NULL ORDER BY due LIMIT 1";
    snapshot.row(sql, &[&queue, &tenant]).await?.map(|row| time(&row, 0)).transpose()
}

/// Those that are there for a tenant, by its own names: others' cost nothing.
pub(crate) const QUEUES_OF: &str = "SELECT id FROM queues WHERE declared = 1
     UNION SELECT id FROM queues WHERE name = 'default'
     UNION SELECT queues.id FROM tenant_names JOIN queues ON queues.name = tenant_names.name
         WHERE tenant_names.tenant = $1 AND tenant_names.kind = 0
     ORDER BY 1";

pub(crate) async fn queue_numbers_of(snapshot: &Snapshot<'_>, tenant: i64) -> Result<Vec<i64>> {
    snapshot.rows(QUEUES_OF, &[&tenant]).await?.iter().map(|row| number(row, 0)).collect()
}

pub(crate) async fn queue_numbers(snapshot: &Snapshot<'_>) -> Result<Vec<i64>> {
    snapshot.rows("SELECT id FROM queues ORDER BY id", &[]).await?.iter().map(|row| number(row, 0)).collect()
}
