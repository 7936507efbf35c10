//! A payload as it was at a revision.

use redrive_core::wire::RevisionView;
use rusqlite::{Connection, OptionalExtension};

use crate::sqlite::reads::columns::{packed_json_or_none, time};
use crate::sqlite::reads::history::REPORTER;
use crate::sqlite::reads::lookup::run_number;
use crate::sqlite::reads::payloads::payload_of;
use crate::sqlite::reads::summary::summary;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunRef;

/// `GET …/revisions/{revision}`.
pub(crate) fn revision(conn: &Connection, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
    let run = run_number(conn, at)?;
    let summary = summary(conn, run)?;
    let revision = revision.unwrap_or(summary.revision);
    if !(1..=summary.revision).contains(&revision) {
        return Err(Error::NotFound("revision").into());
    }
    let mut find = conn.prepare_cached("SELECT at, actor, patch FROM revisions WHERE run = ?1 AND revision = ?2")?;
    let made = find
        .query_row([run, revision.into()], |row| {
            Ok(time(row, 0).and_then(|at| Ok((at, row.get(1)?, packed_json_or_none(row, 2, "patch")?))))
        })
        .optional()?
        .transpose()?;
    let (at, actor, json_patch) = made.unwrap_or((summary.received_at, REPORTER.to_owned(), None));
    let (payload, payload_base64) = payload_of(conn, run, revision)?.into_wire()?;
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
