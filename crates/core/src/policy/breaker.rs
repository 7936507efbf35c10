//! When a breaker opens, and for how long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::time::{DAY_MS, MINUTE_MS, SECOND_MS};

/// What a layer says of breakers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakerLayer {
    /// Whether failing work is held back at all; on when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
    /// How far back attempts are counted (1,000 to 86,400,000); 5 min when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DAY_MS))]
    pub window_ms: Option<u64>,
    /// Fewer attempts than this within the window open nothing (1 to 1,000,000); 20 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub min_attempts: Option<u32>,
    /// The share of failed attempts that opens it (above 0, up to 1); 0.8 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub failure_share: Option<f64>,
    /// How long it stays open before one attempt may find out (1,000 to 86,400,000); 30 s when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DAY_MS))]
    pub open_ms: Option<u64>,
    /// The longest it stays open, doubling each time it opens again; 10 min when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = DAY_MS))]
    pub open_max_ms: Option<u64>,
}

/// What holds for a breaker, all layers resolved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerSettings {
    pub on: bool,
    pub window_ms: u64,
    pub min_attempts: u32,
    pub failure_share: f64,
    pub open_ms: u64,
    pub open_max_ms: u64,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            on: true,
            window_ms: 5 * MINUTE_MS,
            min_attempts: 20,
            failure_share: 0.8,
            open_ms: 30 * SECOND_MS,
            open_max_ms: 10 * MINUTE_MS,
        }
    }
}

impl BreakerLayer {
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        within("breaker.window_ms", self.window_ms, SECOND_MS, DAY_MS)?;
        within("breaker.min_attempts", self.min_attempts.map(u64::from), 1, 1_000_000)?;
        within("breaker.open_ms", self.open_ms, SECOND_MS, DAY_MS)?;
        within("breaker.open_max_ms", self.open_max_ms, SECOND_MS, DAY_MS)?;
        match self.failure_share {
            Some(share) if !(share > 0.0 && share <= 1.0) => {
                Err(BadSetting { field: "breaker.failure_share", must_be: "above 0 and at most 1".into() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl BreakerSettings {
    pub(super) fn lay(&mut self, layer: &BreakerLayer) {
        self.on = layer.on.unwrap_or(self.on);
        self.window_ms = layer.window_ms.unwrap_or(self.window_ms);
        self.min_attempts = layer.min_attempts.unwrap_or(self.min_attempts);
        self.failure_share = layer.failure_share.unwrap_or(self.failure_share);
        self.open_ms = layer.open_ms.unwrap_or(self.open_ms);
        self.open_max_ms = layer.open_max_ms.unwrap_or(self.open_max_ms);
    }
}
