//! Everything kept of one run.

use std::collections::BTreeSet;

use redrive_core::ids::OrderKey;
use redrive_core::ledger::{VersionChange, versions_changed};
use redrive_core::run::StateName;
use redrive_core::wire::{QueueSettings, RunBody, RunDetail, RunSummary};
use rusqlite::Connection;

use super::attempt_list::{EndedAttempt, ended_attempts, under_way};
use super::columns::{json, parsed_or_none, text};
use super::history_list::history_of;
use super::ledger_rows::entries_of;
use super::life::Life;
use super::lookup::run_number;
use super::pieces::payload_of;
use super::review_rows::review_view;
use super::rows::newest_version;
use super::sent::changed_attempts;
use super::summary::summary;
use crate::commands::steps::{StepRow, recorded_versions, views};
use crate::commands::versions::newest_of;
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
    let review = inner.life.review.as_ref().filter(|_| summary.state == StateName::Review);
    let review = review.map(|review| review_view(conn, run, review)).transpose()?;
    let mut attempts: Vec<_> = ended.into_iter().map(EndedAttempt::into_view).collect();
    attempts.extend(under_way(summary, &inner.life));
    for changed in changed_attempts(conn, run)? {
        attempts.iter_mut().filter(|attempt| attempt.attempt == changed).for_each(|attempt| attempt.changed = true);
    }
    let entries = entries_of(conn, run)?;
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
        steps: views(&entries)?,
        versions_changed: changed_since(conn, inner.tenant, &entries)?,
        history,
        verdict,
        links: about.links,
        replayable: !inner.life.not_replayable,
        instructions: inner.settings.instructions,
        runbook: inner.settings.runbook,
        review,
    })
}

/// Where a replay would skip what was recorded under other versions than the newest that the tenant has met.
fn changed_since(conn: &Connection, tenant: i64, entries: &[StepRow]) -> Result<Vec<VersionChange>> {
    let recorded = recorded_versions(entries)?;
    let kinds: BTreeSet<&String> = recorded.iter().flat_map(|versions| versions.keys()).collect();
    Ok(versions_changed(&recorded, &newest_of(kinds, |kind| newest_version(conn, tenant, kind))?))
}

/// What the run's row holds beside its summary.
struct Inner {
    tenant: i64,
    order_key: Option<OrderKey>,
    life: Life,
    settings: QueueSettings,
}

fn inner(conn: &Connection, run: i64) -> Result<Inner> {
    let mut find = conn.prepare_cached(
        "SELECT runs.order_key, runs.life, queues.settings, runs.tenant FROM runs JOIN queues ON queues.id = runs.queue \
         WHERE runs.id = ?",
    )?;
    let mut rows = find.query([run])?;
    let row = rows.next()?.ok_or(Error::NotFound("run"))?;
    Ok(Inner {
        tenant: row.get(3)?,
        order_key: parsed_or_none(row, 0, "order_key")?,
        life: json(text(row, 1)?, "life")?,
        settings: json(text(row, 2)?, "queue settings")?,
    })
}
