//! Sections of a policy layer: strategies by reason, retry budgets, payload shape, breaker settings, tenant limits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::money::Usd;
use crate::reason::Reason;
use crate::time::{DAY_MS, MINUTE_MS, SECOND_MS};
use crate::verdict::Change;
use crate::wire::bounds::{RATE_MAX, TOKENS_MAX};
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

    /// Whether a budget depends on what the tenant's retries used today.
    pub fn look_at_the_tenant(&self) -> bool {
        self.retry_tokens_per_tenant_day.is_some() || self.retry_cost_usd_per_tenant_day.is_some()
    }
}

const POINTER_MAX_BYTES: usize = 500;

words! {
    /// Whose request format it is.
    pub enum PayloadFormat {
        /// OpenAI chat completions, and compatible APIs.
        OpenaiChat = "openai_chat",
        /// OpenAI responses.
        OpenaiResponses = "openai_responses",
        /// Anthropic messages.
        Anthropic = "anthropic",
        /// A list of anything: the oldest may go, the last stays.
        Plain = "plain",
    }
}

words! {
    /// What is done about a payload that will not fit, before its first attempt.
    pub enum Preflight {
        /// No check.
        Off = "off",
        /// The answer says so, and the run begins.
        Warn = "warn",
        /// It is compressed, or dead-lettered where nothing can be left out.
        Enforce = "enforce",
    }
}

/// JSON pointers (RFC 6901) to the parts of a payload. What is absent is looked for by structure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PayloadShape {
    /// The request format; absent: told from the request itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<PayloadFormat>,
    /// The request as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub request: Option<String>,
    /// The list of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub messages: Option<String>,
    /// The system prompt, where it stands beside the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub system: Option<String>,
    /// A text that takes further instructions; absent: the system prompt takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub instructions: Option<String>,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub model: Option<String>,
    /// How many tokens the answer may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub output_tokens: Option<String>,
}

impl PayloadShape {
    /// A later layer's pointers over an earlier one's.
    pub(super) fn lay(&mut self, over: &Self) {
        self.format = over.format.or(self.format);
        for (mine, theirs) in self.pointers_mut().into_iter().zip(over.pointers()) {
            if let Some(pointer) = theirs {
                *mine = Some(pointer.clone());
            }
        }
    }

    /// Refuses what is no pointer.
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        for pointer in self.pointers().into_iter().flatten() {
            if !(pointer.is_empty() || pointer.starts_with('/')) || pointer.len() > POINTER_MAX_BYTES {
                let must_be = format!("JSON pointers: `{pointer}` does not begin with `/`, or has over 500 bytes");
                return Err(BadSetting { field: "payload", must_be });
            }
        }
        Ok(())
    }

    fn pointers(&self) -> [&Option<String>; 6] {
        [&self.request, &self.messages, &self.system, &self.instructions, &self.model, &self.output_tokens]
    }

    fn pointers_mut(&mut self) -> [&mut Option<String>; 6] {
        let Self { format: _, request, messages, system, instructions, model, output_tokens } = self;
        [request, messages, system, instructions, model, output_tokens]
    }
}

/// One layer's breaker settings.
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
    /// How long it stays open before one attempt probes (1,000 to 86,400,000); 30 s when absent.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_strategy_layers_override_only_their_fields() {
        let mut first = StrategyLayer { delay_ms: Some(5_000), tries: Some(2), ..Default::default() };
        first.lay(&StrategyLayer { tries: Some(0), target: Some(vec![Towards::OtherModel]), ..Default::default() });
        assert_eq!(
            (first.delay_ms, first.tries, first.target),
            (Some(5_000), Some(0), Some(vec![Towards::OtherModel]))
        );
    }

    #[test]
    fn invalid_strategy_changes_are_refused() {
        let with = |change| StrategyLayer { changes: Some(vec![change]), ..Default::default() }.check();
        assert!(with(Change::ScaleOutputBudget { factor: 0.0 }).is_err());
        assert!(with(Change::ScaleOutputBudget { factor: f64::NAN }).is_err());
        assert!(with(Change::AddInstruction { text: " ".into() }).is_err());
        assert!(with(Change::SetModel { model: "gpt-5".into() }).is_err());
        assert!(with(Change::AddLastError { text: None }).is_ok());
    }

    #[test]
    fn later_payload_layers_override_only_their_fields() {
        let mut shape = PayloadShape { messages: Some("/a".into()), model: Some("/m".into()), ..Default::default() };
        let format = Some(PayloadFormat::Plain);
        shape.lay(&PayloadShape { format, messages: Some("/b".into()), ..Default::default() });
        assert_eq!((shape.messages.as_deref(), shape.model.as_deref()), (Some("/b"), Some("/m")));
        assert_eq!(shape.format, format);
    }

    #[test]
    fn invalid_payload_pointers_are_refused() {
        let shape = PayloadShape { system: Some("system".into()), ..Default::default() };
        assert!(shape.check().unwrap_err().to_string().contains("`system` does not begin with `/`"));
        assert!(PayloadShape { system: Some(String::new()), ..Default::default() }.check().is_ok());
    }
}
