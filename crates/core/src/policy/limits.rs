//! How much of the workers one tenant may have at a time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::wire::bounds::RATE_MAX;

/// Caps on what is handed out to workers for one tenant, over all its queues; each is off until set.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Attempts that may be under way at once (1 to 1,000,000). A tenant that has as many is leased nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub max_running: Option<u64>,
    /// Leases a second (above 0, up to 1,000,000); a second's worth may come at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = RATE_MAX))]
    pub leases_per_s: Option<f64>,
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        within("limits.max_running", self.max_running, 1, 1_000_000)?;
        match self.leases_per_s {
            Some(rate) if !(rate > 0.0 && rate <= 1_000_000.0) => {
                Err(BadSetting { field: "limits.leases_per_s", must_be: "above 0 and at most 1000000".into() })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn lay(&mut self, layer: &Self) {
        self.max_running = layer.max_running.or(self.max_running);
        self.leases_per_s = layer.leases_per_s.or(self.leases_per_s);
    }

    pub fn is_none(&self) -> bool {
        self.max_running.is_none() && self.leases_per_s.is_none()
    }
}
