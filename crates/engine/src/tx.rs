//! What a command works with: the open transaction, its time, and caches that outlive it.

use std::collections::HashSet;
use std::sync::Arc;

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Limits, Policies, Policy};
use redrive_core::reason::Reason;
use redrive_core::time::Timestamp;
use redrive_core::verdict::VerdictRenderer;
use redrive_core::wire::QueueSettings;

use crate::Map;
use crate::breakers::Breakers;
use crate::clock::Dice;
use crate::counters::CounterDeltas;
use crate::error::{Error, Result};
use crate::lease::limits::TokenBuckets;
use crate::lease::scan::ScanCursors;
use crate::model::KeyRecord;
use crate::names::versions::SeenVersion;
use crate::patterns::sightings::CachedPatterns;
use crate::ports::backend::Pace;
use crate::ports::rows::Rows;
use crate::sweeps::reject_unleasable_of;

/// Runs that a change of a queue rejects in its own commit; the unclaimed service finds the rest.
const REJECTED_AT_ONCE_MAX: usize = 1_000;

/// A queue with its parsed settings.
#[derive(Debug, Clone)]
pub struct QueueRow {
    pub id: i64,
    pub name: QueueName,
    pub settings: Arc<QueueSettings>,
    /// Set by an admin or by the configuration.
    pub declared: bool,
}

/// Caches of a writer between its transactions. They hold copies of rows that only this writer changes, or that may be
/// stale for a moment; a rollback clears them.
#[derive(Debug, Default)]
pub struct TxCache {
    tenants: Map<Tenant, i64>,
    tenant_names: Map<i64, Tenant>,
    queues: Map<QueueName, QueueRow>,
    queues_by_id: Map<i64, QueueRow>,
    policies: Map<(i64, i64), Arc<Policy>>,
    pub versions: HashSet<SeenVersion>,
    /// Tenants with the queues that their runs named.
    pub queues_used: HashSet<(i64, i64)>,
    /// Tenants with their custom reasons.
    pub reasons_used: HashSet<(i64, Reason)>,
    pub patterns: CachedPatterns,
    /// When the last lease call of each queue and tenant was noted.
    pub lease_calls: Map<(i64, i64), Timestamp>,
    /// Where the round robin of lease calls continues.
    pub last_served: i64,
    pub scan_cursors: ScanCursors,
    pub breakers: Breakers,
    pub limits: Map<i64, Limits>,
    pub buckets: TokenBuckets,
    pub verdicts: VerdictRenderer,
}

impl TxCache {
    /// Drops what other replicas may have changed; queues, which change rarely, only on request.
    pub fn expire(&mut self, queues_too: bool) {
        self.patterns.forget();
        self.breakers.forget();
        if queues_too {
            self.queues.clear();
            self.queues_by_id.clear();
            self.policies.clear();
        }
    }

    /// After a rollback. Rate limits and the round robin survive it.
    pub fn clear(&mut self) {
        let (buckets, mut scan_cursors) = (std::mem::take(&mut self.buckets), std::mem::take(&mut self.scan_cursors));
        scan_cursors.clear();
        *self = Self { last_served: self.last_served, buckets, scan_cursors, ..Self::default() };
    }
}

pub struct Tx<'a> {
    pub rows: &'a mut dyn Rows,
    pub now: Timestamp,
    pub dice: &'a dyn Dice,
    pub policies: &'a Policies,
    pub known: &'a mut TxCache,
    /// Counter changes of the batch.
    pub counters: CounterDeltas,
    /// Limits the size of the batch.
    pub pace: &'a dyn Pace,
    /// A run may have fallen due.
    pub wake: bool,
}

