//! What happened to a run: moves that are not attempts, merged with the attempts.

use std::sync::LazyLock;

use redrive_core::time::Timestamp;
use redrive_core::wire::HistoryEntry;

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::history::{ENDS, MOVES, ended, moved};
use crate::shared::pages::{Before, history};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::RunRef;

static ENDED: LazyLock<String> =
    LazyLock::new(|| format!("{ENDS} WHERE run = $1 AND attempt < $2 ORDER BY attempt DESC LIMIT $3"));
static MOVED: LazyLock<String> =
    LazyLock::new(|| format!("{MOVES} WHERE run = $1 AND id < $2 ORDER BY id DESC LIMIT $3"));

/// A page of it, and where the next one begins.
pub(crate) async fn history_of(
    snapshot: &Snapshot<'_>,
    run: i64,
    at: &RunRef,
    received_at: Timestamp,
    before: &Before,
) -> Result<(Vec<HistoryEntry>, Option<String>)> {
    let [attempt, id] = before.history;
    let ends = snapshot.rows(&ENDED, &[&run, &attempt, &before.rows()]).await?;
    let moves = snapshot.rows(&MOVED, &[&run, &id, &before.rows()]).await?;
    let ends = ends.iter().map(ended).collect::<Result<Vec<_>>>()?;
    let moves = moves.iter().map(moved).collect::<Result<Vec<_>>>()?;
    Ok(history(before, at, received_at, ends, moves))
}
