//! The engine's rows over PostgreSQL: prefetched before a batch, changed in memory, written at its end. What few commands need
//! is read and written directly. This file has the names; each other aggregate has its own.

pub(crate) mod attempts;
pub(crate) mod breakers;
pub(crate) mod engine;
pub(crate) mod ledger;
pub(crate) mod operations;
pub(crate) mod patterns;
pub(crate) mod reviews;
pub(crate) mod runs;
pub(crate) mod waiting;

use std::sync::Arc;

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::time::Timestamp;
use tokio_postgres::Row;

use crate::numbers::limit;
use crate::postgres::commit::due_watermarks::DueWatermarks;
use crate::postgres::commit::prefetch::TenantIds;
use crate::postgres::commit::unit_of_work::UnitOfWork;
use crate::postgres::commit::writer_connection::{Values, WriterConnection};
use crate::postgres::reads::QUEUES_OF_TENANT;
use crate::postgres::reads::columns::{number, owned};
use crate::postgres::rows::breakers::BreakerWork;
use crate::postgres::rows::breakers::QuietBreakers;
use crate::postgres::rows::operations::ItemCache;
use crate::postgres::rows::waiting::ScheduleCache;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::names::tenant_names::NameKind;
use redrive_engine::ports::rows::NameRows;

/// The rows of one open transaction.
pub(crate) struct PgRows<'a> {
    pub(crate) connection: &'a mut WriterConnection,
    pub(crate) names: &'a TenantIds,
    pub(crate) unit: UnitOfWork,
    pub(crate) quiet: Arc<QuietBreakers>,
    pub(crate) breakers: BreakerWork,
    pub(crate) scheduled: ScheduleCache,
    pub(crate) items: ItemCache,
    pub(crate) watermarks: &'a mut DueWatermarks,
    /// Whether reads lock their rows; false for read-only transactions.
    locks: bool,
}

impl<'a> PgRows<'a> {
    pub(crate) fn new(
        connection: &'a mut WriterConnection,
        names: &'a TenantIds,
        watermarks: &'a mut DueWatermarks,
        quiet: Arc<QuietBreakers>,
    ) -> Self {
        let (unit, breakers, scheduled) = (UnitOfWork::default(), BreakerWork::default(), ScheduleCache::default());
        Self {
            connection,
            names,
            unit,
            quiet,
            breakers,
            scheduled,
            items: ItemCache::default(),
            watermarks,
            locks: true,
        }
    }

    /// For a read-only transaction: it waits for no lock and holds none.
    pub(crate) fn reading(
        connection: &'a mut WriterConnection,
        names: &'a TenantIds,
        watermarks: &'a mut DueWatermarks,
        quiet: Arc<QuietBreakers>,
    ) -> Self {
        Self { locks: false, ..Self::new(connection, names, watermarks, quiet) }
    }

    pub(crate) fn only_reads(&self) -> bool {
        !self.locks
    }

    /// Removes `FOR UPDATE` in a read-only transaction.
    pub(crate) fn locking<'s>(&self, sql: &'s str) -> &'s str {
        if self.locks { sql } else { sql.strip_suffix(" FOR UPDATE").unwrap_or(sql) }
    }

    /// Reads what the batch has not changed.
    pub(crate) fn ask(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        self.connection.query(sql, values)
    }

    pub(crate) fn ask_one(&mut self, sql: &str, values: Values<'_>) -> Result<Option<Row>> {
        self.connection.row(sql, values)
    }

    /// Writes what the batch has changed, then reads.
    pub(crate) fn ask_after(&mut self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        self.write_out()?;
        self.connection.query(sql, values)
    }

    pub(crate) fn run(&mut self, sql: &str, values: Values<'_>) -> Result<u64> {
        self.connection.execute(sql, values)
    }
}

fn gone(what: &str) -> Error {
    Error::Unexpected(format!("a {what} that is not there"))
}

