//! What attempts got in place of their revision's payload, read again by people who want to see the difference.

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{json, packed, packed_json, text, whole};
use crate::postgres::reads::lookup::run_number;
use crate::postgres::reads::payloads::payload_of;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{AttemptOrigin, DETAIL_PAGE_MAX, RunRef, SentPayload};
use redrive_engine::runs::document::RunDocument;
use redrive_engine::runs::payload::raw_json;

/// The attempts of a run that got another payload, from one on.
pub(crate) async fn changed_attempts(snapshot: &Snapshot<'_>, run: i64, from: u32) -> Result<Vec<u32>> {
    let sql = "SELECT attempt FROM sent WHERE run = $1 AND attempt >= $2 ORDER BY attempt LIMIT $3";
    let rows = snapshot.rows(sql, &[&run, &i64::from(from), &(i64::from(DETAIL_PAGE_MAX) + 1)]).await?;
    rows.iter().map(|row| whole(row, 0, "attempt")).collect()
}

/// What an attempt got, and what that was made of.
pub(crate) async fn sent(snapshot: &Snapshot<'_>, at: &RunRef, attempt: u32) -> Result<SentPayload> {
    let run = run_number(snapshot, at).await?;
    let revision = revision_of(snapshot, run, attempt).await?.ok_or(Error::NotFound("attempt"))?;
    let sql = "SELECT changes, body FROM sent WHERE run = $1 AND attempt = $2";
    let kept = snapshot.row(sql, &[&run, &i64::from(attempt)]).await?;
    let (changes, sent) = match kept {
        Some(row) => (packed_json(&row, 0, "changes")?, Some(raw_json(packed(&row, 1)?, "sent")?)),
        None => (Vec::new(), None),
    };
    let (original, original_base64) = payload_of(snapshot, run, revision).await?.into_wire()?;
    Ok(SentPayload { attempt, revision, changes, sent, original, original_base64 })
}

/// The revision that an attempt ran: as it was kept, or for the one under way as the run stands.
async fn revision_of(snapshot: &Snapshot<'_>, run: i64, attempt: u32) -> Result<Option<u32>> {
    let sql = "SELECT origin FROM attempts WHERE run = $1 AND attempt = $2";
    let ended = snapshot.row(sql, &[&run, &i64::from(attempt)]).await?;
    if let Some(row) = ended {
        let origin: AttemptOrigin = json(text(&row, 0)?, "origin")?;
        return Ok(Some(origin.revision));
    }
    let sql = "SELECT revision, life FROM runs WHERE id = $1 AND attempt = $2";
    let Some(row) = snapshot.row(sql, &[&run, &i64::from(attempt)]).await? else { return Ok(None) };
    let life: RunDocument = json(text(&row, 1)?, "life")?;
    let revision = whole(&row, 0, "revision")?;
    Ok(life.lease.is_some().then_some(revision))
}
