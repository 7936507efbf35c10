//! Keys: never the secret, only its hash.

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::keys::{KEYS, key_of};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::KeyRecord;

/// All keys, the oldest first.
pub(crate) async fn list_keys(snapshot: &Snapshot<'_>) -> Result<Vec<KeyRecord>> {
    snapshot.rows(&format!("{KEYS} ORDER BY created_at, id"), &[]).await?.iter().map(key_of).collect()
}

/// Also finds keys that are revoked or expired: whoever asks decides what that means.
pub(crate) async fn key_by_hash(snapshot: &Snapshot<'_>, hash: &[u8; 32]) -> Result<Option<KeyRecord>> {
    let found = snapshot.row(&format!("{KEYS} WHERE hash = $1"), &[&hash.as_slice()]).await?;
    found.map(|row| key_of(&row)).transpose()
}
