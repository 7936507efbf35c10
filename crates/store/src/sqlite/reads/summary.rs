//! One run's row as lists show it.

use std::sync::LazyLock;

use redrive_core::wire::RunSummary;
use rusqlite::{Connection, OptionalExtension};

use crate::shared::summary::{SUMMARY, summary_of};
use redrive_engine::error::{Error, PortResult as Result};

static BY_NUMBER: LazyLock<String> = LazyLock::new(|| format!("{SUMMARY} WHERE runs.id = ?"));

/// The runs of these numbers, in their order; one that is gone is left out.
pub(crate) fn summaries(conn: &Connection, numbers: &[i64]) -> Result<Vec<RunSummary>> {
    let mut find = conn.prepare_cached(&BY_NUMBER)?;
    let mut runs = Vec::with_capacity(numbers.len());
    for number in numbers {
        if let Some(row) = find.query([number])?.next()? {
            runs.push(summary_of(row)?);
        }
    }
    Ok(runs)
}

pub(crate) fn summary(conn: &Connection, number: i64) -> Result<RunSummary> {
    let mut find = conn.prepare_cached(&BY_NUMBER)?;
    find.query_row([number], |row| Ok(summary_of(row))).optional()?.ok_or(Error::NotFound("run"))?
}
