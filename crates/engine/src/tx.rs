//! What a command sees while it runs: the open transaction, its instant, the names it has met before.

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
use crate::lease::limits::Buckets;
use crate::lease::scan::ScanCursors;
use crate::model::KeyRecord;
use crate::names::versions::SeenVersion;
use crate::patterns::sightings::CachedPatterns;
use crate::ports::backend::Pace;
use crate::ports::rows::Rows;
use crate::sweeps::reject_unleasable_of;

/// Runs that one change of a queue's rules moves in its own commit.
const REJECTED_AT_ONCE_MAX: usize = 1_000;

/// A queue as commands need it.
#[derive(Debug, Clone)]
pub struct QueueRow {
    pub id: i64,
    pub name: QueueName,
    pub settings: Arc<QueueSettings>,
    /// An admin or the configuration has set it.
    pub declared: bool,
}

/// Names and policies met before: copies of rows that never change under us, since only the committer writes them.
/// Dropped whenever a transaction is rolled back.
#[derive(Debug, Default)]
pub struct TxCache {
    tenants: Map<Tenant, i64>,
    tenant_names: Map<i64, Tenant>,
    queues: Map<QueueName, QueueRow>,
    queues_by_id: Map<i64, QueueRow>,
    policies: Map<(i64, i64), Arc<Policy>>,
    pub versions: HashSet<SeenVersion>,
    /// Tenants and queues that their runs were in.
    pub queues_used: HashSet<(i64, i64)>,
    /// Tenants and reasons of their own.
    pub reasons_used: HashSet<(i64, Reason)>,
    pub patterns: CachedPatterns,
    /// When the last lease call of each queue and tenant was noted.
    pub lease_calls: Map<(i64, i64), Timestamp>,
    /// The tenant that the last lease call of a scope ended with; only a place to begin.
    pub last_served: i64,
    pub scan_cursors: ScanCursors,
    pub breakers: Breakers,
    pub limits: Map<i64, Limits>,
    pub buckets: Buckets,
    pub verdicts: VerdictRenderer,
}

impl TxCache {
    /// For a store that others write too: what they may have changed is looked at anew, queues only now and then.
    pub fn look_anew(&mut self, queues_too: bool) {
        self.patterns.forget();
        self.breakers.forget();
        if queues_too {
            self.queues.clear();
            self.queues_by_id.clear();
            self.policies.clear();
        }
    }

    pub fn forget(&mut self) {
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
    /// When the batch has to end.
    pub pace: &'a dyn Pace,
    /// A run may have fallen due.
    pub wake: bool,
}

impl Tx<'_> {
    /// The tenant's number; a name not met before gets one.
    pub fn tenant(&mut self, name: &Tenant) -> Result<i64> {
        if let Some(id) = self.find_tenant(name)? {
            return Ok(id);
        }
        let id = self.rows.insert_tenant(name, self.now)?;
        self.know_tenant(name.clone(), id);
        Ok(id)
    }

    pub fn find_tenant(&mut self, name: &Tenant) -> Result<Option<i64>> {
        if let Some(id) = self.known.tenants.get(name) {
            return Ok(Some(*id));
        }
        let found = self.rows.tenant_number(name)?;
        if let Some(id) = found {
            self.know_tenant(name.clone(), id);
        }
        Ok(found)
    }

    fn know_tenant(&mut self, name: Tenant, id: i64) {
        self.known.tenant_names.insert(id, name.clone());
        self.known.tenants.insert(name, id);
    }

    pub fn tenant_name(&mut self, id: i64) -> Result<Tenant> {
        if let Some(name) = self.known.tenant_names.get(&id) {
            return Ok(name.clone());
        }
        let text = self.rows.tenant_name(id)?;
        let name: Tenant = text.parse().map_err(|_| Error::Unexpected(format!("tenant {text:?}")))?;
        self.know_tenant(name.clone(), id);
        Ok(name)
    }

    /// The queue of that name; a new one is made with defaults and has no owner yet.
    pub fn queue(&mut self, name: &QueueName) -> Result<QueueRow> {
        if let Some(queue) = self.find_queue(name)? {
            return Ok(queue);
        }
        let json = serde_json::to_string(&QueueSettings::default()).map_err(|e| Error::Unexpected(e.to_string()))?;
        let (id, settings) = self.rows.insert_queue(name, &json, self.now)?;
        self.queue_as_kept(id, name, &settings, false)
    }

    fn queue_as_kept(&mut self, id: i64, name: &QueueName, settings: &str, declared: bool) -> Result<QueueRow> {
        let settings = serde_json::from_str(settings).map_err(|e| Error::Unexpected(format!("queue {name}: {e}")))?;
        Ok(self.know_queue(QueueRow { id, name: name.clone(), settings: Arc::new(settings), declared }))
    }

    pub fn find_queue(&mut self, name: &QueueName) -> Result<Option<QueueRow>> {
        if let Some(queue) = self.known.queues.get(name) {
            return Ok(Some(queue.clone()));
        }
        let Some((id, settings, declared)) = self.rows.queue_named(name)? else { return Ok(None) };
        self.queue_as_kept(id, name, &settings, declared).map(Some)
    }

    fn know_queue(&mut self, queue: QueueRow) -> QueueRow {
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

    /// The key that everything else begins with; false where there is one.
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
        let queue = self.know_queue(QueueRow { id, name: name.clone(), settings: Arc::new(settings), declared: true });
        // What is more is found by the engine's next rounds.
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
