//! Payloads as they lie in the store and as they go out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::wire::RawJson;
use serde_json::value::RawValue;

use super::columns::{Columns, number, packed, packed_json, unexpected};
use crate::commands::life::word;
use crate::error::{Error, Result};
use crate::model::{About, PayloadKind};

/// A payload as it was kept.
#[derive(Debug, Clone)]
pub(crate) struct KeptPayload {
    pub(crate) kind: PayloadKind,
    pub(crate) about: About,
    /// The JSON token or the bytes, as they came.
    pub(crate) bytes: Vec<u8>,
}

impl KeptPayload {
    /// Of a run that came without one, and with nothing else to say.
    pub(crate) fn none() -> Self {
        Self { kind: PayloadKind::None, about: About::default(), bytes: Vec::new() }
    }

    /// The JSON token and the base64 of a payload, whichever it is; neither when none was sent.
    pub(crate) fn into_wire(self) -> Result<(Option<RawJson>, Option<String>)> {
        match self.kind {
            PayloadKind::Json => Ok((Some(raw_json(self.bytes, "payload")?), None)),
            PayloadKind::Bytes => Ok((None, Some(STANDARD.encode(&self.bytes)))),
            PayloadKind::None | PayloadKind::Omitted => Ok((None, None)),
        }
    }
}

pub(crate) fn kept_payload(row: &impl Columns) -> Result<KeptPayload> {
    Ok(KeptPayload {
        kind: word(PayloadKind::ALL, number(row, 0)?, "payload kind")?,
        about: packed_json(row, 1, "about")?,
        bytes: packed(row, 2)?,
    })
}

pub(crate) fn raw_json(bytes: Vec<u8>, what: &str) -> Result<RawJson> {
    let token = String::from_utf8(bytes).map_err(|_| unexpected(what))?;
    RawValue::from_string(token).map_err(|e| Error::Unexpected(format!("{what}: {e}")))
}
