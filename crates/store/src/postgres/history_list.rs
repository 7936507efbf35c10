//! What happened to a run: moves that are not attempts, merged with the attempts.

use std::sync::LazyLock;

use redrive_core::time::Timestamp;
use redrive_core::wire::HistoryEntry;

use super::look::Look;
use crate::error::Result;
use crate::kept::attempts::EndedAttempt;
use crate::kept::history::{MOVES, entry, merged};

static OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{MOVES} WHERE run = $1 ORDER BY id"));

pub(super) async fn history_of(
    look: &Look<'_>,
    run: i64,
    received_at: Timestamp,
    attempts: &[EndedAttempt],
) -> Result<Vec<HistoryEntry>> {
    let moves = look.rows(&OF_RUN, &[&run]).await?.iter().map(entry).collect::<Result<Vec<_>>>()?;
    Ok(merged(received_at, attempts, moves))
}
