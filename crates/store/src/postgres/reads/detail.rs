//! Everything kept of one run.

use std::collections::BTreeSet;

use redrive_core::lifecycle::Outcome;
use redrive_core::text::Label;
use redrive_core::wire::{ReviewView, RunDetail, RunSummary, Versions};

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::attempts::ended_attempts;
use crate::postgres::reads::columns::{label, owned};
use crate::postgres::reads::history::history_of;
use crate::postgres::reads::lease_contents::{last_body, last_verdict};
use crate::postgres::reads::lookup::run_number;
use crate::postgres::reads::payloads::payload_of;
use crate::postgres::reads::sent::changed_attempts;
use crate::postgres::reads::steps::{page_of, recorded_of};
use crate::postgres::reads::summary::summary;
use crate::shared::detail::{INNER, Inner, LIFE, Pieces, body, kinds, review_view, worked_on_by};
use crate::shared::pages::{Before, Next};
use redrive_engine::error::{BoxError, Error, PortResult as Result};
use redrive_engine::model::{DetailCall, KeyMark, RunRef};

pub(crate) async fn run_detail(snapshot: &Snapshot<'_>, at: &RunRef, call: &DetailCall) -> Result<RunDetail> {
    let run = run_number(snapshot, at).await?;
    let summary = summary(snapshot, run).await?;
    let before = Before::of(call, at)?;
    let body = body(&summary, pieces(snapshot, run, at, &summary, &before).await?)?;
    Ok(RunDetail { summary, body })
}

async fn pieces(
    snapshot: &Snapshot<'_>,
    run: i64,
    at: &RunRef,
    summary: &RunSummary,
    before: &Before,
) -> Result<Pieces> {
    let inner = snapshot.row(&format!("{INNER} WHERE runs.id = $1"), &[&run]).await?;
    let inner = Inner::read(&inner.ok_or(Error::NotFound("run"))?)?;
    let (attempts, ended) = ended_attempts(snapshot, run, before).await?;
    let (steps, entries) = page_of(snapshot, run, before).await?;
    let (history, older) = history_of(snapshot, run, at, summary.received_at, before).await?;
    let recorded = recorded_of(snapshot, run).await?;
    Ok(Pieces {
        payload: payload_of(snapshot, run, summary.revision).await?,
        verdict: last_verdict(snapshot, run).await?,
        output: last_body(snapshot, run, Outcome::Succeeded).await?.and_then(|body| body.output),
        history,
        review: review(snapshot, run, &inner, summary).await?,
        changed: changed_attempts(snapshot, run, ended.first().map_or(0, |first| first.number)).await?,
        newest: newest(snapshot, inner.tenant, kinds(&recorded)).await?,
        inner,
        ended,
        entries,
        recorded,
        from_the_newest: before.from_the_newest,
        next: Next { attempts: attempts.next("attempts", at), steps: steps.next("steps", at), history: older },
    })
}

pub(crate) async fn was_worked_on_by(snapshot: &Snapshot<'_>, at: &RunRef, key: KeyMark) -> Result<bool> {
    let run = run_number(snapshot, at).await?;
    let found = snapshot.row(&format!("{LIFE} WHERE id = $1"), &[&run]).await?;
    worked_on_by(&found.ok_or(Error::NotFound("run"))?, key)
}

async fn review(snapshot: &Snapshot<'_>, run: i64, inner: &Inner, summary: &RunSummary) -> Result<Option<ReviewView>> {
    let Some(review) = inner.review(summary) else { return Ok(None) };
    let asked = snapshot.row("SELECT at, actor, request FROM reviews WHERE run = $1", &[&run]).await?;
    review_view(asked.as_ref(), review).map(Some)
}

/// Of each of these kinds, the version that the tenant met last.
async fn newest(snapshot: &Snapshot<'_>, tenant: i64, kinds: BTreeSet<String>) -> Result<Versions> {
    if kinds.is_empty() {
        return Ok(Versions::new());
    }
    let kinds: Vec<Vec<u8>> = kinds.into_iter().map(String::into_bytes).collect();
    let sql = "SELECT DISTINCT ON (kind) kind, version FROM versions_seen WHERE tenant = $1 AND kind = ANY($2)
               ORDER BY kind, id DESC";
    let rows = snapshot.rows(sql, &[&tenant, &kinds]).await?;
    rows.iter().map(|row| Ok::<(String, Label), BoxError>((owned(row, 0)?, label(row, 1)?))).collect()
}
