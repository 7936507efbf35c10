//! Everything kept of one run.

use redrive_core::ids::OrderKey;
use redrive_core::wire::{QueueSettings, RunBody, RunDetail, RunSummary};
use rusqlite::Connection;

use super::attempt_list::{EndedAttempt, ended_attempts, under_way};
use super::columns::{json, parsed_or_none, text};
use super::history_list::history_of;
use super::life::Life;
use super::lookup::run_number;
use super::pieces::{payload_of, recorded_steps};
use super::sent::changed_attempts;
use super::summary::summary;
use crate::error::{Error, Result};
use crate::model::RunRef;

pub(super) fn run_detail(conn: &Connection, at: &RunRef) -> Result<RunDetail> {
    let run = run_number(conn, at)?;
    let summary = summary(conn, run)?;
    let body = body(conn, run, &summary)?;
    Ok(RunDetail { summary, body })
}

fn body(conn: &Connection, run: i64, summary: &RunSummary) -> Result<RunBody> {
    let inner = inner(conn, run)?;
    let kept = payload_of(conn, run, summary.revision)?;
    let about = kept.about.clone();
    let (payload, payload_base64) = kept.into_wire()?;
    let ended = ended_attempts(conn, run)?;
    let history = history_of(conn, run, summary.received_at, &ended)?;
    let verdict = ended.iter().rev().find_map(|attempt| attempt.verdict.clone());
    let output = ended.iter().rev().find_map(EndedAttempt::output).cloned();
    let mut attempts: Vec<_> = ended.into_iter().map(EndedAttempt::into_view).collect();
    attempts.extend(under_way(summary, &inner.life));
    for changed in changed_attempts(conn, run)? {
        attempts.iter_mut().filter(|attempt| attempt.attempt == changed).for_each(|attempt| attempt.changed = true);
    }
    Ok(RunBody {
        payload,
        payload_base64,
        payload_omitted: about.payload_omitted,
        content_type: about.content_type,
        headers: about.headers,
        order_key: inner.order_key,
        versions: about.versions,
        destination: about.destination,
        resumable: inner.life.resumable,
        output,
        attempts,
        steps: recorded_steps(conn, run)?,
        history,
        verdict,
        links: about.links,
        replayable: !inner.life.not_replayable,
        instructions: inner.settings.instructions,
        runbook: inner.settings.runbook,
    })
}

/// What the run's row holds beside its summary.
struct Inner {
    order_key: Option<OrderKey>,
    life: Life,
    settings: QueueSettings,
}

fn inner(conn: &Connection, run: i64) -> Result<Inner> {
    let mut find = conn.prepare_cached(
        "SELECT runs.order_key, runs.life, queues.settings FROM runs JOIN queues ON queues.id = runs.queue \
         WHERE runs.id = ?",
    )?;
    let mut rows = find.query([run])?;
    let row = rows.next()?.ok_or(Error::NotFound("run"))?;
    Ok(Inner {
        order_key: parsed_or_none(row, 0, "order_key")?,
        life: json(text(row, 1)?, "life")?,
        settings: json(text(row, 2)?, "queue settings")?,
    })
}
