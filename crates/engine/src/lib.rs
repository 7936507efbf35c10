//! The use cases of Redrive: ingest, leases, attempts, the ledger, triage, operations, breakers and patterns, and the
//! background services. Decisions come from `redrive_core`; [`ports`] are the traits that a store implements.

pub mod attempt;
pub mod breakers;
pub mod clock;
pub mod codec;
pub mod counters;
pub mod error;
pub mod failpoint;
pub mod fair_semaphore;
pub mod health;
pub mod ingest;
pub mod lease;
pub mod ledger;
pub mod metrics;
pub mod model;
pub mod names;
pub mod operations;
pub mod patterns;
pub mod policies;
pub mod ports;
pub mod runs;
pub mod services;
pub mod store;
pub mod sweeps;
pub mod tasks;
pub mod triage;
pub mod tx;

pub use breakers::BreakerAct;
pub use clock::{Clock, Dice, ManualClock, SeededDice, SteadyClock, SystemClock, SystemDice};
pub use codec::{CodecError, decode, encode};
pub use error::{Error, Reported, Result};
pub use fair_semaphore::{FairPermit, FairSemaphore, lower_thread_priority};
pub use model::operations::*;
pub use model::patterns::*;
pub use model::triage::*;
pub use model::*;
pub use names::tenant_names::{TENANT_QUEUES_MAX, TENANT_REASONS_MAX};
pub use store::Store;

/// For the committer's many small lookups. The random seed prevents chosen names from colliding.
pub type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
