//! Payloads as they lie in the store and as they go out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::wire::RawJson;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::model::{About, PayloadKind};

/// A payload as it was kept.
#[derive(Debug, Clone)]
pub struct StoredPayload {
    pub kind: PayloadKind,
    pub about: About,
    /// The JSON token or the bytes, as they came.
    pub bytes: Vec<u8>,
}

impl StoredPayload {
    /// Of a run that came without one, and with nothing else to say.
    pub fn none() -> Self {
        Self { kind: PayloadKind::None, about: About::default(), bytes: Vec::new() }
    }

    /// The JSON token and the base64 of a payload, whichever it is; neither when none was sent.
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
