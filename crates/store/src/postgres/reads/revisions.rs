//! Later revisions of a payload, as people read them.

use redrive_core::wire::RevisionView;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{owned, packed_json_or_none, time};
use crate::postgres::reads::lookup::run_number;
use crate::postgres::reads::payloads::payload_of;
use crate::postgres::reads::summary::summary;
use crate::shared::history::REPORTER;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunRef;

/// `GET …/revisions/{revision}`.
pub(crate) async fn revision(snapshot: &Snapshot<'_>, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
    let run = run_number(snapshot, at).await?;
    let summary = summary(snapshot, run).await?;
    let revision = revision.unwrap_or(summary.revision);
    if !(1..=summary.revision).contains(&revision) {
        return Err(Error::NotFound("revision").into());
    }
    let sql = "SELECT at, actor, patch FROM revisions WHERE run = $1 AND revision = $2";
    let made = snapshot.row(sql, &[&run, &i64::from(revision)]).await?;
    let (at, actor, json_patch) = match made {
        Some(row) => (time(&row, 0)?, owned(&row, 1)?, packed_json_or_none(&row, 2, "patch")?),
        None => (summary.received_at, REPORTER.to_owned(), None),
    };
    let (payload, payload_base64) = payload_of(snapshot, run, revision).await?.into_wire()?;
    Ok(RevisionView {
        run_id: summary.run_id,
        tenant: summary.tenant,
        revision,
        at,
        actor,
        payload,
        payload_base64,
        json_patch,
    })
}
