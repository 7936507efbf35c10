//! A cache of resolved policies for handlers, cleared when a queue is set.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Limits, Policies, Policy, PolicyLayer};
use redrive_core::wire::QueueSettings;

/// Callers choose the names: beyond this many entries the cache is cleared.
const ENTRIES_MAX: usize = 4_096;

pub struct PolicyCache {
    policies: Policies,
    cached: Mutex<Cached>,
    /// Whether any queue has an output schema, which saves a read per success where none has. Once true it stays true
    /// until the next start: a stale true costs a read, a stale false would skip a check.
    has_output_schemas: AtomicBool,
}

#[derive(Default)]
struct Cached {
    /// Rises when a queue is set, so that settings read before are not cached after it.
    generation: u64,
    by_name: HashMap<(Tenant, QueueName), Arc<Policy>>,
}

/// The state of the cache when settings were read.
#[derive(Debug, Clone, Copy)]
pub struct Generation(u64);

fn has_schema(layer: &PolicyLayer) -> bool {
    layer.detect.as_ref().is_some_and(|detect| detect.output_schema.is_some())
}

impl PolicyCache {
    /// `queues`: the settings that the store holds at start.
    pub fn new(policies: Policies, queues: &[QueueSettings]) -> Self {
        let tenants = policies.tenants.values().map(|tenant| &tenant.policy);
        let layers = policies.tiers.values().chain([&policies.defaults]).chain(tenants);
        let has_output_schemas = layers.into_iter().any(has_schema);
        let cache =
            Self { policies, cached: Mutex::default(), has_output_schemas: AtomicBool::new(has_output_schemas) };
        queues.iter().for_each(|settings| cache.note_output_schema(settings));
        cache
    }

    pub fn limits_of(&self, tenant: &Tenant) -> Limits {
        self.policies.limits_of(tenant)
    }

    pub fn has_output_schemas(&self) -> bool {
        self.has_output_schemas.load(Ordering::Acquire)
    }

    /// Notes whether a queue has an output schema.
    pub fn note_output_schema(&self, settings: &QueueSettings) {
        if has_schema(&settings.policy) {
            self.has_output_schemas.store(true, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, tenant: &Tenant, queue: &QueueName) -> Option<Arc<Policy>> {
        self.lock().by_name.get(&(tenant.clone(), queue.clone())).cloned()
    }

    pub fn generation(&self) -> Generation {
        Generation(self.lock().generation)
    }

    /// Resolves settings that were read at `read_at`. A queue that does not exist is not cached: its first run creates it.
    pub fn put(
        &self,
        read_at: Generation,
        tenant: &Tenant,
        queue: &QueueName,
        settings: Option<&QueueSettings>,
    ) -> Arc<Policy> {
        let fresh = QueueSettings::default();
        let set = settings.unwrap_or(&fresh);
        let policy = Arc::new(self.policies.resolve(set.retry_by, &set.policy, tenant));
        let mut cached = self.lock();
        if settings.is_some() && cached.generation == read_at.0 {
            if cached.by_name.len() >= ENTRIES_MAX {
                cached.by_name.clear();
            }
            cached.by_name.insert((tenant.clone(), queue.clone()), policy.clone());
        }
        policy
    }

    pub fn clear(&self) {
        let mut cached = self.lock();
        cached.generation += 1;
        cached.by_name.clear();
    }
}
