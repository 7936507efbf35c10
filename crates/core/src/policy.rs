//! What a queue allows: budget, schedule, clocks. Layers say only what they change; resolving them gives one
//! [`Policy`] without gaps: defaults ← tier ← queue ← tenant.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Tenant;
use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};

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

/// What holds for a run, all layers resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub retry_by: RetryBy,
    pub max_attempts: u32,
    pub schedule: Schedule,
    pub lease_ms: u64,
    pub idle_ms: Option<u64>,
    pub deadline_ms: u64,
    pub unclaimed_after_ms: u64,
    pub max_replays: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self::resolve(RetryBy::default(), &[])
    }
}

/// One layer of a policy: only what it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyLayer {
    /// Named budget and schedule: standard, internal, external or customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Attempts since the last human replay, the first included (1 to 1,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Waits before the first, second, … retry in milliseconds, instead of the preset's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_ms: Option<Vec<u64>>,
    /// How long a lease lives without a heartbeat (500 to 86,400,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long an attempt may go without a step; off when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Wall clock limit of one attempt; heartbeats do not push it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// A scheduled run that nobody begins this long after its due time is dead-lettered as unclaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclaimed_after_ms: Option<u64>,
    /// Replays allowed before only `force` gets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_replays: Option<u32>,
}

/// Policy of a tenant: its tier, and what is its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantPolicy {
    pub tier: Option<String>,
    pub policy: PolicyLayer,
}

/// The layers around a queue's own, as the configuration file gives them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    pub defaults: PolicyLayer,
    pub tiers: BTreeMap<String, PolicyLayer>,
    pub tenants: BTreeMap<Tenant, TenantPolicy>,
}

impl Policies {
    /// What holds for a tenant's runs in a queue: defaults ← tier ← queue ← tenant.
    pub fn resolve(&self, retry_by: RetryBy, queue: &PolicyLayer, tenant: &Tenant) -> Policy {
        let own = self.tenants.get(tenant);
        let tier = own.and_then(|own| own.tier.as_ref()).and_then(|tier| self.tiers.get(tier));
        let layers = [Some(&self.defaults), tier, Some(queue), own.map(|own| &own.policy)];
        Policy::resolve(retry_by, &layers.into_iter().flatten().collect::<Vec<_>>())
    }
}

pub const LEASE_MS_MIN: u64 = 500;
pub const LEASE_MS_MAX: u64 = DAY_MS;
pub const LEASE_MS_DEFAULT: u64 = MINUTE_MS;
const DEADLINE_MS_MAX: u64 = 31 * DAY_MS;
const MAX_ATTEMPTS_MAX: u32 = 1_000;
const SCHEDULE_ENTRIES_MAX: usize = 100;

/// A setting outside what it may be.
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
        within("unclaimed_after_ms", self.unclaimed_after_ms, SECOND_MS, 366 * DAY_MS)?;
        within("max_replays", self.max_replays.map(u64::from), 0, 1_000_000)?;
        let Some(schedule) = &self.schedule_ms else { return Ok(()) };
        within("schedule_ms", u64::try_from(schedule.len()).ok(), 1, SCHEDULE_ENTRIES_MAX as u64)?;
        schedule.iter().try_for_each(|wait| within("schedule_ms", Some(*wait), SECOND_MS, DEADLINE_MS_MAX))
    }
}

fn within(field: &'static str, value: Option<u64>, min: u64, max: u64) -> Result<(), BadSetting> {
    match value {
        Some(v) if !(min..=max).contains(&v) => Err(BadSetting { field, must_be: format!("from {min} to {max}") }),
        Some(_) | None => Ok(()),
    }
}

impl Policy {
    /// Resolves layers, the later over the earlier. A layer's preset brings its own budget and schedule, which
    /// outrank an earlier layer's single figures.
    pub fn resolve(retry_by: RetryBy, layers: &[&PolicyLayer]) -> Self {
        let standard = Preset::default();
        let mut policy = Self {
            retry_by,
            max_attempts: standard.max_attempts(),
            schedule: standard.schedule(),
            lease_ms: LEASE_MS_DEFAULT,
            idle_ms: None,
            deadline_ms: HOUR_MS,
            unclaimed_after_ms: DAY_MS,
            max_replays: 10,
        };
        for layer in layers {
            policy.lay(layer);
        }
        policy
    }

    fn lay(&mut self, layer: &PolicyLayer) {
        if let Some(preset) = layer.preset {
            self.max_attempts = preset.max_attempts();
            self.schedule = preset.schedule();
        }
        self.max_attempts = layer.max_attempts.unwrap_or(self.max_attempts);
        if let Some(schedule) = &layer.schedule_ms {
            self.schedule = Schedule::Fixed(schedule.clone());
        }
        self.lease_ms = layer.lease_ms.unwrap_or(self.lease_ms);
        self.idle_ms = layer.idle_ms.or(self.idle_ms);
        self.deadline_ms = layer.deadline_ms.unwrap_or(self.deadline_ms);
        self.unclaimed_after_ms = layer.unclaimed_after_ms.unwrap_or(self.unclaimed_after_ms);
        self.max_replays = layer.max_replays.unwrap_or(self.max_replays);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_layer_wins_and_a_silent_one_changes_nothing() {
        let tier = PolicyLayer { preset: Some(Preset::Customer), lease_ms: Some(5_000), ..PolicyLayer::default() };
        let queue = PolicyLayer { max_attempts: Some(2), ..PolicyLayer::default() };
        let policy = Policy::resolve(RetryBy::Worker, &[&tier, &queue, &PolicyLayer::default()]);
        assert_eq!((policy.max_attempts, policy.lease_ms), (2, 5_000));
        assert_eq!(policy.schedule, Preset::Customer.schedule());
    }

    #[test]
    fn each_fixed_schedule_has_a_wait_for_every_retry_of_its_budget() {
        for preset in [Preset::Internal, Preset::External, Preset::Customer] {
            let Schedule::Fixed(waits) = preset.schedule() else { panic!("{preset:?} is fixed") };
            assert_eq!(waits.len() + 1, preset.max_attempts() as usize, "{preset:?}");
        }
    }

    #[test]
    fn figures_out_of_range_are_named() {
        let bad = PolicyLayer { lease_ms: Some(499), ..PolicyLayer::default() };
        assert_eq!(bad.check().map_err(|e| e.to_string()), Err("`lease_ms` must be from 500 to 86400000".into()));
        let empty = PolicyLayer { schedule_ms: Some(vec![]), ..PolicyLayer::default() };
        assert_eq!(empty.check().map_err(|e| e.field), Err("schedule_ms"));
    }
}
