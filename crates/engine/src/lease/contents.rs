//! What a run carries when it is handed to a worker, put together from what was read after the commit that granted it.

use redrive_core::verdict::Change;
use redrive_core::wire::{ErrorReport, HandedChange, LeasedRun};

use crate::error::Result;
use crate::lease::grant::GrantedLease;
use crate::ledger::steps::{StepRow, changed, views};
use crate::runs::payload::StoredPayload;
use crate::runs::run_row::RunRow;

/// The trace link, where the producer gave one.
const TRACE: &str = "trace";
/// Longer errors are cut: what a stranger wrote must not fill the next attempt's context.
const LAST_ERROR_MAX_BYTES: usize = 2_000;

/// What was read of a run for its worker.
pub struct RunContents {
    pub payload: StoredPayload,
    pub entries: Vec<StepRow>,
    /// Read only where [`wants_last_error`].
    pub last_error: Option<ErrorReport>,
}

impl GrantedLease {
    pub fn carrying(self, carried: RunContents) -> Result<LeasedRun> {
        let RunContents { payload: kept, entries, last_error } = carried;
        let about = kept.about.clone();
        let (payload, payload_base64) = kept.into_wire()?;
        Ok(LeasedRun {
            run_id: self.run_id,
            tenant: self.tenant,
            queue: self.queue,
            agent: self.agent,
            model: self.model,
            attempt: self.attempt,
            revision: self.revision,
            replay: self.replay,
            lease: self.lease.to_string(),
            lease_expires_at: self.lease_expires_at,
            payload,
            payload_base64,
            content_type: about.content_type,
            headers: about.headers,
            idempotency_key: self.idempotency_key,
            changes: with_last_error(self.changes, last_error.as_ref()),
            steps: views(&entries)?,
            versions_changed: changed(&entries, &self.versions)?,
            trace: about.links.get(TRACE).cloned(),
        })
    }
}

/// The runs of an answer. One whose payload or steps can't be read is left out, and costs the others nothing: its lease runs
/// out, and after a few of them it is a dead letter.
pub fn handed_out(each: impl Iterator<Item = (i64, Result<LeasedRun>)>) -> Result<Vec<LeasedRun>> {
    let mut leased = Vec::new();
    for (run, completed) in each {
        match completed {
            Ok(run) => leased.push(run),
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => tracing::error!(run, %error, "run not handed out: what it carries can't be read"),
        }
    }
    Ok(leased)
}

/// What the attempt that begins should do differently, its model among it; whether it is done already is not known here.
pub fn wanted(row: &RunRow) -> Vec<HandedChange> {
    let model = row.run.target.model.as_ref().map(|model| Change::SetModel { model: model.to_string() });
    let all = model.into_iter().chain(row.run.changes.iter().cloned());
    all.map(|change| HandedChange { change, applied: false }).collect()
}

/// Whether a change gives the model the last error.
pub fn wants_last_error(changes: &[HandedChange]) -> bool {
    changes.iter().any(|handed| matches!(handed.change, Change::AddLastError { text: None }))
}

pub fn with_last_error(mut changes: Vec<HandedChange>, error: Option<&ErrorReport>) -> Vec<HandedChange> {
    for handed in &mut changes {
        if let Change::AddLastError { text: text @ None } = &mut handed.change {
            *text = error.map(|error| {
                let whole = error.message.decode();
                whole[..whole.floor_char_boundary(LAST_ERROR_MAX_BYTES)].to_owned()
            });
        }
    }
    changes
}
