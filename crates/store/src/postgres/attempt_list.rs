//! A run's attempts, with their bodies.

use std::sync::LazyLock;

use super::columns::{number, packed_json};
use super::look::Look;
use super::lookup::{number_of, span_of};
use crate::error::Result;
use crate::kept::attempts::{ENDED, EndedAttempt, ended_attempt, with_late};
use crate::model::AttemptBody;

static OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{ENDED} WHERE id BETWEEN $1 AND $2 ORDER BY id"));

/// All of them, the first first.
pub(super) async fn ended_attempts(look: &Look<'_>, run: i64) -> Result<Vec<EndedAttempt>> {
    let (first, last) = span_of(run);
    let rows = look.rows(&OF_RUN, &[&first, &last]).await?;
    let mut attempts = rows.iter().map(ended_attempt).collect::<Result<Vec<_>>>()?;
    with_late(&mut attempts, late_failures(look, run).await?);
    Ok(attempts)
}

/// Failures that came after their lease had ended, the oldest first.
async fn late_failures(look: &Look<'_>, run: i64) -> Result<Vec<(u32, AttemptBody)>> {
    let (first, last) = span_of(run);
    let sql = "SELECT attempt, body FROM late_failures WHERE attempt BETWEEN $1 AND $2 ORDER BY id";
    let rows = look.rows(sql, &[&first, &last]).await?;
    rows.iter().map(|row| Ok((number_of(number(row, 0)?)?, packed_json(row, 1, "late failure")?))).collect()
}
