//! One layer of a policy as the configuration file and `PUT /v1/queues` give it, with its allowed ranges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BreakerLayer, Budgets, DetectLayer, Limits, PayloadShape, Preflight, ReplayApproval, StrategiesLayer};
use crate::ids::QueueName;
use crate::reason::REASON_MAX_BYTES;
use crate::text::LABEL_MAX_BYTES;
use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
use crate::wire::bounds;

/// One layer of a policy: only what it changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyLayer {
    /// Named budget and schedule: standard, internal, external or customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Attempts since the last human replay, the first included (1 to 1,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_ATTEMPTS_MAX))]
    pub max_attempts: Option<u32>,
    /// Waits before the first, second, … retry in milliseconds, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = SCHEDULE_ENTRIES_MAX), inner(range(max = DEADLINE_MS_MAX)))]
    pub schedule_ms: Option<Vec<u64>>,
    /// How long a lease lives without a heartbeat (500 to 86,400,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = LEASE_MS_MAX))]
    pub lease_ms: Option<u64>,
    /// How long an attempt may go without a step; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DEADLINE_MS_MAX))]
    pub idle_ms: Option<u64>,
    /// Wall clock limit of one attempt; heartbeats do not push it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// A scheduled run that no worker begins this long after its due time is dead-lettered as unclaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = bounds::SPAN_MS_MAX))]
    pub unclaimed_after_ms: Option<u64>,
    /// Replays allowed before only `force` gets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub max_replays: Option<u32>,
    /// Models that may stand in for one another, the smallest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MODELS_MAX), inner(length(max = LABEL_MAX_BYTES)))]
    pub models: Option<Vec<String>>,
    /// A simpler queue that takes over where this one's changed retry did not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_queue: Option<QueueName>,
    /// What is done about a reason, where it differs from the table: a section for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = STRATEGIES_MAX, "propertyNames" = { "maxLength": REASON_MAX_BYTES }))]
    pub strategy: Option<StrategiesLayer>,
    /// What retries may use up: a section of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budgets>,
    /// What a reported success is checked for: a section of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect: Option<DetectLayer>,
    /// What is done before the first attempt about a payload that will not fit its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// Where in a payload the request to the model lies: JSON pointers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadShape>,
    /// Which replays need approval; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_approval: Option<ReplayApproval>,
    /// How long a run waits in review before it is dead-lettered as expired; 24 h when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = bounds::SPAN_MS_MAX))]
    pub approval_expires_ms: Option<u64>,
    /// When failing work is held back: a section of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerLayer>,
    /// Limits on a tenant's running attempts and leases: a section of its own. Ignored on a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

pub const LEASE_MS_MIN: u64 = 500;
pub const LEASE_MS_MAX: u64 = DAY_MS;
pub const LEASE_MS_DEFAULT: u64 = MINUTE_MS;
const DEADLINE_MS_MAX: u64 = 31 * DAY_MS;
const MAX_ATTEMPTS_MAX: u32 = 1_000;
const SCHEDULE_ENTRIES_MAX: usize = 100;
const MODELS_MAX: u64 = 20;
/// One per built-in reason, and room for custom ones.
const STRATEGIES_MAX: u64 = 100;

/// A setting outside its allowed range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {must_be}")]
pub struct BadSetting {
    pub field: &'static str,
    pub must_be: String,
}

impl PolicyLayer {
    /// Refuses figures that no policy may have, naming the first.
    pub fn check(&self) -> Result<(), BadSetting> {
        within("max_attempts", self.max_attempts.map(u64::from), 1, MAX_ATTEMPTS_MAX.into())?;
        within("lease_ms", self.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        within("idle_ms", self.idle_ms, LEASE_MS_MIN, DEADLINE_MS_MAX)?;
        within("deadline_ms", self.deadline_ms, LEASE_MS_MIN, DEADLINE_MS_MAX)?;
        within("unclaimed_after_ms", self.unclaimed_after_ms, SECOND_MS, bounds::SPAN_MS_MAX)?;
        within("max_replays", self.max_replays.map(u64::from), 0, 1_000_000)?;
        let models = self.models.as_deref().unwrap_or_default();
        within("models", Some(models.len() as u64), 0, MODELS_MAX)?;
        if models.iter().any(|name| name.trim().is_empty() || name.len() > LABEL_MAX_BYTES) {
            let must_be = format!("names of 1 to {LABEL_MAX_BYTES} bytes");
            return Err(BadSetting { field: "models", must_be });
        }
        within("strategy", self.strategy.as_ref().map(|all| all.len() as u64), 0, STRATEGIES_MAX)?;
        self.strategy.iter().flatten().try_for_each(|(_, strategy)| strategy.check())?;
        self.budget.as_ref().map_or(Ok(()), Budgets::check)?;
        self.detect.as_ref().map_or(Ok(()), DetectLayer::check)?;
        self.payload.as_ref().map_or(Ok(()), PayloadShape::check)?;
        self.breaker.as_ref().map_or(Ok(()), BreakerLayer::check)?;
        self.limits.as_ref().map_or(Ok(()), Limits::check)?;
        within("approval_expires_ms", self.approval_expires_ms, SECOND_MS, bounds::SPAN_MS_MAX)?;
        let Some(schedule) = &self.schedule_ms else { return Ok(()) };
        within("schedule_ms", u64::try_from(schedule.len()).ok(), 1, SCHEDULE_ENTRIES_MAX as u64)?;
        schedule.iter().try_for_each(|wait| within("schedule_ms", Some(*wait), SECOND_MS, DEADLINE_MS_MAX))
    }
}

pub(super) fn within(field: &'static str, value: Option<u64>, min: u64, max: u64) -> Result<(), BadSetting> {
    match value {
        Some(v) if !(min..=max).contains(&v) => Err(BadSetting { field, must_be: format!("from {min} to {max}") }),
        Some(_) | None => Ok(()),
    }
}

/// Who executes retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryBy {
    /// The worker that leases the queue, or its push destination.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_refused() {
        let bad = PolicyLayer { lease_ms: Some(499), ..PolicyLayer::default() };
        assert_eq!(bad.check().map_err(|e| e.to_string()), Err("`lease_ms` must be from 500 to 86400000".into()));
        let empty = PolicyLayer { schedule_ms: Some(vec![]), ..PolicyLayer::default() };
        assert_eq!(empty.check().map_err(|e| e.field), Err("schedule_ms"));
    }
}
