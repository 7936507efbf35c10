//! The ledger, to be read.

use redrive_core::wire::{EffectView, Versions};

use super::look::Look;
use super::lookup::{run_number, tenant_number};
use crate::commands::steps::{COLUMNS, RECORDED, RECORDED_MAX, SIZES, StepRow, recorded};
use crate::error::{Error, Result};
use crate::kept::pages::{Before, Page};
use crate::model::{EffectRef, RunRef};

/// Every entry of a run, in the order in which they began.
pub(super) async fn entries_of(look: &Look<'_>, run: i64) -> Result<Vec<StepRow>> {
    let rows = look.rows(&format!("SELECT {COLUMNS} FROM steps WHERE run = $1 ORDER BY id"), &[&run]).await?;
    rows.iter().map(StepRow::read).collect()
}

/// The entries of a page, in the order in which they began. Its own are found first, so that no plan walks those of others.
pub(super) async fn page_of(look: &Look<'_>, run: i64, before: &Before) -> Result<(Page, Vec<StepRow>)> {
    let sql = format!(
        "{SIZES} WHERE id = ANY(ARRAY(SELECT id FROM (SELECT id FROM steps WHERE run = $1 OFFSET 0) AS own
             WHERE id < $2 ORDER BY id DESC LIMIT $3)) ORDER BY id DESC"
    );
    let page = Page::of(&look.rows(&sql, &[&run, &before.step, &before.rows()]).await?, before.limit)?;
    if page.places.is_empty() {
        return Ok((page, Vec::new()));
    }
    let sql = format!("SELECT {COLUMNS} FROM steps WHERE id = ANY($1) ORDER BY id");
    let entries = look.rows(&sql, &[&page.places]).await?.iter().map(StepRow::read).collect::<Result<_>>()?;
    Ok((page, entries))
}

/// The versions under which all was recorded that a replay of the run would skip.
pub(super) async fn recorded_of(look: &Look<'_>, run: i64) -> Result<Vec<Versions>> {
    let sql = format!("{RECORDED} WHERE run = $1 AND versions IS NOT NULL LIMIT $2");
    let found = look.rows(&sql, &[&run, &RECORDED_MAX]).await?.iter().map(recorded).collect::<Result<Vec<_>>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// `GET /v1/effects/{key}`: by its run, where one is named; otherwise the effect that holds the key, or the last one
/// that gave it up.
pub(super) async fn effect(look: &Look<'_>, at: &EffectRef) -> Result<EffectView> {
    let missing = || Error::NotFound("effect");
    let tenant = tenant_number(look, &at.tenant).await?.ok_or_else(missing)?;
    let key = at.key.as_str();
    let found = match &at.run_id {
        None => named(look, tenant, key).await?,
        Some(run_id) => {
            let run = RunRef { tenant: at.tenant.clone(), run_id: run_id.clone() };
            match run_number(look, &run).await {
                Ok(run) => of_run(look, run, key).await?,
                // The run may be gone, and what it did is still known.
                Err(Error::NotFound(_)) => named(look, tenant, key).await?.filter(|f| f.run_id == run_id.as_str()),
                Err(error) => return Err(error),
            }
        }
    };
    found.ok_or_else(missing)?.whole(at.tenant.as_str())
}

async fn of_run(look: &Look<'_>, run: i64, key: &str) -> Result<Option<StepRow>> {
    let sql = format!("SELECT {COLUMNS} FROM steps WHERE run = $1 AND key = $2");
    look.row(&sql, &[&run, &key]).await?.map(|row| StepRow::read(&row)).transpose()
}

/// Who holds the key comes before whoever gave it up last.
async fn named(look: &Look<'_>, tenant: i64, key: &str) -> Result<Option<StepRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM steps WHERE tenant = $1 AND key = $2 AND effect = 1 AND named = 1
         ORDER BY holds DESC, at DESC, id DESC LIMIT 1"
    );
    look.row(&sql, &[&tenant, &key]).await?.map(|row| StepRow::read(&row)).transpose()
}
