//! What a layer changes of the table of strategies, reason by reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::reason::Reason;
use crate::time::{DAY_MS, SECOND_MS};
use crate::verdict::Change;
use crate::words::words;

words! {
    /// Where a changed retry may go.
    pub enum Towards {
        /// The next larger one of the queue's `models`.
        LargerModel = "larger_model",
        /// Any other one of the queue's `models`.
        OtherModel = "other_model",
        /// Another agent that can do the run's task type.
        OtherAgent = "other_agent",
        /// The queue's `fallback_queue`.
        FallbackQueue = "fallback_queue",
    }
}

/// What is done about one reason, where it differs from the table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StrategyLayer {
    /// How long to wait before the retry (1,000 to 2,678,400,000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 31 * DAY_MS))]
    pub delay_ms: Option<u64>,
    /// The most retries this reason may use within `max_attempts`; 0 is a dead letter at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = TRIES_MAX))]
    pub tries: Option<u32>,
    /// What the retry does differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = CHANGES_MAX))]
    pub changes: Option<Vec<Change>>,
    /// Where the retry goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = TARGETS_MAX))]
    pub target: Option<Vec<Towards>>,
}

/// By reason.
pub type StrategiesLayer = BTreeMap<Reason, StrategyLayer>;

const TRIES_MAX: u64 = 1_000;
const CHANGES_MAX: u64 = 10;
const TARGETS_MAX: u64 = 10;
const TEXT_MAX_BYTES: usize = 2_000;
const FACTOR_MAX: f64 = 100.0;

impl StrategyLayer {
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        within("strategy.delay_ms", self.delay_ms, SECOND_MS, 31 * DAY_MS)?;
        within("strategy.tries", self.tries.map(u64::from), 0, TRIES_MAX)?;
        let changes = self.changes.as_deref().unwrap_or_default();
        within("strategy.target", self.target.as_ref().map(|all| all.len() as u64), 0, TARGETS_MAX)?;
        within("strategy.changes", Some(changes.len() as u64), 0, CHANGES_MAX)?;
        changes.iter().try_for_each(check_change)
    }

    pub(super) fn lay(&mut self, layer: &Self) {
        self.delay_ms = layer.delay_ms.or(self.delay_ms);
        self.tries = layer.tries.or(self.tries);
        if layer.changes.is_some() {
            self.changes.clone_from(&layer.changes);
        }
        if layer.target.is_some() {
            self.target.clone_from(&layer.target);
        }
    }
}

fn check_change(change: &Change) -> Result<(), BadSetting> {
    let bad = |must_be: &str| Err(BadSetting { field: "strategy.changes", must_be: must_be.into() });
    match change {
        Change::AddInstruction { text } | Change::AddConstraint { text }
            if text.trim().is_empty() || text.len() > TEXT_MAX_BYTES =>
        {
            bad("texts of 1 to 2000 bytes")
        }
        Change::ScaleOutputBudget { factor } if !(*factor > 0.0 && *factor <= FACTOR_MAX) => {
            bad("factors above 0 and up to 100")
        }
        Change::AddLastError { text: Some(_) } => bad("without a text for add_last_error: the error itself is given"),
        Change::CompressContext { to_tokens: Some(0) } => bad("at least one token for compress_context"),
        Change::SetModel { .. } => bad("without set_model: name the queue's `models`, and a `target`"),
        Change::AddInstruction { .. }
        | Change::AddConstraint { .. }
        | Change::ScaleOutputBudget { .. }
        | Change::AddLastError { text: None }
        | Change::CompressContext { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_layer_changes_only_what_it_names() {
        let mut first = StrategyLayer { delay_ms: Some(5_000), tries: Some(2), ..Default::default() };
        first.lay(&StrategyLayer { tries: Some(0), target: Some(vec![Towards::OtherModel]), ..Default::default() });
        assert_eq!(
            (first.delay_ms, first.tries, first.target),
            (Some(5_000), Some(0), Some(vec![Towards::OtherModel]))
        );
    }

    #[test]
    fn a_change_that_makes_no_sense_is_refused() {
        let with = |change| StrategyLayer { changes: Some(vec![change]), ..Default::default() }.check();
        assert!(with(Change::ScaleOutputBudget { factor: 0.0 }).is_err());
        assert!(with(Change::ScaleOutputBudget { factor: f64::NAN }).is_err());
        assert!(with(Change::AddInstruction { text: " ".into() }).is_err());
        assert!(with(Change::SetModel { model: "gpt-5".into() }).is_err());
        assert!(with(Change::AddLastError { text: None }).is_ok());
    }
}
