//! Stored payloads and their form on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::wire::RawJson;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::model::{About, PayloadKind};

/// A payload as it was read.
#[derive(Debug, Clone)]
pub struct StoredPayload {
    pub kind: PayloadKind,
    pub about: About,
    /// The JSON token or the bytes, decoded.
    pub bytes: Vec<u8>,
}

impl StoredPayload {
    /// Of a run without a payload row.
    pub fn none() -> Self {
        Self { kind: PayloadKind::None, about: About::default(), bytes: Vec::new() }
    }

    /// The JSON token or the base64; neither without a payload.
    pub fn into_wire(self) -> Result<(Option<RawJson>, Option<String>)> {
        match self.kind {
            PayloadKind::Json => Ok((Some(raw_json(self.bytes, "payload")?), None)),
            PayloadKind::Bytes => Ok((None, Some(STANDARD.encode(&self.bytes)))),
            PayloadKind::None | PayloadKind::Omitted => Ok((None, None)),
        }
    }
}

pub fn raw_json(bytes: Vec<u8>, what: &str) -> Result<RawJson> {
    let token = String::from_utf8(bytes).map_err(|_| Error::Unexpected(what.to_owned()))?;
    RawValue::from_string(token).map_err(|e| Error::Unexpected(format!("{what}: {e}")))
}
