//! A run's attempts, with their bodies.

use std::sync::LazyLock;

use super::columns::{packed_json, whole};
use super::look::Look;
use crate::error::Result;
use crate::kept::attempts::{ENDED, EndedAttempt, ended_attempt, with_late};
use crate::model::AttemptBody;

static OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{ENDED} WHERE run = $1 ORDER BY attempt"));

/// All of them, the first first.
pub(super) async fn ended_attempts(look: &Look<'_>, run: i64) -> Result<Vec<EndedAttempt>> {
    let rows = look.rows(&OF_RUN, &[&run]).await?;
    let mut attempts = rows.iter().map(ended_attempt).collect::<Result<Vec<_>>>()?;
    with_late(&mut attempts, late_failures(look, run).await?);
    Ok(attempts)
}

/// Failures that came after their lease had ended, the oldest first.
async fn late_failures(look: &Look<'_>, run: i64) -> Result<Vec<(u32, AttemptBody)>> {
    let rows = look.rows("SELECT attempt, body FROM late_failures WHERE run = $1 ORDER BY id", &[&run]).await?;
    rows.iter().map(|row| Ok((whole(row, 0, "attempt")?, packed_json(row, 1, "late failure")?))).collect()
}
