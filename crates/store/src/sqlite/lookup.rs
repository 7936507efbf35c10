//! From the names that callers know to the store's own numbers.

use redrive_core::ids::{QueueName, Tenant};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::model::{RunRef, TenantScope};

/// An attempt or a payload of a run lies at `run << 20 | number`.
pub(super) const NUMBER_BITS: u32 = 20;

pub(super) fn numbered(run: i64, number: u32) -> i64 {
    (run << NUMBER_BITS) | i64::from(number)
}

/// Where a run's attempts or payloads lie: the first and the last number they can have.
pub(super) fn span_of(run: i64) -> (i64, i64) {
    let first = run << NUMBER_BITS;
    (first, first | ((1 << NUMBER_BITS) - 1))
}

/// What `runs.key_hash` holds.
pub(super) fn key_hash(tenant: i64, run_id: &str) -> i64 {
    let hash = Sha256::new().chain_update(tenant.to_le_bytes()).chain_update(run_id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    i64::from_le_bytes(first)
}

pub(super) fn tenant_number(conn: &Connection, tenant: &Tenant) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM tenants WHERE name = ?")?;
    Ok(find.query_row([tenant.as_str()], |row| row.get(0)).optional()?)
}

pub(super) fn queue_number(conn: &Connection, queue: &QueueName) -> Result<Option<i64>> {
    let mut find = conn.prepare_cached("SELECT id FROM queues WHERE name = ?")?;
    Ok(find.query_row([queue.as_str()], |row| row.get(0)).optional()?)
}

pub(super) fn run_number(conn: &Connection, at: &RunRef) -> Result<i64> {
    let tenant = tenant_number(conn, &at.tenant)?.ok_or(Error::NotFound("run"))?;
    let run_id = at.run_id.as_str();
    let mut find = conn.prepare_cached("SELECT id FROM runs WHERE key_hash = ? AND tenant = ? AND run_id = ?")?;
    let found = find.query_row(params![key_hash(tenant, run_id), tenant, run_id], |row| row.get(0)).optional()?;
    found.ok_or(Error::NotFound("run"))
}

/// Whose rows a read may touch, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    All,
    One(i64),
    /// A tenant that nothing was ever heard of.
    Nobody,
}

pub(super) fn whose(conn: &Connection, scope: &TenantScope) -> Result<Whose> {
    match scope {
        TenantScope::All => Ok(Whose::All),
        TenantScope::One(tenant) => Ok(tenant_number(conn, tenant)?.map_or(Whose::Nobody, Whose::One)),
    }
}
