//! Who retries, and the named budgets and schedules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::{HOUR_MS, MINUTE_MS, SECOND_MS};

/// Who executes retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryBy {
    /// Whoever leases the queue, or its push destination.
    #[default]
    Worker,
    /// The reporter's own broker or loop: our due time is advice, nothing is ever leased.
    Caller,
}

impl RetryBy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Caller => "caller",
        }
    }
}

/// A named budget and schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    #[default]
    Standard,
    Internal,
    External,
    Customer,
}

impl Preset {
    pub fn max_attempts(self) -> u32 {
        match self {
            Self::Standard => 4,
            Self::Internal => 5,
            Self::External => 8,
            Self::Customer => 9,
        }
    }

    pub fn schedule(self) -> Schedule {
        const S: u64 = SECOND_MS;
        const M: u64 = MINUTE_MS;
        const H: u64 = HOUR_MS;
        match self {
            Self::Standard => Schedule::ByReason,
            Self::Internal => Schedule::Fixed(vec![15 * S, 45 * S, 2 * M, 5 * M]),
            Self::External => Schedule::Fixed(vec![30 * S, M, 2 * M, 5 * M, 10 * M, 20 * M, 30 * M]),
            Self::Customer => Schedule::Fixed(vec![30 * S, M, 5 * M, 15 * M, H, 4 * H, 12 * H, 24 * H]),
        }
    }
}

/// How long to wait before a retry that changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// The delay that the reason's strategy names.
    ByReason,
    /// The n-th retry waits the n-th entry, the last one from then on.
    Fixed(Vec<u64>),
}
