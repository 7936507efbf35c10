//! The ledger, to be read.

use redrive_core::wire::EffectView;

use super::look::Look;
use super::lookup::{run_number, tenant_number};
use crate::commands::steps::{COLUMNS, StepRow};
use crate::error::{Error, Result};
use crate::model::{EffectRef, RunRef};

/// Every entry of a run, in the order in which they began.
pub(super) async fn entries_of(look: &Look<'_>, run: i64) -> Result<Vec<StepRow>> {
    let rows = look.rows(&format!("SELECT {COLUMNS} FROM steps WHERE run = $1 ORDER BY id"), &[&run]).await?;
    rows.iter().map(StepRow::read).collect()
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