impl NameRows for PgRows<'_> {
    fn tenant_number(&mut self, name: &Tenant) -> Result<Option<i64>> {
        if let Some(known) = self.names.number(name) {
            return Ok(Some(known));
        }
        let found = self.ask_one("SELECT id FROM tenants WHERE name = $1", &[&name.as_str()])?;
        found.map(|row| number(&row, 0)).transpose()
    }

    fn tenant_name(&mut self, tenant: i64) -> Result<String> {
        let found = self.ask_one("SELECT name FROM tenants WHERE id = $1", &[&tenant])?;
        owned(&found.ok_or_else(|| gone("tenant"))?, 0)
    }

    fn insert_tenant(&mut self, name: &Tenant) -> Result<i64> {
        let sql = "INSERT INTO tenants (name) VALUES ($1)
             ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id";
        let made = self.ask_one(sql, &[&name.as_str()])?;
        number(&made.ok_or_else(|| gone("tenant"))?, 0)
    }

    fn queue_named(&mut self, name: &QueueName) -> Result<Option<(i64, String, bool)>> {
        let found = self.ask_one("SELECT id, settings, declared FROM queues WHERE name = $1", &[&name.as_str()])?;
        found.map(|row| Ok((number(&row, 0)?, owned(&row, 1)?, number(&row, 2)? == 1))).transpose()
    }

    fn queue_name(&mut self, queue: i64) -> Result<String> {
        let found = self.ask_one("SELECT name FROM queues WHERE id = $1", &[&queue])?;
        owned(&found.ok_or_else(|| gone("queue"))?, 0)
    }

    fn queue_numbers(&mut self, most: usize) -> Result<Vec<i64>> {
        let most = limit(most);
        self.ask("SELECT id FROM queues ORDER BY id LIMIT $1", &[&most])?.iter().map(|row| number(row, 0)).collect()
    }

    fn queue_numbers_of(&mut self, tenant: i64) -> Result<Vec<i64>> {
        self.ask(QUEUES_OF_TENANT, &[&tenant])?.iter().map(|row| number(row, 0)).collect()
    }

    fn knows_name(&mut self, tenant: i64, kind: NameKind, name: &str) -> Result<bool> {
        let sql = "SELECT 1 FROM tenant_names WHERE tenant = $1 AND kind = $2 AND name = $3";
        Ok(self.ask_one(sql, &[&tenant, &kind.number(), &name])?.is_some())
    }

    fn use_name(&mut self, tenant: i64, kind: NameKind, name: &str, most: usize) -> Result<bool> {
        if self.knows_name(tenant, kind, name)? {
            return Ok(true);
        }
        // Replicas that count at once may exceed the limit by a few.
        let sql = "INSERT INTO tenant_names (tenant, kind, name) SELECT $1, $2, $3
             WHERE (SELECT count(*) FROM tenant_names WHERE tenant = $1 AND kind = $2) < $4
             ON CONFLICT (tenant, kind, name) DO UPDATE SET name = excluded.name";
        let most = limit(most);
        Ok(self.run(sql, &[&tenant, &kind.number(), &name, &most])? == 1)
    }

    fn insert_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<(i64, String)> {
        let sql = "INSERT INTO queues (name, settings, created_at) VALUES ($1, $2, $3)
             ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id, settings";
        let made = self.ask_one(sql, &[&name.as_str(), &settings.as_bytes(), &now.as_millis()])?;
        let made = made.ok_or_else(|| gone("queue"))?;
        Ok((number(&made, 0)?, owned(&made, 1)?))
    }

    fn put_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<i64> {
        let sql = "INSERT INTO queues (name, settings, created_at, declared) VALUES ($1, $2, $3, 1)
             ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, declared = 1 RETURNING id";
        let put = self.ask_one(sql, &[&name.as_str(), &settings.as_bytes(), &now.as_millis()])?;
        number(&put.ok_or_else(|| gone("queue"))?, 0)
    }

    fn note_lease_call(&mut self, queue: i64, tenant: i64, versions: Option<&str>, now: Timestamp) -> Result<()> {
        // Another transaction that is noting it writes the same, so this one does not wait for it.
        let sql = "WITH known AS (SELECT 1 FROM lease_calls WHERE queue = $1 AND tenant = $2),
             noted AS (UPDATE lease_calls SET at = $3, versions = coalesce($4, versions)
                 WHERE (queue, tenant) IN (
                     SELECT queue, tenant FROM lease_calls WHERE queue = $1 AND tenant = $2 FOR UPDATE SKIP LOCKED))
             INSERT INTO lease_calls (queue, tenant, at, versions)
             SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT 1 FROM known) ON CONFLICT DO NOTHING";
        self.run(sql, &[&queue, &tenant, &now.as_millis(), &versions.map(str::as_bytes)])?;
        Ok(())
    }

    fn worker_versions(&mut self, queue: i64, tenant: i64) -> Result<Option<String>> {
        let sql = "SELECT versions FROM lease_calls
             WHERE queue IN (0, $1) AND tenant IN (0, $2) AND versions IS NOT NULL ORDER BY at DESC LIMIT 1";
        self.ask_one(sql, &[&queue, &tenant])?.map(|row| owned(&row, 0)).transpose()
    }

    fn insert_version(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>> {
        let sql = "INSERT INTO versions_seen (tenant, kind, version) VALUES ($1, $2, $3)
             ON CONFLICT DO NOTHING RETURNING id";
        let new = self.ask_one(sql, &[&tenant, &kind.as_bytes(), &version.as_bytes()])?;
        new.map(|row| number(&row, 0)).transpose()
    }

    fn forget_versions(&mut self, tenant: i64, kind: &str, kept: usize) -> Result<bool> {
        let sql = "DELETE FROM versions_seen WHERE tenant = $1 AND kind = $2 AND id <= (
             SELECT id FROM versions_seen WHERE tenant = $1 AND kind = $2 ORDER BY id DESC LIMIT 1 OFFSET $3)";
        let kept = limit(kept);
        Ok(self.run(sql, &[&tenant, &kind.as_bytes(), &kept])? > 0)
    }

    fn version_order(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>> {
        let sql = "SELECT id FROM versions_seen WHERE tenant = $1 AND kind = $2 AND version = $3";
        let found = self.ask_one(sql, &[&tenant, &kind.as_bytes(), &version.as_bytes()])?;
        found.map(|row| number(&row, 0)).transpose()
    }

    fn newest_version(&mut self, tenant: i64, kind: &str) -> Result<Option<String>> {
        let sql = "SELECT version FROM versions_seen WHERE tenant = $1 AND kind = $2 ORDER BY id DESC LIMIT 1";
        self.ask_one(sql, &[&tenant, &kind.as_bytes()])?.map(|row| owned(&row, 0)).transpose()
    }
}
