//! What retries may use up: tokens and money, for one run and for a tenant in a day.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::money::Usd;
use crate::wire::bounds::TOKENS_MAX;

/// Caps on what automatic retries use; each is off until set. The first attempt, and the first after a person's replay,
/// are not retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// Tokens that a run's retries may use, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = TOKENS_MAX))]
    pub retry_tokens_per_run: Option<u64>,
    /// Dollars that a run's retries may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_cost_usd_per_run: Option<Usd>,
    /// Tokens that a tenant's retries may use in a day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = TOKENS_MAX))]
    pub retry_tokens_per_tenant_day: Option<u64>,
    /// Dollars that a tenant's retries may cost in a day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_cost_usd_per_tenant_day: Option<Usd>,
}

impl Budgets {
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        within("budget.retry_tokens_per_run", self.retry_tokens_per_run, 1, TOKENS_MAX)?;
        within("budget.retry_tokens_per_tenant_day", self.retry_tokens_per_tenant_day, 1, TOKENS_MAX)
    }

    pub(super) fn lay(&mut self, layer: &Self) {
        self.retry_tokens_per_run = layer.retry_tokens_per_run.or(self.retry_tokens_per_run);
        self.retry_cost_usd_per_run = layer.retry_cost_usd_per_run.or(self.retry_cost_usd_per_run);
        self.retry_tokens_per_tenant_day = layer.retry_tokens_per_tenant_day.or(self.retry_tokens_per_tenant_day);
        self.retry_cost_usd_per_tenant_day = layer.retry_cost_usd_per_tenant_day.or(self.retry_cost_usd_per_tenant_day);
    }

    /// Whether anybody has to know what the tenant's retries used today.
    pub fn look_at_the_tenant(&self) -> bool {
        self.retry_tokens_per_tenant_day.is_some() || self.retry_cost_usd_per_tenant_day.is_some()
    }
}
