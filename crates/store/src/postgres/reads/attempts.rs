//! A page of a run's attempts, with their bodies.

use std::sync::LazyLock;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{packed_json, whole};
use crate::shared::attempts::{ENDED, EndedAttempt, LATE_SIZES, SIZES, ended_attempt, with_late};
use crate::shared::pages::{Before, Page};
use redrive_engine::error::PortResult as Result;

static OLDER: LazyLock<String> =
    LazyLock::new(|| format!("{SIZES} WHERE run = $1 AND attempt < $2 ORDER BY attempt DESC LIMIT $3"));
static OF_PAGE: LazyLock<String> =
    LazyLock::new(|| format!("{ENDED} WHERE run = $1 AND attempt BETWEEN $2 AND $3 ORDER BY attempt"));
static LATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{LATE_SIZES} WHERE id = ANY(ARRAY(SELECT max(id) FROM late_failures
             WHERE run = $1 AND attempt BETWEEN $2 AND $3 GROUP BY attempt)) ORDER BY id DESC"
    )
});

/// Those of the page, the first first.
pub(crate) async fn ended_attempts(
    snapshot: &Snapshot<'_>,
    run: i64,
    before: &Before,
) -> Result<(Page, Vec<EndedAttempt>)> {
    let page = Page::of(&snapshot.rows(&OLDER, &[&run, &before.attempt, &before.rows()]).await?, before.limit)?;
    let Some((first, last)) = page.span() else { return Ok((page, Vec::new())) };
    let rows = snapshot.rows(&OF_PAGE, &[&run, &first, &last]).await?;
    let mut attempts = rows.iter().map(ended_attempt).collect::<Result<Vec<_>>>()?;
    // The newest that came after its lease had ended, of each.
    let late = Page::of(&snapshot.rows(&LATE, &[&run, &first, &last]).await?, before.limit)?;
    if !late.places.is_empty() {
        let rows = snapshot.rows("SELECT attempt, body FROM late_failures WHERE id = ANY($1)", &[&late.places]).await?;
        let read = rows.iter().map(|row| Ok((whole(row, 0, "attempt")?, packed_json(row, 1, "late failure")?)));
        with_late(&mut attempts, read.collect::<Result<Vec<_>>>()?);
    }
    Ok((page, attempts))
}
