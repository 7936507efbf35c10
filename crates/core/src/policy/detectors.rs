//! What a reported success is checked for before it counts: a switch for each detector, and what each allows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{BadSetting, within};
use crate::detect::{OutputSchema, WINDOW};
use crate::money::Usd;
use crate::text::LABEL_MAX_BYTES;
use crate::wire::bounds::TOKENS_MAX;

/// One layer's detector settings: only what it changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DetectLayer {
    /// A blank output is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_output: Option<bool>,
    /// A success without any output is one, too; off until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_output: Option<bool>,
    /// An output that was cut off is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_truncated: Option<bool>,
    /// An answer replaced by a content filter or a refusal is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_filtered: Option<bool>,
    /// A generation that its provider calls unusable is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed_generation: Option<bool>,
    /// A turn that was paused, or an agent stopped while it asked for a tool, is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_turn: Option<bool>,
    /// A framework's step-cap text in place of an answer is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_cap_answer: Option<bool>,
    /// A tool's error in place of an answer is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_error_as_text: Option<bool>,
    /// Work whose every tool call failed is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_tools_failed: Option<bool>,
    /// Work that ended in the same call over and over is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_call_loop: Option<bool>,
    /// How often in a row the same call is a loop (2 to 1,000; default 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub repeats_in_row: Option<u32>,
    /// How often among the last ten calls (2 to 10; default 6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = WINDOW))]
    pub repeats_in_ten: Option<u32>,
    /// On how many attempts the same refused output is a loop (2 to 1,000; default 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub same_outputs: Option<u32>,
    /// The most tokens that a successful attempt may have used; off until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = TOKENS_MAX))]
    pub max_tokens: Option<u64>,
    /// The most that a successful attempt may have cost; off until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<Usd>,
    /// A JSON Schema that the output must fit; off until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<OutputSchema>,
    /// A success must have an effect in the ledger; off until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_effect: Option<bool>,
    /// Tools or steps that a success must have called; none until set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = EXPECTED_TOOLS_MAX), inner(length(max = LABEL_MAX_BYTES)))]
    pub expect_tools: Option<Vec<String>>,
}

const EXPECTED_TOOLS_MAX: u64 = 100;

impl DetectLayer {
    pub(super) fn check(&self) -> Result<(), BadSetting> {
        within("detect.repeats_in_row", self.repeats_in_row.map(u64::from), 2, 1_000)?;
        within("detect.repeats_in_ten", self.repeats_in_ten.map(u64::from), 2, WINDOW as u64)?;
        within("detect.same_outputs", self.same_outputs.map(u64::from), 2, 1_000)?;
        within("detect.max_tokens", self.max_tokens, 1, TOKENS_MAX)?;
        let tools = self.expect_tools.as_deref().unwrap_or_default();
        within("detect.expect_tools", Some(tools.len() as u64), 0, EXPECTED_TOOLS_MAX)?;
        if tools.iter().any(|tool| tool.is_empty() || tool.len() > LABEL_MAX_BYTES) {
            let must_be = format!("names of 1 to {LABEL_MAX_BYTES} bytes");
            return Err(BadSetting { field: "detect.expect_tools", must_be });
        }
        Ok(())
    }
}

/// What holds for a run's successes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detectors {
    pub empty_output: bool,
    pub require_output: bool,
    pub output_truncated: bool,
    pub content_filtered: bool,
    pub malformed_generation: bool,
    pub paused_turn: bool,
    pub step_cap_answer: bool,
    pub tool_error_as_text: bool,
    pub all_tools_failed: bool,
    pub repeat_call_loop: bool,
    pub repeats_in_row: u32,
    pub repeats_in_ten: u32,
    pub same_outputs: u32,
    pub max_tokens: Option<u64>,
    pub max_cost_usd: Option<Usd>,
    pub output_schema: Option<OutputSchema>,
    pub expect_effect: bool,
    pub expect_tools: Vec<String>,
}

impl Default for Detectors {
    /// On: checks that need only the report. Off: checks that need a declaration.
    fn default() -> Self {
        Self {
            empty_output: true,
            require_output: false,
            output_truncated: true,
            content_filtered: true,
            malformed_generation: true,
            paused_turn: true,
            step_cap_answer: true,
            tool_error_as_text: true,
            all_tools_failed: true,
            repeat_call_loop: true,
            repeats_in_row: 3,
            repeats_in_ten: 6,
            same_outputs: 3,
            max_tokens: None,
            max_cost_usd: None,
            output_schema: None,
            expect_effect: false,
            expect_tools: Vec::new(),
        }
    }
}

impl Detectors {
    pub(super) fn lay(&mut self, layer: &DetectLayer) {
        self.empty_output = layer.empty_output.unwrap_or(self.empty_output);
        self.require_output = layer.require_output.unwrap_or(self.require_output);
        self.output_truncated = layer.output_truncated.unwrap_or(self.output_truncated);
        self.content_filtered = layer.content_filtered.unwrap_or(self.content_filtered);
        self.malformed_generation = layer.malformed_generation.unwrap_or(self.malformed_generation);
        self.paused_turn = layer.paused_turn.unwrap_or(self.paused_turn);
        self.step_cap_answer = layer.step_cap_answer.unwrap_or(self.step_cap_answer);
        self.tool_error_as_text = layer.tool_error_as_text.unwrap_or(self.tool_error_as_text);
        self.all_tools_failed = layer.all_tools_failed.unwrap_or(self.all_tools_failed);
        self.repeat_call_loop = layer.repeat_call_loop.unwrap_or(self.repeat_call_loop);
        self.repeats_in_row = layer.repeats_in_row.unwrap_or(self.repeats_in_row);
        self.repeats_in_ten = layer.repeats_in_ten.unwrap_or(self.repeats_in_ten);
        self.same_outputs = layer.same_outputs.unwrap_or(self.same_outputs);
        self.max_tokens = layer.max_tokens.or(self.max_tokens);
        self.max_cost_usd = layer.max_cost_usd.or(self.max_cost_usd);
        if layer.output_schema.is_some() {
            self.output_schema.clone_from(&layer.output_schema);
        }
        self.expect_effect = layer.expect_effect.unwrap_or(self.expect_effect);
        if let Some(tools) = &layer.expect_tools {
            self.expect_tools.clone_from(tools);
        }
    }
}
