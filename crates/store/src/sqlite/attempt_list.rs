//! A run's attempts, with their bodies.

use std::sync::LazyLock;

use rusqlite::Connection;

pub(super) use crate::kept::attempts::EndedAttempt;

use super::columns::{packed_json, whole};
use crate::error::{Error, Result};
use crate::kept::attempts::{ENDED, ended_attempt, with_late};
use crate::model::AttemptBody;

static OF_RUN: LazyLock<String> = LazyLock::new(|| format!("{ENDED} WHERE run = ? ORDER BY attempt"));

/// All of them, the first first.
pub(super) fn ended_attempts(conn: &Connection, run: i64) -> Result<Vec<EndedAttempt>> {
    let mut find = conn.prepare_cached(&OF_RUN)?;
    let found = find.query_and_then([run], |row| ended_attempt(row))?;
    let mut attempts = found.collect::<Result<Vec<_>>>()?;
    with_late(&mut attempts, late_failures(conn, run)?);
    Ok(attempts)
}

/// Failures that came after their lease had ended, the oldest first.
fn late_failures(conn: &Connection, run: i64) -> Result<Vec<(u32, AttemptBody)>> {
    let mut find = conn.prepare_cached("SELECT attempt, body FROM late_failures WHERE run = ? ORDER BY id")?;
    let found = find.query_and_then([run], |row| {
        Ok::<_, Error>((whole(row, 0, "attempt")?, packed_json(row, 1, "late failure")?))
    })?;
    found.collect()
}
