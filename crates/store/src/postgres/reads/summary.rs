//! One run's row as lists show it.

use std::sync::LazyLock;

use redrive_core::wire::RunSummary;

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::summary::{SUMMARY, summary_of};
use redrive_engine::error::{Error, PortResult as Result};

/// In the order of the numbers asked for.
static BY_NUMBERS: LazyLock<String> =
    LazyLock::new(|| format!("{SUMMARY} WHERE runs.id = ANY($1) ORDER BY array_position($1, runs.id)"));

/// The runs of these numbers, in their order; one that is gone is left out.
pub(crate) async fn summaries(snapshot: &Snapshot<'_>, numbers: &[i64]) -> Result<Vec<RunSummary>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    snapshot.rows(&BY_NUMBERS, &[&numbers]).await?.iter().map(summary_of).collect()
}

pub(crate) async fn summary(snapshot: &Snapshot<'_>, number: i64) -> Result<RunSummary> {
    summaries(snapshot, &[number]).await?.pop().ok_or(Error::NotFound("run").into())
}
