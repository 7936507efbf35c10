//! Pieces of a run that answers to workers and to people share. Each takes the run's own number.

use super::look::Look;
use crate::kept::records::kept_payload;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::payload::KeptPayload;

/// The payload of a revision; a run that came without one, and with nothing else to say, has no row for it.
pub(super) async fn payload_of(look: &Look<'_>, run: i64, revision: u32) -> Result<KeptPayload> {
    let sql = "SELECT kind, about, body FROM payloads WHERE run = $1 AND revision = $2";
    let kept = look.row(sql, &[&run, &i64::from(revision)]).await?;
    kept.map_or_else(|| Ok(KeptPayload::none()), |row| kept_payload(&row))
}
