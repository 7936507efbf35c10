//! Later revisions of a payload. The first one is never overwritten.

use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::model::About;
use crate::model::triage::FixedPayload;
use crate::ports::rows::NewRevision;
use crate::runs::attempts::json;
use crate::runs::run_row::RunRow;
use crate::tx::Tx;

/// Stores the payload of `row`'s new revision; the rest of the payload's document stays.
pub fn keep_revision(tx: &mut Tx<'_>, row: &mut RunRow, fix: &FixedPayload, actor: &str) -> Result<()> {
    let about = About { payload_omitted: None, ..about_of(tx, row.id, fix.from_revision)? };
    let made = NewRevision {
        run: row.id,
        revision: row.run.revision,
        payload: &fix.payload,
        about: encode(json(&about)?.as_bytes()),
        actor,
        patch: fix.patch.as_deref(),
    };
    tx.rows.insert_revision(&made, tx.now)?;
    row.payload_bytes = Some(fix.payload.bytes());
    Ok(())
}

/// The document stored with a run's payload.
pub fn about_of(tx: &mut Tx<'_>, run: i64, revision: u32) -> Result<About> {
    match tx.rows.about_of(run, revision)?.filter(|about| !about.is_empty()) {
        Some(about) => serde_json::from_slice(&decode(&about)?).map_err(|e| Error::Unexpected(format!("about: {e}"))),
        None => Ok(About::default()),
    }
}
