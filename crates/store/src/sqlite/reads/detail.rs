//! Everything kept of one run.

use redrive_core::wire::{RunDetail, RunSummary};
use rusqlite::Connection;

use crate::shared::detail::{INNER, Inner, LIFE, Pieces, body, kinds, worked_on_by};
use crate::shared::pages::{Before, Next};
use crate::sqlite::reads::attempts::ended_attempts;
use crate::sqlite::reads::history::history_of;
use crate::sqlite::reads::lookup::run_number;
use crate::sqlite::reads::payloads::{last_output, last_verdict, payload_of};
use crate::sqlite::reads::sent::changed_attempts;
use crate::sqlite::reads::summary::summary;
use crate::sqlite::rows::ledger::{page_of, recorded_of};
use crate::sqlite::rows::newest_version;
use crate::sqlite::rows::reviews::review_view;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::{DetailCall, KeyMark, RunRef};
use redrive_engine::names::versions::newest_of;

pub(crate) fn run_detail(conn: &Connection, at: &RunRef, call: &DetailCall) -> Result<RunDetail> {
    let run = run_number(conn, at)?;
    let summary = summary(conn, run)?;
    let body = body(&summary, pieces(conn, run, at, &summary, &Before::of(call, at)?)?)?;
    Ok(RunDetail { summary, body })
}

fn pieces(conn: &Connection, run: i64, at: &RunRef, summary: &RunSummary, before: &Before) -> Result<Pieces> {
    let inner = inner(conn, run)?;
    let (attempts, ended) = ended_attempts(conn, run, before)?;
    let (steps, entries) = page_of(conn, run, before)?;
    let (history, older) = history_of(conn, run, at, summary.received_at, before)?;
    let recorded = recorded_of(conn, run)?;
    Ok(Pieces {
        payload: payload_of(conn, run, summary.revision)?,
        verdict: last_verdict(conn, run)?,
        output: last_output(conn, run)?,
        history,
        review: inner.review(summary).map(|review| review_view(conn, run, review)).transpose()?,
        changed: changed_attempts(conn, run, ended.first().map_or(0, |first| first.number))?,
        newest: newest_of(&kinds(&recorded), |kind| Ok(newest_version(conn, inner.tenant, kind)?))?,
        inner,
        ended,
        entries,
        recorded,
        from_the_newest: before.from_the_newest,
        next: Next { attempts: attempts.next("attempts", at), steps: steps.next("steps", at), history: older },
    })
}

pub(crate) fn was_worked_on_by(conn: &Connection, at: &RunRef, key: KeyMark) -> Result<bool> {
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
