//! Later revisions of a payload. The first one's bytes are never written again.

use redrive_core::wire::RevisionView;
use rusqlite::{Connection, OptionalExtension, params};

use crate::codec::encode;
use crate::error::{Error, Result};
use crate::model::{About, PayloadKind, RunRef};
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::columns::{packed_json, packed_json_or_none, time};
use crate::sqlite::history_list::REPORTER;
use crate::sqlite::life::position;
use crate::sqlite::lookup::{numbered, run_number};
use crate::sqlite::pieces::payload_of;
use crate::sqlite::rows::RunRow;
use crate::sqlite::summary::summary;
use crate::triage_model::FixedPayload;

impl Batch<'_> {
    /// Keeps the payload of `row`'s revision, made from the one before; what else is said of it stays.
    pub(super) fn keep_revision(&mut self, row: &RunRow, fix: &FixedPayload, actor: &str) -> Result<()> {
        let id = numbered(row.id, row.run.revision);
        let about = About { payload_omitted: None, ..self.about_of(row.id, fix.from_revision)? };
        let mut insert = self
            .conn
            .prepare_cached("INSERT INTO payloads (id, kind, digest, about, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        insert.execute(params![
            id,
            position(PayloadKind::ALL, &fix.payload.kind),
            fix.payload.digest.as_slice(),
            encode(json(&about)?.as_bytes()),
            fix.payload.encoded,
        ])?;
        let mut insert =
            self.conn.prepare_cached("INSERT INTO revisions (id, at, actor, patch) VALUES (?1, ?2, ?3, ?4)")?;
        insert.execute(params![id, self.now.as_millis(), actor, fix.patch])?;
        Ok(())
    }

    /// What a run said of itself beside its payload.
    pub(super) fn about_of(&self, run: i64, revision: u32) -> Result<About> {
        let mut find = self.conn.prepare_cached("SELECT about FROM payloads WHERE id = ?1 AND length(about) > 0")?;
        let mut rows = find.query([numbered(run, revision)])?;
        Ok(rows.next()?.map(|row| packed_json(row, 0, "about")).transpose()?.unwrap_or_default())
    }
}

/// `GET …/revisions/{revision}`.
pub(super) fn revision(conn: &Connection, at: &RunRef, revision: Option<u32>) -> Result<RevisionView> {
    let run = run_number(conn, at)?;
    let summary = summary(conn, run)?;
    let revision = revision.unwrap_or(summary.revision);
    if !(1..=summary.revision).contains(&revision) {
        return Err(Error::NotFound("revision"));
    }
    let mut find = conn.prepare_cached("SELECT at, actor, patch FROM revisions WHERE id = ?1")?;
    let made = find
        .query_row([numbered(run, revision)], |row| {
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
