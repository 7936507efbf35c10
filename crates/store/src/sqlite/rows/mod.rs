//! The engine's rows over SQLite: each is written at once, inside the writer's transaction. This file has the names; each
//! other aggregate has its own.

pub(crate) mod attempts;
pub(crate) mod breakers;
pub(crate) mod engine;
pub(crate) mod keys;
pub(crate) mod ledger;
pub(crate) mod operations;
pub(crate) mod patterns;
pub(crate) mod reviews;
pub(crate) mod run_names;
pub(crate) mod runs;
pub(crate) mod waiting;

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::numbers::limit;
use crate::shared::lookup::{queue_numbers_of, tenant_number};
use crate::shared::reader::ready;
use crate::sqlite::rows::patterns::PatternClocks;
use crate::sqlite::rows::run_names::NewNames;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::names::tenant_names::NameKind;
use redrive_engine::ports::rows::NameRows;

/// What the writer remembers of its rows between batches. Dropped whenever a transaction is rolled back.
#[derive(Debug, Default)]
pub(crate) struct WriterCache {
    pub(crate) last_run: Option<i64>,
    pub(crate) new_names: Option<NewNames>,
    pub(crate) pattern_clocks: PatternClocks,
}

/// A statement that nearly every command of a batch runs: taken from the connection's cache once per batch.
#[derive(Default)]
pub(crate) struct BatchStatement<'a>(Option<CachedStatement<'a>>);

impl<'a> BatchStatement<'a> {
    pub(crate) fn of(&mut self, conn: &'a Connection, sql: &str) -> Result<&mut CachedStatement<'a>> {
        if self.0.is_none() {
            self.0 = Some(conn.prepare_cached(sql)?);
        }
        Ok(self.0.as_mut().ok_or_else(|| Error::Unexpected("a statement that was just prepared".into()))?)
    }
}

/// The statements of a report, a claim and an end of an attempt.
#[derive(Default)]
pub(crate) struct Statements<'a> {
    pub(crate) is_there: BatchStatement<'a>,
    pub(crate) find_run: BatchStatement<'a>,
    pub(crate) run_by_number: BatchStatement<'a>,
    pub(crate) insert_run: BatchStatement<'a>,
    pub(crate) insert_payload: BatchStatement<'a>,
    pub(crate) next_tenant: BatchStatement<'a>,
    pub(crate) due_at_front: BatchStatement<'a>,
    pub(crate) due_after: BatchStatement<'a>,
    pub(crate) end_at_front: BatchStatement<'a>,
    pub(crate) end_after: BatchStatement<'a>,
    pub(crate) payload_bytes: BatchStatement<'a>,
    pub(crate) move_run: BatchStatement<'a>,
    pub(crate) insert_attempt: BatchStatement<'a>,
}

/// The rows of one open transaction.
pub(crate) struct SqliteRows<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) memory: &'a mut WriterCache,
    pub(crate) held: Statements<'a>,
}

impl<'a> SqliteRows<'a> {
    pub(crate) fn new(conn: &'a Connection, memory: &'a mut WriterCache) -> Self {
        Self { conn, memory, held: Statements::default() }
    }
}