impl Tx<'_> {
    /// The tenant's number; a new tenant gets one.
    pub fn tenant(&mut self, name: &Tenant) -> Result<i64> {
        if let Some(id) = self.find_tenant(name)? {
            return Ok(id);
        }
        let id = self.rows.insert_tenant(name)?;
        self.cache_tenant(name.clone(), id);
        Ok(id)
    }

    pub fn find_tenant(&mut self, name: &Tenant) -> Result<Option<i64>> {
        if let Some(id) = self.known.tenants.get(name) {
            return Ok(Some(*id));
        }
        let id = self.rows.tenant_number(name)?;
        if let Some(id) = id {
            self.cache_tenant(name.clone(), id);
        }
        Ok(id)
    }

    fn cache_tenant(&mut self, name: Tenant, id: i64) {
        self.known.tenant_names.insert(id, name.clone());
        self.known.tenants.insert(name, id);
    }

    pub fn tenant_name(&mut self, id: i64) -> Result<Tenant> {
        if let Some(name) = self.known.tenant_names.get(&id) {
            return Ok(name.clone());
        }
        let text = self.rows.tenant_name(id)?;
        let name: Tenant = text.parse().map_err(|_| Error::Unexpected(format!("tenant {text:?}")))?;
        self.cache_tenant(name.clone(), id);
        Ok(name)
    }

    /// The queue of that name; a new one is created with the defaults and without an owner.
    pub fn queue(&mut self, name: &QueueName) -> Result<QueueRow> {
        if let Some(queue) = self.find_queue(name)? {
            return Ok(queue);
        }
        let json = serde_json::to_string(&QueueSettings::default()).map_err(|e| Error::Unexpected(e.to_string()))?;
        let (id, settings) = self.rows.insert_queue(name, &json, self.now)?;
        self.parse_queue(id, name, &settings, false)
    }

    fn parse_queue(&mut self, id: i64, name: &QueueName, settings: &str, declared: bool) -> Result<QueueRow> {
        let settings = serde_json::from_str(settings).map_err(|e| Error::Unexpected(format!("queue {name}: {e}")))?;
        Ok(self.cache_queue(QueueRow { id, name: name.clone(), settings: Arc::new(settings), declared }))
    }

    pub fn find_queue(&mut self, name: &QueueName) -> Result<Option<QueueRow>> {
        if let Some(queue) = self.known.queues.get(name) {
            return Ok(Some(queue.clone()));
        }
        let Some((id, settings, declared)) = self.rows.queue_named(name)? else { return Ok(None) };
        self.parse_queue(id, name, &settings, declared).map(Some)
    }

    fn cache_queue(&mut self, queue: QueueRow) -> QueueRow {
        self.known.queues_by_id.insert(queue.id, queue.clone());
        self.known.queues.insert(queue.name.clone(), queue.clone());
        queue
    }

    pub fn queue_by_id(&mut self, id: i64) -> Result<QueueRow> {
        if let Some(queue) = self.known.queues_by_id.get(&id) {
            return Ok(queue.clone());
        }
        let text = self.rows.queue_name(id)?;
        let name: QueueName = text.parse().map_err(|_| Error::Unexpected(format!("queue {text:?}")))?;
        self.queue(&name)
    }

    /// False if there is a key already.
    pub fn put_first_key(&mut self, key: &KeyRecord) -> Result<bool> {
        if self.rows.has_keys()? {
            return Ok(false);
        }
        Ok(self.rows.insert_key(key).map(|()| true)?)
    }

    pub fn put_queue(&mut self, name: &QueueName, settings: QueueSettings) -> Result<QueueRow> {
        let json = serde_json::to_string(&settings).map_err(|e| Error::Unexpected(e.to_string()))?;
        let id = self.rows.put_queue(name, &json, self.now)?;
        self.known.policies.retain(|(queue, _), _| *queue != id);
        let queue = self.cache_queue(QueueRow { id, name: name.clone(), settings: Arc::new(settings), declared: true });
        reject_unleasable_of(self, &queue, REJECTED_AT_ONCE_MAX)?;
        Ok(queue)
    }

    pub fn policy(&mut self, queue: &QueueRow, tenant: i64) -> Result<Arc<Policy>> {
        if let Some(policy) = self.known.policies.get(&(queue.id, tenant)) {
            return Ok(policy.clone());
        }
        let name = self.tenant_name(tenant)?;
        let policy = Arc::new(self.policies.resolve(queue.settings.retry_by, &queue.settings.policy, &name));
        self.known.policies.insert((queue.id, tenant), policy.clone());
        Ok(policy)
    }
}
