//! From the names that callers use to the store's numbers, and other lookups of one value.

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::time::Timestamp;

use super::columns::number;
use super::reader::{SqlReader, StoreReader};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{RunRef, TenantScope};

pub(crate) use redrive_engine::runs::run_row::key_hash;

/// Whose rows a read may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadScope {
    All,
    One(i64),
    /// A tenant that the store has never seen.
    Nobody,
}

impl ReadScope {
    pub(crate) fn sees(self, tenant: i64) -> bool {
        match self {
            Self::All => true,
            Self::One(own) => own == tenant,
            Self::Nobody => false,
        }
    }
}

pub(crate) async fn read_scope(reader: &impl SqlReader, scope: &TenantScope) -> Result<ReadScope> {
    match scope {
        TenantScope::All => Ok(ReadScope::All),
        TenantScope::One(tenant) => Ok(tenant_number(reader, tenant).await?.map_or(ReadScope::Nobody, ReadScope::One)),
    }
}

pub(crate) async fn tenant_number(reader: &impl SqlReader, tenant: &Tenant) -> Result<Option<i64>> {
    reader.row("SELECT id FROM tenants WHERE name = $1", &[tenant.as_str().into()]).await?.read(|row| number(row, 0))
}

pub(crate) async fn queue_number(reader: &impl SqlReader, queue: &QueueName) -> Result<Option<i64>> {
    reader.row("SELECT id FROM queues WHERE name = $1", &[queue.as_str().into()]).await?.read(|row| number(row, 0))
}

pub(crate) async fn run_number(reader: &impl StoreReader, at: &RunRef) -> Result<i64> {
    let found = reader.run_numbers(std::slice::from_ref(at)).await?;
    found.first().copied().ok_or(Error::NotFound("run").into())
}

/// The newest run; 0 if there is none.
pub(crate) async fn last_run(reader: &impl SqlReader) -> Result<i64> {
    let found = reader.row("SELECT coalesce(max(id), 0) FROM runs", &[]).await?.read(|row| number(row, 0))?;
    Ok(found.unwrap_or(0))
}

pub(crate) async fn any_deferred<R: SqlReader>(reader: &R, now: Timestamp) -> Result<bool> {
    let sql = format!(
        "SELECT CAST(1 AS BIGINT) FROM runs {} WHERE deferred_until > $1 ORDER BY deferred_until LIMIT 1",
        R::index_hint("runs_deferred")
    );
    Ok(reader.row(&sql, &[now.into()]).await?.read(|_| Ok(()))?.is_some())
}

/// When the longest waiting run of a tenant in a queue is or was due.
pub(crate) async fn oldest_due<R: SqlReader>(reader: &R, queue: i64, tenant: i64) -> Result<Option<Timestamp>> {
    let sql = format!(
        "SELECT due FROM runs {} WHERE queue = $1 AND tenant = $2 AND due IS NOT NULL ORDER BY due LIMIT 1",
        R::index_hint("runs_due")
    );
    reader.row(&sql, &[queue.into(), tenant.into()]).await?.read(|row| number(row, 0).map(Timestamp::from_millis))
}

/// The queues that a tenant can use.
pub(crate) async fn queue_numbers_of<R: SqlReader>(reader: &R, tenant: i64) -> Result<Vec<i64>> {
    reader.rows(R::QUEUES_OF_TENANT, &[tenant.into()]).await?.read(|row| number(row, 0))
}

pub(crate) async fn queue_numbers(reader: &impl SqlReader) -> Result<Vec<i64>> {
    reader.rows("SELECT id FROM queues ORDER BY id", &[]).await?.read(|row| number(row, 0))
}
