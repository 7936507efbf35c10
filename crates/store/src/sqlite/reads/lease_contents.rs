//! What a run carries when it is handed to a worker: read after the commit that granted it, beside other readers.

use redrive_core::wire::{ErrorReport, HandedChange, LeasedRun};
use rusqlite::Connection;

use crate::sqlite::connection::classify;
use crate::sqlite::reads::payloads::{last_error, last_output, payload_of};
use crate::sqlite::reads::sent;
use crate::sqlite::rows::ledger::entries_of;
use redrive_engine::attempt::start::CommittedStart;
use redrive_engine::error::PortResult as Result;
use redrive_engine::lease::contents::{RunContents, collect_leased, wants_last_error, with_last_error};
use redrive_engine::lease::grant::GrantedLease;
use redrive_engine::ledger::steps::{changed, views};
use redrive_engine::model::Started;

pub(crate) fn complete_leases(conn: &Connection, granted: Vec<GrantedLease>) -> Result<Vec<LeasedRun>> {
    Ok(collect_leased(
        granted.into_iter().map(|granted| (granted.row, complete_lease(conn, granted).map_err(classify))),
    )?)
}

fn complete_lease(conn: &Connection, granted: GrantedLease) -> Result<LeasedRun> {
    let payload = payload_of(conn, granted.row, granted.revision)?;
    let entries = entries_of(conn, granted.row)?;
    let last_error = error_for(conn, granted.row, &granted.changes)?;
    Ok(granted.into_leased(RunContents { payload, entries, last_error })?)
}

/// What the last failed attempt said, where a change gives it to the model.
fn error_for(conn: &Connection, run: i64, changes: &[HandedChange]) -> Result<Option<ErrorReport>> {
    if wants_last_error(changes) { last_error(conn, run) } else { Ok(None) }
}

/// Adds to the start of a known run, or of one whose payload has to be changed, what was recorded of it.
pub(crate) fn complete_start(conn: &Connection, begun: CommittedStart) -> Result<Started> {
    let run = begun.run;
    let epoch = begun.answer.lease.as_ref().map(|_| begun.epoch);
    let (payload_differs, closed) = (begun.payload_differs, begun.closed);
    let entries = entries_of(conn, run)?;
    let versions_changed = changed(&entries, &begun.versions)?;
    let mut started = begun.into_started();
    let answer = &mut started.answer;
    answer.versions_changed = versions_changed;
    answer.steps = views(&entries)?;
    if closed {
        answer.output = last_output(conn, run)?;
    }
    // The same start again gets what it got before.
    if let Some(epoch) = epoch
        && let Some((changes, body)) = sent::kept(conn, run, answer.attempt, Some(epoch))?
    {
        (answer.changes, answer.payload) = (changes, Some(body));
        return Ok(started);
    }
    let error = error_for(conn, run, &answer.changes)?;
    answer.changes = with_last_error(std::mem::take(&mut answer.changes), error.as_ref());
    started.to_prepare = epoch.is_some() && !answer.changes.is_empty();
    if payload_differs || started.to_prepare {
        (answer.payload, answer.payload_base64) = payload_of(conn, run, answer.revision)?.into_wire()?;
    }
    Ok(started)
}
