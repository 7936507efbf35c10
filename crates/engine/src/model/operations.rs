//! Bulk operations as they are requested and stored.

use redrive_core::ids::{QueueName, RunId};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, Fix, ItemOutcome, OperationAction, RawJson};
use serde::{Deserialize, Serialize};

use crate::model::{RunFilter, RunRef};

/// `POST /v1/operations`, checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewOperation {
    pub over: Over,
    pub bulk: Bulk,
    pub reason: Option<Text>,
    pub rate_per_s: Option<f64>,
    pub canary: Option<Canary>,
    pub settle_ms: u64,
    pub dry_run: bool,
    /// The filter as sent, for display.
    pub filter: RawJson,
}

/// The runs of an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Over {
    Filter(Box<RunFilter>),
    Runs(Vec<RunRef>),
}

/// The action on each run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Bulk {
    Replay(Box<BulkReplay>),
    Resolve,
    Discard,
    Assign { to: Option<Label> },
    Reassign { agent: Option<Label>, queue: Option<QueueName> },
    Defer { until: Timestamp },
    Merge { into: RunId },
}

/// A replay of each run, with the same changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BulkReplay {
    pub fix: Option<Fix>,
    pub instruction: Option<Text>,
    pub model: Option<Label>,
    pub agent: Option<Label>,
    pub queue: Option<QueueName>,
    /// The largest payload that a patch may produce.
    pub payload_max_bytes: usize,
}

impl Bulk {
    pub fn action(&self) -> OperationAction {
        match self {
            Self::Replay(_) => OperationAction::Replay,
            Self::Resolve => OperationAction::Resolve,
            Self::Discard => OperationAction::Discard,
            Self::Assign { .. } => OperationAction::Assign,
            Self::Reassign { .. } => OperationAction::Reassign,
            Self::Defer { .. } => OperationAction::Defer,
            Self::Merge { .. } => OperationAction::Merge,
        }
    }
}

/// `GET …/items`.
#[derive(Debug, Clone)]
pub struct ItemsCall {
    /// Empty: every outcome.
    pub outcomes: Vec<ItemOutcome>,
    pub limit: u32,
    pub cursor: Option<String>,
}
