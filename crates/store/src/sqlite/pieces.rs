//! Pieces of a run that answers to workers and to people share. Each takes the run's own number.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::lifecycle::Outcome;
use redrive_core::wire::{ErrorReport, RawJson};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::value::RawValue;

use super::columns::{packed, packed_json, unexpected};
use super::life::{position, word};
use super::lookup::{numbered, span_of};
use crate::error::{Error, Result};
use crate::model::{About, AttemptBody, PayloadKind};

/// A payload as it was kept.
#[derive(Debug, Clone)]
pub(super) struct KeptPayload {
    pub(super) kind: PayloadKind,
    pub(super) about: About,
    /// The JSON token or the bytes, as they came.
    pub(super) bytes: Vec<u8>,
}

impl KeptPayload {
    /// The JSON token and the base64 of a payload, whichever it is; neither when none was sent.
    pub(super) fn into_wire(self) -> Result<(Option<RawJson>, Option<String>)> {
        match self.kind {
            PayloadKind::Json => Ok((Some(raw_json(self.bytes, "payload")?), None)),
            PayloadKind::Bytes => Ok((None, Some(STANDARD.encode(&self.bytes)))),
            PayloadKind::None | PayloadKind::Omitted => Ok((None, None)),
        }
    }
}

/// The payload of a revision; a run that came without one, and with nothing else to say, has no row for it.
pub(super) fn payload_of(conn: &Connection, run: i64, revision: u32) -> Result<KeptPayload> {
    let mut find = conn.prepare_cached("SELECT kind, about, body FROM payloads WHERE id = ?")?;
    let kept = find.query_row([numbered(run, revision)], |row| Ok(kept_payload(row))).optional()?;
    kept.unwrap_or_else(|| Ok(KeptPayload { kind: PayloadKind::None, about: About::default(), bytes: Vec::new() }))
}

fn kept_payload(row: &Row<'_>) -> Result<KeptPayload> {
    Ok(KeptPayload {
        kind: word(PayloadKind::ALL, row.get(0)?, "payload kind")?,
        about: packed_json(row, 1, "about")?,
        bytes: packed(row, 2)?,
    })
}

pub(super) fn raw_json(bytes: Vec<u8>, what: &str) -> Result<RawJson> {
    let token = String::from_utf8(bytes).map_err(|_| unexpected(what))?;
    RawValue::from_string(token).map_err(|e| Error::Unexpected(format!("{what}: {e}")))
}

/// What the last successful attempt gave.
pub(super) fn last_output(conn: &Connection, run: i64) -> Result<Option<RawJson>> {
    let (first, last) = span_of(run);
    let mut find = conn.prepare_cached(
        "SELECT body FROM attempts WHERE id BETWEEN ? AND ? AND outcome = ? ORDER BY id DESC LIMIT 1",
    )?;
    let succeeded = position(Outcome::ALL, &Outcome::Succeeded);
    let body: Option<AttemptBody> = find
        .query_row(params![first, last, succeeded], |row| Ok(packed_json(row, 0, "attempt")))
        .optional()?
        .transpose()?;
    Ok(body.and_then(|body| body.output))
}

/// What the last failed attempt said.
pub(super) fn last_error(conn: &Connection, run: i64) -> Result<Option<ErrorReport>> {
    let (first, last) = span_of(run);
    let mut find = conn.prepare_cached(
        "SELECT body FROM attempts WHERE id BETWEEN ? AND ? AND outcome = ? ORDER BY id DESC LIMIT 1",
    )?;
    let failed = position(Outcome::ALL, &Outcome::Failed);
    let body: Option<AttemptBody> = find
        .query_row(params![first, last, failed], |row| Ok(packed_json(row, 0, "attempt")))
        .optional()?
        .transpose()?;
    Ok(body.and_then(|body| body.error))
}
