//! Everything kept of one run.

use redrive_core::wire::{RunDetail, RunSummary};
use rusqlite::Connection;

use super::attempt_list::ended_attempts;
use super::history_list::history_of;
use super::ledger_rows::entries_of;
use super::lookup::run_number;
use super::pieces::payload_of;
use super::review_rows::review_view;
use super::rows::newest_version;
use super::sent::changed_attempts;
use super::summary::summary;
use crate::commands::versions::newest_of;
use crate::error::{Error, Result};
use crate::kept::detail::{INNER, Inner, LIFE, Pieces, body, kinds, worked_on_by};
use crate::model::{KeyMark, RunRef};

pub(super) fn run_detail(conn: &Connection, at: &RunRef) -> Result<RunDetail> {
    let run = run_number(conn, at)?;
    let summary = summary(conn, run)?;
    let body = body(&summary, pieces(conn, run, &summary)?)?;
    Ok(RunDetail { summary, body })
}

fn pieces(conn: &Connection, run: i64, summary: &RunSummary) -> Result<Pieces> {
    let inner = inner(conn, run)?;
    let ended = ended_attempts(conn, run)?;
    let entries = entries_of(conn, run)?;
    Ok(Pieces {
        payload: payload_of(conn, run, summary.revision)?,
        history: history_of(conn, run, summary.received_at, &ended)?,
        review: inner.review(summary).map(|review| review_view(conn, run, review)).transpose()?,
        changed: changed_attempts(conn, run)?,
        newest: newest_of(&kinds(&entries)?, |kind| newest_version(conn, inner.tenant, kind))?,
        inner,
        ended,
        entries,
    })
}

pub(super) fn was_worked_on_by(conn: &Connection, at: &RunRef, key: KeyMark) -> Result<bool> {
    let run = run_number(conn, at)?;
    let mut find = conn.prepare_cached(&format!("{LIFE} WHERE id = ?"))?;
    let mut rows = find.query([run])?;
    worked_on_by(rows.next()?.ok_or(Error::NotFound("run"))?, key)
}

fn inner(conn: &Connection, run: i64) -> Result<Inner> {
    let mut find = conn.prepare_cached(&format!("{INNER} WHERE runs.id = ?"))?;
    let mut rows = find.query([run])?;
    Inner::read(rows.next()?.ok_or(Error::NotFound("run"))?)
}
