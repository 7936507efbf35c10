//! Histograms of what callers wait for. A store fills them and the server exposes them, so that a store need not know
//! the server.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

const COMMIT_BUCKETS_S: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const COMMANDS_BUCKETS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1_024.0, 2_048.0, 4_096.0];
const OVERDUE_BUCKETS_S: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0];

/// One store's histograms. Clones share their counts.
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    commit_duration: Histogram,
    commit_commands: Histogram,
    queue_wait: Histogram,
    overdue: Histogram,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            commit_duration: Histogram::new(COMMIT_BUCKETS_S),
            commit_commands: Histogram::new(COMMANDS_BUCKETS),
            queue_wait: Histogram::new(COMMIT_BUCKETS_S),
            overdue: Histogram::new(OVERDUE_BUCKETS_S),
        }
    }
}

impl StoreMetrics {
    /// One transaction, from its begin to its durable commit.
    pub fn record_commit(&self, elapsed: Duration, commands: usize) {
        self.commit_duration.observe(elapsed.as_secs_f64());
        self.commit_commands.observe(commands as f64);
    }

    /// One command, from its submission until it joined a batch.
    pub fn record_queue_wait(&self, waited: Duration) {
        self.queue_wait.observe(waited.as_secs_f64());
    }

    /// One run, from its due time to its lease.
    pub fn record_overdue_ms(&self, overdue_ms: u64) {
        self.overdue.observe(Duration::from_millis(overdue_ms).as_secs_f64());
    }

    pub fn register(&self, registry: &mut Registry) {
        let mut seconds = |name: &str, help: &str, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        seconds("commit_duration", "Time of a transaction, from begin to durable commit", &self.commit_duration);
        seconds("command_queue_wait", "Time of a command in the queue of its writer", &self.queue_wait);
        seconds("lease_overdue", "Time from a run's due time to its lease", &self.overdue);
        registry.register("commit_commands", "Commands per transaction", self.commit_commands.clone());
    }
}
