//! The resolved policy of a run: all layers merged into one [`Policy`] without gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    Approval, BreakerSettings, Budgets, Detectors, LEASE_MS_DEFAULT, Limits, PayloadShape, PolicyLayer, Preflight,
    Preset, RetryBy, Schedule, StrategiesLayer,
};
use crate::ids::{QueueName, Tenant};
use crate::models::Models;
use crate::text::Label;
use crate::time::{DAY_MS, HOUR_MS};

/// What holds for a run, all layers resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub retry_by: RetryBy,
    pub max_attempts: u32,
    pub schedule: Schedule,
    pub lease_ms: u64,
    pub idle_ms: Option<u64>,
    pub deadline_ms: u64,
    pub unclaimed_after_ms: u64,
    pub max_replays: u32,
    /// Models that may stand in for one another, the smallest first.
    pub ladder: Vec<Label>,
    pub fallback_queue: Option<QueueName>,
    /// What differs from the table.
    pub strategies: StrategiesLayer,
    pub budget: Budgets,
    pub detect: Detectors,
    /// Which agents can do what, the same for all.
    pub agents: Agents,
    pub preflight: Preflight,
    pub payload: PayloadShape,
    /// What each model takes, the same for all.
    pub models: Models,
    pub approval: Approval,
    pub breaker: BreakerSettings,
    pub limits: Limits,
}

impl Default for Policy {
    fn default() -> Self {
        Self::resolve(RetryBy::default(), &[])
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
            ladder: Vec::new(),
            fallback_queue: None,
            strategies: StrategiesLayer::new(),
            budget: Budgets::default(),
            detect: Detectors::default(),
            agents: Agents::default(),
            preflight: Preflight::Off,
            payload: PayloadShape::default(),
            models: Models::default(),
            approval: Approval::default(),
            breaker: BreakerSettings::default(),
            limits: Limits::default(),
        };
        for layer in layers {
            policy.lay(layer);
        }
        policy
    }

    /// This policy, with replays held to the rules of `other` as well.
    #[must_use]
    pub fn with_replay_rules_of(&self, other: &Self) -> Self {
        let (approval, max_replays) = (self.approval.and(other.approval), self.max_replays.min(other.max_replays));
        Self { approval, max_replays, ..self.clone() }
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
        if let Some(models) = &layer.models {
            self.ladder = models.iter().map(|name| Label::from(name.as_str())).collect();
        }
        if layer.fallback_queue.is_some() {
            self.fallback_queue.clone_from(&layer.fallback_queue);
        }
        for (reason, strategy) in layer.strategy.iter().flatten() {
            self.strategies.entry(reason.clone()).or_default().lay(strategy);
        }
        if let Some(budget) = &layer.budget {
            self.budget.lay(budget);
        }
        if let Some(detect) = &layer.detect {
            self.detect.lay(detect);
        }
        self.preflight = layer.preflight.unwrap_or(self.preflight);
        if let Some(payload) = &layer.payload {
            self.payload.lay(payload);
        }
        if let Some(replay) = layer.replay_approval {
            self.approval.set(replay);
        }
        if let Some(breaker) = &layer.breaker {
            self.breaker.lay(breaker);
        }
        if let Some(limits) = &layer.limits {
            self.limits.lay(limits);
        }
        self.approval.expires_ms = layer.approval_expires_ms.unwrap_or(self.approval.expires_ms);
    }
}

/// Policy of a tenant: its tier, and what is its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TenantPolicy {
    pub tier: Option<String>,
    pub policy: PolicyLayer,
}

/// The layers around a queue's own, as the configuration file gives them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policies {
    pub defaults: PolicyLayer,
    pub tiers: BTreeMap<String, PolicyLayer>,
    pub tenants: BTreeMap<Tenant, TenantPolicy>,
    pub models: Models,
    pub agents: Agents,
}

impl Policies {
    /// What holds for a tenant's runs in a queue: defaults ← tier ← queue ← tenant.
    pub fn resolve(&self, retry_by: RetryBy, queue: &PolicyLayer, tenant: &Tenant) -> Policy {
        let own = self.tenants.get(tenant);
        let tier = own.and_then(|own| own.tier.as_ref()).and_then(|tier| self.tiers.get(tier));
        let layers = [Some(&self.defaults), tier, Some(queue), own.map(|own| &own.policy)];
        let policy = Policy::resolve(retry_by, &layers.into_iter().flatten().collect::<Vec<_>>());
        Policy { models: self.models.clone(), agents: self.agents.clone(), ..policy }
    }

    /// A tenant's limits, over all its queues.
    pub fn limits_of(&self, tenant: &Tenant) -> Limits {
        let own = self.tenants.get(tenant);
        let tier = own.and_then(|own| own.tier.as_ref()).and_then(|tier| self.tiers.get(tier));
        let mut limits = Limits::default();
        for layer in [Some(&self.defaults), tier, own.map(|own| &own.policy)].into_iter().flatten() {
            if let Some(layer) = &layer.limits {
                limits.lay(layer);
            }
        }
        limits
    }

    /// The settings of breakers that all tenants share.
    pub fn shared_breakers(&self) -> BreakerSettings {
        Policy::resolve(RetryBy::default(), &[&self.defaults]).breaker
    }
}

/// Stands for every task type.
const ANY: &str = "*";

/// The capability map, the same for all queues and tenants. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agents(Arc<BTreeMap<Label, BTreeSet<Label>>>);

impl Agents {
    pub fn new(can: BTreeMap<Label, BTreeSet<Label>>) -> Self {
        Self(Arc::new(can))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that can do it, by name.
    pub fn able(&self, task_type: Option<&Label>) -> impl Iterator<Item = &Label> {
        let any = Label::from(ANY);
        let able = move |can: &BTreeSet<Label>| can.contains(&any) || task_type.is_some_and(|task| can.contains(task));
        self.0.iter().filter(move |(_, can)| able(can)).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Preset;

    use super::*;

    #[test]
    fn later_layers_win_and_empty_ones_change_nothing() {
        let tier = PolicyLayer { preset: Some(Preset::Customer), lease_ms: Some(5_000), ..PolicyLayer::default() };
        let queue = PolicyLayer { max_attempts: Some(2), ..PolicyLayer::default() };
        let policy = Policy::resolve(RetryBy::Worker, &[&tier, &queue, &PolicyLayer::default()]);
        assert_eq!((policy.max_attempts, policy.lease_ms), (2, 5_000));
        assert_eq!(policy.schedule, Preset::Customer.schedule());
    }

    #[test]
    fn fixed_schedules_have_a_wait_for_every_retry() {
        for preset in [Preset::Internal, Preset::External, Preset::Customer] {
            let Schedule::Fixed(waits) = preset.schedule() else { panic!("{preset:?} is fixed") };
            assert_eq!(waits.len() + 1, preset.max_attempts() as usize, "{preset:?}");
        }
    }

    #[test]
    fn agents_do_what_they_name_and_a_star_means_all() {
        let can = |words: &[&str]| words.iter().map(|word| Label::from(*word)).collect();
        let agents = Agents::new(BTreeMap::from([
            (Label::from("biller"), can(&["invoice"])),
            (Label::from("poet"), can(&["poem"])),
            (Label::from("senior"), can(&["*"])),
        ]));
        let able = |task: Option<&str>| {
            let task = task.map(Label::from);
            agents.able(task.as_ref()).map(Label::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(able(Some("invoice")), "biller senior");
        assert_eq!(able(Some("unheard")), "senior");
        assert_eq!(able(None), "senior");
    }
}
