//! From the names that callers know to the store's own numbers.

use redrive_core::ids::{QueueName, Tenant};

pub(crate) use crate::shared::lookup::Whose;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::number;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{RunRef, TenantScope};

pub(crate) async fn tenant_number(snapshot: &Snapshot<'_>, tenant: &Tenant) -> Result<Option<i64>> {
    let found = snapshot.row("SELECT id FROM tenants WHERE name = $1", &[&tenant.as_str()]).await?;
    found.map(|row| number(&row, 0)).transpose()
}

pub(crate) async fn queue_number(snapshot: &Snapshot<'_>, queue: &QueueName) -> Result<Option<i64>> {
    let found = snapshot.row("SELECT id FROM queues WHERE name = $1", &[&queue.as_str()]).await?;
    found.map(|row| number(&row, 0)).transpose()
}

pub(crate) async fn run_number(snapshot: &Snapshot<'_>, at: &RunRef) -> Result<i64> {
    let found = snapshot
        .row(
            "SELECT id FROM runs WHERE tenant = (SELECT id FROM tenants WHERE name = $1)
                 AND run_id >= $2 AND run_id <= $2 ORDER BY run_id LIMIT 1",
            &[&at.tenant.as_str(), &at.run_id.as_str()],
        )
        .await?;
    number(&found.ok_or(Error::NotFound("run"))?, 0)
}

pub(crate) async fn whose(snapshot: &Snapshot<'_>, scope: &TenantScope) -> Result<Whose> {
    match scope {
        TenantScope::All => Ok(Whose::All),
        TenantScope::One(tenant) => Ok(tenant_number(snapshot, tenant).await?.map_or(Whose::Nobody, Whose::One)),
    }
}
