//! Pieces of a run that answers to workers and to people share. Each takes the run's own number.

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::records::read_payload;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::payload::StoredPayload;

/// The payload of a revision; a run that came without one, and with nothing else to say, has no row for it.
pub(crate) async fn payload_of(snapshot: &Snapshot<'_>, run: i64, revision: u32) -> Result<StoredPayload> {
    let sql = "SELECT kind, about, body FROM payloads WHERE run = $1 AND revision = $2";
    let kept = snapshot.row(sql, &[&run, &i64::from(revision)]).await?;
    kept.map_or_else(|| Ok(StoredPayload::none()), |row| read_payload(&row))
}
