//! The contents of a leased run, read after the commit that granted the lease.

use redrive_core::verdict::Change;
use redrive_core::wire::{ErrorReport, HandedChange, LeasedRun};

use crate::error::Result;
use crate::lease::grant::GrantedLease;
use crate::ledger::steps::{StepRow, changed, views};
use crate::runs::payload::StoredPayload;
use crate::runs::run_row::RunRow;

/// The producer's link to a trace.
const TRACE: &str = "trace";
/// Longer errors are truncated: foreign text must not fill the next attempt's context.
const LAST_ERROR_MAX_BYTES: usize = 2_000;

/// What is read of a run for its worker.
pub struct RunContents {
    pub payload: StoredPayload,
    pub entries: Vec<StepRow>,
    /// Read only where [`wants_last_error`].
    pub last_error: Option<ErrorReport>,
}

impl GrantedLease {
    pub fn into_leased(self, contents: RunContents) -> Result<LeasedRun> {
        let RunContents { payload: stored, entries, last_error } = contents;
        let about = stored.about.clone();
        let (payload, payload_base64) = stored.into_wire()?;
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

/// Collects the runs of an answer. A run whose contents cannot be read is left out: its lease expires, and after a few
/// attempts it is a dead letter.
pub fn collect_leased(each: impl Iterator<Item = (i64, Result<LeasedRun>)>) -> Result<Vec<LeasedRun>> {
    let mut leased = Vec::new();
    for (run, completed) in each {
        match completed {
            Ok(run) => leased.push(run),
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => tracing::error!(run, %error, "run not handed out: contents unreadable"),
        }
    }
    Ok(leased)
}

/// The changes of the attempt that begins, including its model; none is applied yet.
pub fn wanted(row: &RunRow) -> Vec<HandedChange> {
    let model = row.run.target.model.as_ref().map(|model| Change::SetModel { model: model.to_string() });
    let all = model.into_iter().chain(row.run.changes.iter().cloned());
    all.map(|change| HandedChange { change, applied: false }).collect()
}

/// Whether a change adds the last error to the prompt.
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
