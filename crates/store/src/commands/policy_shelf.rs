//! Policies that handlers have asked for, kept until a queue is set anew: a handler then asks the disk only once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::policy::{Limits, Policies, Policy};
use redrive_core::wire::QueueSettings;

/// Names are strangers' to choose: past so many the shelf begins anew.
const KEPT_MAX: usize = 4_096;

pub(crate) struct PolicyShelf {
    policies: Policies,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// Rises when a queue is set, so that what was read before is not kept after it.
    round: u64,
    by_name: HashMap<(Tenant, QueueName), Arc<Policy>>,
}

/// When a policy was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked(u64);

impl PolicyShelf {
    pub(crate) fn new(policies: Policies) -> Self {
        Self { policies, kept: Mutex::default() }
    }

    pub(crate) fn limits_of(&self, tenant: &Tenant) -> Limits {
        self.policies.limits_of(tenant)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, tenant: &Tenant, queue: &QueueName) -> Option<Arc<Policy>> {
        self.kept().by_name.get(&(tenant.clone(), queue.clone())).cloned()
    }

    pub(crate) fn ask(&self) -> Asked {
        Asked(self.kept().round)
    }

    /// Resolves what was read. A queue that is not there is not kept: its first run makes it.
    pub(crate) fn put(
        &self,
        asked: Asked,
        tenant: &Tenant,
        queue: &QueueName,
        settings: Option<&QueueSettings>,
    ) -> Arc<Policy> {
        let policy = match settings {
            Some(set) => self.policies.resolve(set.retry_by, &set.policy, tenant),
            None => {
                let fresh = QueueSettings::default();
                self.policies.resolve(fresh.retry_by, &fresh.policy, tenant)
            }
        };
        let policy = Arc::new(policy);
        let mut kept = self.kept();
        if settings.is_some() && kept.round == asked.0 {
            if kept.by_name.len() >= KEPT_MAX {
                kept.by_name.clear();
            }
            kept.by_name.insert((tenant.clone(), queue.clone()), policy.clone());
        }
        policy
    }

    pub(crate) fn forget(&self) {
        let mut kept = self.kept();
        kept.round += 1;
        kept.by_name.clear();
    }
}
