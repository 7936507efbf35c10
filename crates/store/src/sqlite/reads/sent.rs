//! What attempts got in place of their revision's payload, read by people who want to see the difference.

use redrive_core::wire::{HandedChange, RawJson};
use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::reads::columns::{json, packed, packed_json, text, whole};
use crate::sqlite::reads::lookup::run_number;
use crate::sqlite::reads::payloads::{payload_of, raw_json};
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{AttemptOrigin, DETAIL_PAGE_MAX, RunRef, SentPayload};
use redrive_engine::runs::document::RunDocument;

/// A payload in place of the revision's, with its changes.
pub(crate) type StoredAttempt = (Vec<HandedChange>, RawJson);

/// What went out under that lease, where it was another payload.
pub(crate) fn kept(conn: &Connection, run: i64, attempt: u32, epoch: Option<u64>) -> Result<Option<StoredAttempt>> {
    let mut find = conn.prepare_cached(
        "SELECT changes, body FROM sent WHERE run = ?1 AND attempt = ?2 AND (?3 IS NULL OR epoch = ?3)",
    )?;
    let mut rows = find.query(params![run, attempt, epoch.map(u64::cast_signed)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some((packed_json(row, 0, "changes")?, raw_json(packed(row, 1)?, "sent")?)))
}

/// The attempts of a run that got another payload, from one on.
pub(crate) fn changed_attempts(conn: &Connection, run: i64, from: u32) -> Result<Vec<u32>> {
    let mut find =
        conn.prepare_cached("SELECT attempt FROM sent WHERE run = ?1 AND attempt >= ?2 ORDER BY attempt LIMIT ?3")?;
    find.query_and_then([run, from.into(), i64::from(DETAIL_PAGE_MAX) + 1], |row| whole(row, 0, "attempt"))?.collect()
}

/// What an attempt got, and what that was made of.
pub(crate) fn sent(conn: &Connection, at: &RunRef, attempt: u32) -> Result<SentPayload> {
    let run = run_number(conn, at)?;
    let revision = revision_of(conn, run, attempt)?.ok_or(Error::NotFound("attempt"))?;
    let (changes, sent) = kept(conn, run, attempt, None)?.map_or((Vec::new(), None), |(c, body)| (c, Some(body)));
    let (original, original_base64) = payload_of(conn, run, revision)?.into_wire()?;
    Ok(SentPayload { attempt, revision, changes, sent, original, original_base64 })
}

/// The revision that an attempt ran: as it was kept, or for the one under way as the run stands.
fn revision_of(conn: &Connection, run: i64, attempt: u32) -> Result<Option<u32>> {
    let mut ended = conn.prepare_cached("SELECT origin FROM attempts WHERE run = ? AND attempt = ?")?;
    let mut rows = ended.query([run, attempt.into()])?;
    if let Some(row) = rows.next()? {
        let origin: AttemptOrigin = json(text(row, 0)?, "origin")?;
        return Ok(Some(origin.revision));
    }
    let mut standing = conn.prepare_cached("SELECT revision, life FROM runs WHERE id = ? AND attempt = ?")?;
    let found = standing.query_row(params![run, attempt], |row| {
        Ok(whole(row, 0, "revision").and_then(|revision| Ok((revision, json::<RunDocument>(text(row, 1)?, "life")?))))
    });
    let under_way = found.optional()?.transpose()?;
    Ok(under_way.filter(|(_, life)| life.lease.is_some()).map(|(revision, _)| revision))
}
