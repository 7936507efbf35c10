//! What a run carries when it is handed to a worker: read after the commit that granted it, beside other readers.

use redrive_core::text::Label;
use redrive_core::wire::LeasedRun;
use rusqlite::Connection;

use crate::error::Result;
use crate::model::Started;
use crate::sqlite::columns::{label_or_none, parsed_or_none};
use crate::sqlite::lease::Granted;
use crate::sqlite::pieces::{last_output, payload_of};
use crate::sqlite::start::Begun;
use crate::sqlite::steps::{changed, entries_of, views};

/// The trace link, where the producer gave one.
const TRACE: &str = "trace";

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
        changes: granted.changes,
        steps: views(&entries)?,
        versions_changed: changed(&entries, &granted.versions)?,
        trace: about.links.get(TRACE).cloned(),
    })
}

/// Adds to the start of a known run what was recorded of it.
pub(super) fn complete_start(conn: &Connection, begun: Begun) -> Result<Started> {
    let Begun { run, mut answer, versions, created, payload_differs, closed } = begun;
    let entries = entries_of(conn, run)?;
    answer.versions_changed = changed(&entries, &versions)?;
    answer.steps = views(&entries)?;
    if payload_differs {
        (answer.payload, answer.payload_base64) = payload_of(conn, run, answer.revision)?.into_wire()?;
    }
    if closed {
        answer.output = last_output(conn, run)?;
    }
    Ok(Started { answer, created })
}