impl NameRows for SqliteRows<'_> {
    fn tenant_number(&mut self, name: &Tenant) -> Result<Option<i64>> {
        ready(tenant_number(self.conn, name))
    }

    fn tenant_name(&mut self, tenant: i64) -> Result<String> {
        let mut find = self.conn.prepare_cached("SELECT name FROM tenants WHERE id = ?1")?;
        Ok(find.query_row([tenant], |row| row.get(0))?)
    }

    fn insert_tenant(&mut self, name: &Tenant) -> Result<i64> {
        self.conn.prepare_cached("INSERT INTO tenants (name) VALUES (?1)")?.execute([name.as_str()])?;
        Ok(self.conn.last_insert_rowid())
    }

    fn queue_named(&mut self, name: &QueueName) -> Result<Option<(i64, String, bool)>> {
        let mut find = self.conn.prepare_cached("SELECT id, settings, declared FROM queues WHERE name = ?1")?;
        Ok(find.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?)
    }

    fn queue_name(&mut self, queue: i64) -> Result<String> {
        let mut find = self.conn.prepare_cached("SELECT name FROM queues WHERE id = ?1")?;
        Ok(find.query_row([queue], |row| row.get(0))?)
    }

    fn queue_numbers(&mut self, most: usize) -> Result<Vec<i64>> {
        let mut find = self.conn.prepare_cached("SELECT id FROM queues ORDER BY id LIMIT ?1")?;
        Ok(find.query_map([most], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    fn queue_numbers_of(&mut self, tenant: i64) -> Result<Vec<i64>> {
        ready(queue_numbers_of(self.conn, tenant))
    }

    fn knows_name(&mut self, tenant: i64, kind: NameKind, name: &str) -> Result<bool> {
        let mut find =
            self.conn.prepare_cached("SELECT 1 FROM tenant_names WHERE tenant = ?1 AND kind = ?2 AND name = ?3")?;
        Ok(find.exists(params![tenant, kind.number(), name])?)
    }

    fn use_name(&mut self, tenant: i64, kind: NameKind, name: &str, most: usize) -> Result<bool> {
        if self.knows_name(tenant, kind, name)? {
            return Ok(true);
        }
        let mut put = self.conn.prepare_cached(
            "INSERT INTO tenant_names (tenant, kind, name) SELECT ?1, ?2, ?3
             WHERE (SELECT count(*) FROM tenant_names WHERE tenant = ?1 AND kind = ?2) < ?4",
        )?;
        let most = limit(most);
        Ok(put.execute(params![tenant, kind.number(), name, most])? == 1)
    }

    fn insert_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<(i64, String)> {
        let mut put = self
            .conn
            .prepare_cached("INSERT INTO queues (name, settings, created_at) VALUES (?1, ?2, ?3) RETURNING id")?;
        let id = put.query_row(params![name.as_str(), settings, now.as_millis()], |row| row.get(0))?;
        Ok((id, settings.to_owned()))
    }

    fn put_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<i64> {
        let mut put = self.conn.prepare_cached(
            "INSERT INTO queues (name, settings, created_at, declared) VALUES (?1, ?2, ?3, 1)
             ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, declared = 1 RETURNING id",
        )?;
        Ok(put.query_row(params![name.as_str(), settings, now.as_millis()], |row| row.get(0))?)
    }

    fn note_lease_call(&mut self, queue: i64, tenant: i64, versions: Option<&str>, now: Timestamp) -> Result<()> {
        let mut note = self.conn.prepare_cached(
            "INSERT INTO lease_calls (queue, tenant, at, versions) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (queue, tenant) DO UPDATE SET at = excluded.at,
                 versions = coalesce(excluded.versions, versions)",
        )?;
        note.execute(params![queue, tenant, now.as_millis(), versions])?;
        Ok(())
    }

    fn worker_versions(&mut self, queue: i64, tenant: i64) -> Result<Option<String>> {
        let mut find = self.conn.prepare_cached(
            "SELECT versions FROM lease_calls
             WHERE queue IN (0, ?1) AND tenant IN (0, ?2) AND versions IS NOT NULL ORDER BY at DESC LIMIT 1",
        )?;
        Ok(find.query_row([queue, tenant], |found| found.get(0)).optional()?)
    }

    fn insert_version(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>> {
        let mut insert = self.conn.prepare_cached(
            "INSERT INTO versions_seen (tenant, kind, version) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?;
        let new = insert.execute(params![tenant, kind, version])? == 1;
        Ok(new.then(|| self.conn.last_insert_rowid()))
    }

    fn forget_versions(&mut self, tenant: i64, kind: &str, kept: usize) -> Result<bool> {
        let mut forget = self.conn.prepare_cached(
            "DELETE FROM versions_seen WHERE tenant = ?1 AND kind = ?2 AND id <= (
                 SELECT id FROM versions_seen WHERE tenant = ?1 AND kind = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
        )?;
        Ok(forget.execute(params![tenant, kind, kept])? > 0)
    }

    fn version_order(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>> {
        let mut find = self
            .conn
            .prepare_cached("SELECT id FROM versions_seen WHERE tenant = ?1 AND kind = ?2 AND version = ?3")?;
        Ok(find.query_row(params![tenant, kind, version], |row| row.get(0)).optional()?)
    }

    fn newest_version(&mut self, tenant: i64, kind: &str) -> Result<Option<String>> {
        newest_version(self.conn, tenant, kind)
    }
}

/// The version of a kind that the tenant met last.
pub(crate) fn newest_version(conn: &Connection, tenant: i64, kind: &str) -> Result<Option<String>> {
    let mut find = conn
        .prepare_cached("SELECT version FROM versions_seen WHERE tenant = ?1 AND kind = ?2 ORDER BY id DESC LIMIT 1")?;
    Ok(find.query_row(params![tenant, kind], |row| row.get(0)).optional()?)
}
