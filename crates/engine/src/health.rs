//! The rules of health: which queues seem to have no worker, which dead runs a retry cannot help, and what needs attention.
//! A store reads the counters and lease calls; the judgement is here.

use redrive_core::ids::QueueName;
use redrive_core::policy::RetryBy;
use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{QueueAlert, QueueSettings};

/// A queue with due runs and no lease call for this long seems to have no worker.
const NO_WORKER_AFTER_MS: u64 = 5 * MINUTE_MS;
/// Stands for all tenants in a lease call.
const ALL: i64 = 0;

/// A queue with the lease calls for it.
#[derive(Debug)]
pub struct ServedQueue {
    pub name: QueueName,
    pub settings: QueueSettings,
    /// When workers last asked for runs, by the tenant they asked for; 0 is all tenants.
    pub calls: Vec<(i64, Timestamp)>,
}

impl ServedQueue {
    /// No worker for all tenants has asked for it lately, so due runs may be without a worker.
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        self.settings.retry_by == RetryBy::Worker && !self.has_workers(ALL, now)
    }

    /// A tenant's runs are served by its own workers and by workers for all tenants.
    fn has_workers(&self, tenant: i64, now: Timestamp) -> bool {
        let late = now.minus_ms(NO_WORKER_AFTER_MS);
        self.calls.iter().any(|(of, at)| (*of == tenant || *of == ALL) && *at > late)
    }

    /// The longest wait for a worker among tenants with their oldest due time, if it is long enough to alert.
    pub fn alert(&self, oldest: impl IntoIterator<Item = (i64, Timestamp)>, now: Timestamp) -> Option<QueueAlert> {
        let late = now.minus_ms(NO_WORKER_AFTER_MS);
        let unserved = oldest.into_iter().filter(|(tenant, due)| *due <= late && !self.has_workers(*tenant, now));
        let oldest_due_at = unserved.map(|(_, due)| due).min()?;
        Some(QueueAlert {
            queue: self.name.clone(),
            oldest_due_at,
            last_lease_call_at: self.calls.iter().map(|(_, at)| *at).max(),
            what_to_do: what_to_do(&self.name),
        })
    }
}

fn what_to_do(queue: &QueueName) -> String {
    format!(
        "Start a worker that leases `{queue}`, or set its retry_by to caller if the agents that report its failures \
         also retry them."
    )
}

/// Dead for a reason that another attempt with the same payload cannot change.
pub fn is_poison(because: DeadBecause) -> bool {
    matches!(because, DeadBecause::Poison | DeadBecause::Permanent | DeadBecause::Unsafe | DeadBecause::Rejected)
}

/// The status of a store: `ok` while nothing waits for a person.
pub fn status(waiting_for_people: u64, queues_without_workers: &[QueueAlert]) -> &'static str {
    if waiting_for_people == 0 && queues_without_workers.is_empty() { "ok" } else { "attention" }
}
