//! From the names that callers know to the store's own numbers.

use std::sync::LazyLock;

use redrive_core::ids::{QueueName, Tenant};
use rusqlite::{Connection, OptionalExtension, params};

pub(crate) use crate::shared::lookup::{Whose, key_hash};

use crate::sqlite::rows::run_names::NAMED;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{RunRef, TenantScope};

pub(crate) static FIND: LazyLock<String> =
    LazyLock::new(|| format!("SELECT id FROM runs NOT INDEXED WHERE id IN ({NAMED}) AND tenant = ?2 AND run_id = ?3"));

pub(crate) fn tenant_number(conn: &Connection, tenant: &Tenant) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM tenants WHERE name = ?")?;
    Ok(find.query_row([tenant.as_str()], |row| row.get(0)).optional()?)
}

pub(crate) fn queue_number(conn: &Connection, queue: &QueueName) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM queues WHERE name = ?")?;
    Ok(find.query_row([queue.as_str()], |row| row.get(0)).optional()?)
}

pub(crate) fn run_number(conn: &Connection, at: &RunRef) -> Result<i64> {
    let tenant = tenant_number(conn, &at.tenant)?.ok_or(Error::NotFound("run"))?;
    let run_id = at.run_id.as_str();
    let mut find = conn.prepare_cached(&FIND)?;
    let found = find.query_row(params![key_hash(tenant, run_id), tenant, run_id], |row| row.get(0)).optional()?;
    found.ok_or(Error::NotFound("run").into())
}

pub(crate) fn whose(conn: &Connection, scope: &TenantScope) -> Result<Whose> {
    match scope {
        TenantScope::All => Ok(Whose::All),
        TenantScope::One(tenant) => Ok(tenant_number(conn, tenant)?.map_or(Whose::Nobody, Whose::One)),
    }
}
