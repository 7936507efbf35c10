//! Will it fit, and what did an attempt get: the bodies of `/v1/preflight` and `…/attempts/{n}/sent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{QueueName, RunId, Tenant};
use crate::json::Operation;
use crate::preflight::{Budget, Checked, Estimate, Part, PreflightVerdict};
use crate::text::Label;
use crate::wire::{HandedChange, RawJson, bounds};

/// `POST /v1/preflight`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreflightRequest {
    #[serde(default)]
    pub tenant: Option<Tenant>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free")]
    pub payload: Option<RawJson>,
    #[serde(default)]
    #[schemars(schema_with = "bounds::free_text")]
    pub payload_base64: Option<String>,
    /// Absent: the one that the request itself names.
    #[serde(default)]
    pub model: Option<Label>,
    /// Whose settings say how the payload is read.
    #[serde(default)]
    pub queue: Option<QueueName>,
    /// Absent: as the request itself says.
    #[serde(default)]
    #[schemars(range(max = bounds::TOKENS_MAX))]
    pub max_output_tokens: Option<u64>,
    /// A run whose last real count of tokens corrects the estimate.
    #[serde(default)]
    pub run_id: Option<RunId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightAnswer {
    pub verdict: PreflightVerdict,
    /// The verdict in a sentence.
    pub why: String,
    pub estimate: Estimate,
    /// What the model takes; none when nobody here knows it.
    pub budget: Option<Budget>,
    pub model: Option<String>,
    /// What would be left of a request with everything left out that may be; none when the payload's shape is not known.
    pub floor_tokens: Option<u64>,
    /// The largest parts, the largest first.
    pub parts: Vec<Part>,
    pub largest: Option<Part>,
    /// Models that would take it, the smallest window first.
    pub fits: Vec<String>,
    /// In how many pieces it would fit.
    pub split_into: Option<u64>,
    /// The run whose real count corrected the estimate.
    pub calibrated_by: Option<RunId>,
}

impl PreflightAnswer {
    pub fn of(found: Checked, calibrated_by: Option<RunId>) -> Self {
        let Checked { verdict, why, estimate, budget, model, floor_tokens, parts, fits, split_into, compress_to: _ } =
            found;
        let largest = parts.first().cloned();
        Self { verdict, why, estimate, budget, model, floor_tokens, parts, largest, fits, split_into, calibrated_by }
    }
}

/// What a start says about a payload that may not fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreflightBrief {
    pub verdict: PreflightVerdict,
    pub why: String,
    pub estimate: Estimate,
    pub budget: Option<Budget>,
}

/// What an attempt got: `GET /v1/runs/{run_id}/attempts/{attempt}/sent`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SentAnswer {
    pub run_id: RunId,
    pub tenant: Tenant,
    pub attempt: u32,
    pub revision: u32,
    /// The payload is not the revision's as it is.
    pub changed: bool,
    pub changes: Vec<HandedChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<RawJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// What is different from the revision's payload, by JSON pointer; long values are cut.
    pub diff: Vec<Operation>,
    /// There is more than the list holds.
    pub diff_cut: bool,
}
