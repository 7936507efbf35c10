//! The ledger, to be read.

use crate::shared::records::{
    Record as _, STEP_COLUMNS, STEP_SIZES, STEP_VERSIONS, STEP_VERSIONS_MAX, recorded_versions,
};
use redrive_core::wire::Versions;

use crate::postgres::connection::snapshot::Snapshot;
use crate::shared::pages::{Before, Page};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ledger::steps::StepRow;

/// Every entry of a run, in the order in which they began.
pub(crate) async fn entries_of(snapshot: &Snapshot<'_>, run: i64) -> Result<Vec<StepRow>> {
    let rows = snapshot.rows(&format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = $1 ORDER BY id"), &[&run]).await?;
    rows.iter().map(StepRow::read).collect()
}

/// The entries of a page, in the order in which they began. Its own are found first, so that no plan walks those of others.
pub(crate) async fn page_of(snapshot: &Snapshot<'_>, run: i64, before: &Before) -> Result<(Page, Vec<StepRow>)> {
    let sql = format!(
        "{STEP_SIZES} WHERE id = ANY(ARRAY(SELECT id FROM (SELECT id FROM steps WHERE run = $1 OFFSET 0) AS own
             WHERE id < $2 ORDER BY id DESC LIMIT $3)) ORDER BY id DESC"
    );
    let page = Page::of(&snapshot.rows(&sql, &[&run, &before.step, &before.rows()]).await?, before.limit)?;
    if page.places.is_empty() {
        return Ok((page, Vec::new()));
    }
    let sql = format!("SELECT {STEP_COLUMNS} FROM steps WHERE id = ANY($1) ORDER BY id");
    let entries = snapshot.rows(&sql, &[&page.places]).await?.iter().map(StepRow::read).collect::<Result<_>>()?;
    Ok((page, entries))
}

/// The versions under which all was recorded_versions that a replay of the run would skip.
pub(crate) async fn recorded_of(snapshot: &Snapshot<'_>, run: i64) -> Result<Vec<Versions>> {
    let sql = format!("{STEP_VERSIONS} WHERE run = $1 AND versions IS NOT NULL LIMIT $2");
    let found = snapshot
        .rows(&sql, &[&run, &STEP_VERSIONS_MAX])
        .await?
        .iter()
        .map(recorded_versions)
        .collect::<Result<Vec<_>>>()?;
    Ok(found.into_iter().flatten().collect())
}
