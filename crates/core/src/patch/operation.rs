//! One operation as it is sent and kept.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::text::Text;
use crate::wire::RawJson;
use crate::wire::bounds::POINTER_MAX_BYTES;
use crate::words::words;

words! {
    pub enum PatchOp {
        Add = "add",
        Remove = "remove",
        Replace = "replace",
        Move = "move",
        Copy = "copy",
        Test = "test",
    }
}

/// One operation of a JSON Patch. Stricter than the RFC: a member that it does not know is refused, not ignored.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    pub op: PatchOp,
    /// JSON Pointer (RFC 6901).
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub path: Text,
    /// With move and copy: where from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = POINTER_MAX_BYTES))]
    pub from: Option<Text>,
    /// With add, replace and test; kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(extend("x-bounded-by" = "body_max_bytes"), with = "Option<serde_json::Value>")]
    pub value: Option<RawJson>,
}

/// A value that is there, `null` included: serde itself would take that for an absent one.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}
