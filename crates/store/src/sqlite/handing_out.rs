//! What a run carries when it is handed to a worker: read after the commit that granted it, beside other readers.

use redrive_core::text::Label;
use redrive_core::verdict::Change;
use redrive_core::wire::{HandedChange, LeasedRun};
use rusqlite::Connection;

use crate::commands::lease::{Granted, LAST_ERROR_MAX_BYTES, TRACE};
use crate::commands::start::Begun;
use crate::commands::steps::{changed, views};
use crate::error::Result;
use crate::model::Started;
use crate::sqlite::columns::{label_or_none, parsed_or_none};
use crate::sqlite::ledger_rows::entries_of;
use crate::sqlite::pieces::{last_error, last_output, payload_of};
use crate::sqlite::sent;

pub(super) fn complete_leases(conn: &Connection, granted: Vec<Granted>) -> Result<Vec<LeasedRun>> {
    granted.into_iter().map(|granted| complete_lease(conn, granted)).collect()
}

fn complete_lease(conn: &Connection, granted: Granted) -> Result<LeasedRun> {
    let mut find = conn.prepare_cached("SELECT agent, idempotency_key FROM runs WHERE id = ?1")?;
    let (agent, idempotency_key): (Option<Label>, _) = find
        .query_and_then([granted.row], |row| {
            Ok::<_, crate::Error>((label_or_none(row, 0)?, parsed_or_none(row, 1, "idempotency key")?))
        })?
        .next()
        .transpose()?
        .unwrap_or_default();
    let kept = payload_of(conn, granted.row, granted.revision)?;
    let about = kept.about.clone();
    let (payload, payload_base64) = kept.into_wire()?;
    let entries = entries_of(conn, granted.row)?;
    Ok(LeasedRun {
        run_id: granted.run_id,
        tenant: granted.tenant,
        queue: granted.queue,
        agent,
        model: granted.model,
        attempt: granted.attempt,
        revision: granted.revision,
        replay: granted.replay,
        lease: granted.lease.to_string(),
        lease_expires_at: granted.lease_expires_at,
        payload,
        payload_base64,
        content_type: about.content_type,
        headers: about.headers,
        idempotency_key,
        changes: with_last_error(conn, granted.row, granted.changes)?,
        steps: views(&entries)?,
        versions_changed: changed(&entries, &granted.versions)?,
        trace: about.links.get(TRACE).cloned(),
    })
}

/// Fills in the last error, where a change gives it to the model.
fn with_last_error(conn: &Connection, run: i64, mut changes: Vec<HandedChange>) -> Result<Vec<HandedChange>> {
    for handed in &mut changes {
        if let Change::AddLastError { text: text @ None } = &mut handed.change {
            *text = last_error(conn, run)?.map(|error| {
                let whole = error.message.decode();
                whole[..whole.floor_char_boundary(LAST_ERROR_MAX_BYTES)].to_owned()
            });
        }
    }
    Ok(changes)
}

/// Adds to the start of a known run, or of one whose payload has to be changed, what was recorded of it.
pub(super) fn complete_start(conn: &Connection, begun: Begun) -> Result<Started> {
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
    answer.changes = with_last_error(conn, run, std::mem::take(&mut answer.changes))?;
    started.to_prepare = epoch.is_some() && !answer.changes.is_empty();
    if payload_differs || started.to_prepare {
        (answer.payload, answer.payload_base64) = payload_of(conn, run, answer.revision)?.into_wire()?;
    }
    Ok(started)
}
