//! RFC 9457: what every refusal looks like.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `application/problem+json` with a stable `code` and, beside it, what the code's page in docs/errors names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: String,
    pub detail: String,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
