//! What a command sees while it runs: the open transaction, the batch's one instant, the names it has met before.

use std::collections::HashSet;
use std::sync::Arc;

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Limits, Policies, Policy};
use redrive_core::time::Timestamp;
use redrive_core::wire::QueueSettings;
use rusqlite::{Connection, OptionalExtension, params};

use crate::clock::Dice;
use crate::error::{Error, Result};
use crate::sqlite::breakers::Breakers;
use crate::sqlite::limits::Buckets;
use crate::sqlite::map::Map;
use crate::sqlite::pattern_clock::PatternClocks;
use crate::sqlite::patterns::KnownPatterns;
use crate::sqlite::tally::Tally;
use crate::sqlite::versions::SeenVersion;

/// A queue as commands need it.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) name: QueueName,
    pub(super) settings: Arc<QueueSettings>,
}

/// Names and policies met before: copies of rows that never change under us, since only the committer writes them.
/// Dropped whenever a transaction is rolled back.
#[derive(Debug, Default)]
pub(super) struct Known {
    tenants: Map<Tenant, i64>,
    tenant_names: Map<i64, Tenant>,
    queues: Map<QueueName, Queue>,
    queue_names: Map<i64, QueueName>,
    policies: Map<(i64, i64), Arc<Policy>>,
    pub(super) versions: HashSet<SeenVersion>,
    pub(super) patterns: KnownPatterns,
    pub(super) pattern_clocks: PatternClocks,
    pub(super) last_run: Option<i64>,
    /// When each queue's last lease call was noted.
    pub(super) lease_calls: Map<i64, Timestamp>,
    /// The tenant that the last lease call of a scope ended with; only a place to begin.
    pub(super) last_served: i64,
    pub(super) breakers: Breakers,
    pub(super) limits: Map<i64, Limits>,
    pub(super) buckets: Buckets,
}

impl Known {
    pub(super) fn forget(&mut self) {
        let buckets = std::mem::take(&mut self.buckets);
        *self = Self { last_served: self.last_served, buckets, ..Self::default() };
    }
}

pub(super) struct Batch<'a> {
    pub(super) conn: &'a Connection,
    pub(super) now: Timestamp,
    pub(super) dice: &'a dyn Dice,
    pub(super) policies: &'a Policies,
    pub(super) known: &'a mut Known,
    pub(super) tally: Tally,
    /// A run may have fallen due.
    pub(super) wake: bool,
}

impl Batch<'_> {
    /// The tenant's number; a name not met before gets one.
    pub(super) fn tenant(&mut self, name: &Tenant) -> Result<i64> {
        if let Some(id) = self.find_tenant(name)? {
            return Ok(id);
        }
        self.conn
            .prepare_cached("INSERT INTO tenants (name, created_at) VALUES (?1, ?2)")?
            .execute(params![name.as_str(), self.now.as_millis()])?;
        let id = self.conn.last_insert_rowid();
        self.know_tenant(name.clone(), id);
        Ok(id)
    }

    pub(super) fn find_tenant(&mut self, name: &Tenant) -> Result<Option<i64>> {
        if let Some(id) = self.known.tenants.get(name) {
            return Ok(Some(*id));
        }
        let mut find = self.conn.prepare_cached("SELECT id FROM tenants WHERE name = ?1")?;
        let found: Option<i64> = find.query_row([name.as_str()], |row| row.get(0)).optional()?;
        if let Some(id) = found {
            self.know_tenant(name.clone(), id);
        }
        Ok(found)
    }

    fn know_tenant(&mut self, name: Tenant, id: i64) {
        self.known.tenant_names.insert(id, name.clone());
        self.known.tenants.insert(name, id);
    }

    pub(super) fn tenant_name(&mut self, id: i64) -> Result<Tenant> {
        if let Some(name) = self.known.tenant_names.get(&id) {
            return Ok(name.clone());
        }
        let mut find = self.conn.prepare_cached("SELECT name FROM tenants WHERE id = ?1")?;
        let text: String = find.query_row([id], |row| row.get(0))?;
        let name: Tenant = text.parse().map_err(|_| Error::Unexpected(format!("tenant {text:?}")))?;
        self.know_tenant(name.clone(), id);
        Ok(name)
    }

    /// The queue of that name; a new one is made with defaults and has no owner yet.
    pub(super) fn queue(&mut self, name: &QueueName) -> Result<Queue> {
        if let Some(queue) = self.find_queue(name)? {
            return Ok(queue);
        }
        self.put_queue(name, QueueSettings::default())
    }

    pub(super) fn find_queue(&mut self, name: &QueueName) -> Result<Option<Queue>> {
        if let Some(queue) = self.known.queues.get(name) {
            return Ok(Some(queue.clone()));
        }
        let mut find = self.conn.prepare_cached("SELECT id, settings FROM queues WHERE name = ?1")?;
        let found = find.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).optional()?;
        let Some((id, settings)) = found else { return Ok(None) };
        let settings = serde_json::from_str(&settings).map_err(|e| Error::Unexpected(format!("queue {name}: {e}")))?;
        Ok(Some(self.know_queue(Queue { id, name: name.clone(), settings: Arc::new(settings) })))
    }

    fn know_queue(&mut self, queue: Queue) -> Queue {
        self.known.queue_names.insert(queue.id, queue.name.clone());
        self.known.queues.insert(queue.name.clone(), queue.clone());
        queue
    }

    pub(super) fn queue_by_id(&mut self, id: i64) -> Result<Queue> {
        if let Some(name) = self.known.queue_names.get(&id).cloned() {
            return self.queue(&name);
        }
        let mut find = self.conn.prepare_cached("SELECT name FROM queues WHERE id = ?1")?;
        let text: String = find.query_row([id], |row| row.get(0))?;
        let name: QueueName = text.parse().map_err(|_| Error::Unexpected(format!("queue {text:?}")))?;
        self.queue(&name)
    }

    pub(super) fn put_queue(&mut self, name: &QueueName, settings: QueueSettings) -> Result<Queue> {
        let json = serde_json::to_string(&settings).map_err(|e| Error::Unexpected(e.to_string()))?;
        let mut put = self.conn.prepare_cached(
            "INSERT INTO queues (name, settings, created_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (name) DO UPDATE SET settings = excluded.settings RETURNING id",
        )?;
        let id = put.query_row(params![name.as_str(), json, self.now.as_millis()], |row| row.get(0))?;
        self.known.policies.retain(|(queue, _), _| *queue != id);
        Ok(self.know_queue(Queue { id, name: name.clone(), settings: Arc::new(settings) }))
    }

    pub(super) fn policy(&mut self, queue: &Queue, tenant: i64) -> Result<Arc<Policy>> {
        if let Some(policy) = self.known.policies.get(&(queue.id, tenant)) {
            return Ok(policy.clone());
        }
        let name = self.tenant_name(tenant)?;
        let policy = Arc::new(self.policies.resolve(queue.settings.retry_by, &queue.settings.policy, &name));
        self.known.policies.insert((queue.id, tenant), policy.clone());
        Ok(policy)
    }
}
