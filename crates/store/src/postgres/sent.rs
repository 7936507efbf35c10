//! What attempts got in place of their revision's payload, read again by people who want to see the difference.

use super::columns::{json, number, packed, packed_json, text, whole};
use super::look::Look;
use super::lookup::{number_of, numbered, run_number, span_of};
use super::pieces::payload_of;
use crate::commands::life::Life;
use crate::error::{Error, Result};
use crate::kept::payload::raw_json;
use crate::model::{AttemptOrigin, RunRef, Sent};

/// The attempts of a run that got another payload.
pub(super) async fn changed_attempts(look: &Look<'_>, run: i64) -> Result<Vec<u32>> {
    let (first, last) = span_of(run);
    let rows = look.rows("SELECT id FROM sent WHERE id BETWEEN $1 AND $2", &[&first, &last]).await?;
    rows.iter().map(|row| number_of(number(row, 0)?)).collect()
}

/// What an attempt got, and what that was made of.
pub(super) async fn sent(look: &Look<'_>, at: &RunRef, attempt: u32) -> Result<Sent> {
    let run = run_number(look, at).await?;
    let revision = revision_of(look, run, attempt).await?.ok_or(Error::NotFound("attempt"))?;
    let kept = look.row("SELECT changes, body FROM sent WHERE id = $1", &[&numbered(run, attempt)]).await?;
    let (changes, sent) = match kept {
        Some(row) => (packed_json(&row, 0, "changes")?, Some(raw_json(packed(&row, 1)?, "sent")?)),
        None => (Vec::new(), None),
    };
    let (original, original_base64) = payload_of(look, run, revision).await?.into_wire()?;
    Ok(Sent { attempt, revision, changes, sent, original, original_base64 })
}

/// The revision that an attempt ran: as it was kept, or for the one under way as the run stands.
async fn revision_of(look: &Look<'_>, run: i64, attempt: u32) -> Result<Option<u32>> {
    let ended = look.row("SELECT origin FROM attempts WHERE id = $1", &[&numbered(run, attempt)]).await?;
    if let Some(row) = ended {
        let origin: AttemptOrigin = json(text(&row, 0)?, "origin")?;
        return Ok(Some(origin.revision));
    }
    let sql = "SELECT revision, life FROM runs WHERE id = $1 AND attempt = $2";
    let Some(row) = look.row(sql, &[&run, &i64::from(attempt)]).await? else { return Ok(None) };
    let life: Life = json(text(&row, 1)?, "life")?;
    let revision = whole(&row, 0, "revision")?;
    Ok(life.lease.is_some().then_some(revision))
}
