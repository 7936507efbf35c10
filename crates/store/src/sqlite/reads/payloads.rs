//! Pieces of a run that answers to workers and to people share. Each takes the run's own number.

use crate::shared::records::read_payload;
use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{ErrorReport, RawJson};
use rusqlite::{Connection, OptionalExtension};

pub(crate) use redrive_engine::runs::payload::{StoredPayload, raw_json};

use crate::shared::pages::NEWEST_ATTEMPTS;
use crate::sqlite::reads::columns::packed_json;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::AttemptBody;
use redrive_engine::runs::document::position;

/// The payload of a revision; a run that came without one, and with nothing else to say, has no row for it.
pub(crate) fn payload_of(conn: &Connection, run: i64, revision: u32) -> Result<StoredPayload> {
    let mut find = conn.prepare_cached("SELECT kind, about, body FROM payloads WHERE run = ? AND revision = ?")?;
    let kept = find.query_row([run, revision.into()], |row| Ok(read_payload(row))).optional()?;
    kept.unwrap_or_else(|| Ok(StoredPayload::none()))
}

/// Looked for among the newest, so that a run of a million attempts costs no more than one of a thousand.
static LAST_BODY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT body FROM attempts WHERE run = ?1 AND attempt = (SELECT max(attempt) FROM (SELECT attempt, outcome
             FROM attempts WHERE run = ?1 ORDER BY attempt DESC LIMIT {NEWEST_ATTEMPTS}) AS newest WHERE outcome = ?2)"
    )
});
static LAST_VERDICT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT verdict FROM (SELECT verdict FROM attempts WHERE run = ?1 ORDER BY attempt DESC LIMIT {NEWEST_ATTEMPTS})
             AS newest WHERE verdict IS NOT NULL LIMIT 1"
    )
});

/// What was decided last.
pub(crate) fn last_verdict(conn: &Connection, run: i64) -> Result<Option<Verdict>> {
    let mut find = conn.prepare_cached(&LAST_VERDICT)?;
    let found = find.query_row([run], |row| Ok(packed_json(row, 0, "verdict"))).optional()?;
    found.transpose()
}

/// What the last successful attempt gave.
pub(crate) fn last_output(conn: &Connection, run: i64) -> Result<Option<RawJson>> {
    let mut find = conn.prepare_cached(&LAST_BODY)?;
    let succeeded = position(Outcome::ALL, &Outcome::Succeeded);
    let body: Option<AttemptBody> =
        find.query_row([run, succeeded], |row| Ok(packed_json(row, 0, "attempt"))).optional()?.transpose()?;
    Ok(body.and_then(|body| body.output))
}

/// What the last failed attempt said.
pub(crate) fn last_error(conn: &Connection, run: i64) -> Result<Option<ErrorReport>> {
    let mut find = conn.prepare_cached(&LAST_BODY)?;
    let failed = position(Outcome::ALL, &Outcome::Failed);
    let body: Option<AttemptBody> =
        find.query_row([run, failed], |row| Ok(packed_json(row, 0, "attempt"))).optional()?.transpose()?;
    Ok(body.and_then(|body| body.error))
}
