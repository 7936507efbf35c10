//! Everything kept of one run.

use std::collections::BTreeSet;

use redrive_core::lifecycle::Outcome;
use redrive_core::text::Label;
use redrive_core::wire::{ReviewView, RunDetail, RunSummary, Versions};

use super::attempt_list::ended_attempts;
use super::columns::{label, owned};
use super::handing_out::{last_body, last_verdict};
use super::history_list::history_of;
use super::look::Look;
use super::lookup::run_number;
use super::pieces::payload_of;
use super::sent::changed_attempts;
use super::steps::{page_of, recorded_of};
use super::summary::summary;
use crate::kept::detail::{INNER, Inner, LIFE, Pieces, body, kinds, review_view, worked_on_by};
use crate::kept::pages::{Before, Next};
use redrive_engine::error::{BoxError, Error, PortResult as Result};
use redrive_engine::model::{DetailCall, KeyMark, RunRef};

pub(super) async fn run_detail(look: &Look<'_>, at: &RunRef, call: &DetailCall) -> Result<RunDetail> {
    let run = run_number(look, at).await?;
    let summary = summary(look, run).await?;
    let before = Before::of(call, at)?;
    let body = body(&summary, pieces(look, run, at, &summary, &before).await?)?;
    Ok(RunDetail { summary, body })
}

async fn pieces(look: &Look<'_>, run: i64, at: &RunRef, summary: &RunSummary, before: &Before) -> Result<Pieces> {
    let inner = look.row(&format!("{INNER} WHERE runs.id = $1"), &[&run]).await?;
    let inner = Inner::read(&inner.ok_or(Error::NotFound("run"))?)?;
    let (attempts, ended) = ended_attempts(look, run, before).await?;
    let (steps, entries) = page_of(look, run, before).await?;
    let (history, older) = history_of(look, run, at, summary.received_at, before).await?;
    let recorded = recorded_of(look, run).await?;
    Ok(Pieces {
        payload: payload_of(look, run, summary.revision).await?,
        verdict: last_verdict(look, run).await?,
        output: last_body(look, run, Outcome::Succeeded).await?.and_then(|body| body.output),
        history,
        review: review(look, run, &inner, summary).await?,
        changed: changed_attempts(look, run, ended.first().map_or(0, |first| first.number)).await?,
        newest: newest(look, inner.tenant, kinds(&recorded)).await?,
        inner,
        ended,
        entries,
        recorded,
        from_the_newest: before.from_the_newest,
        next: Next { attempts: attempts.next("attempts", at), steps: steps.next("steps", at), history: older },
    })
}

pub(super) async fn was_worked_on_by(look: &Look<'_>, at: &RunRef, key: KeyMark) -> Result<bool> {
    let run = run_number(look, at).await?;
    let found = look.row(&format!("{LIFE} WHERE id = $1"), &[&run]).await?;
    worked_on_by(&found.ok_or(Error::NotFound("run"))?, key)
}

async fn review(look: &Look<'_>, run: i64, inner: &Inner, summary: &RunSummary) -> Result<Option<ReviewView>> {
    let Some(review) = inner.review(summary) else { return Ok(None) };
    let asked = look.row("SELECT at, actor, request FROM reviews WHERE run = $1", &[&run]).await?;
    review_view(asked.as_ref(), review).map(Some)
}

/// Of each of these kinds, the version that the tenant met last.
async fn newest(look: &Look<'_>, tenant: i64, kinds: BTreeSet<String>) -> Result<Versions> {
    if kinds.is_empty() {
        return Ok(Versions::new());
    }
    let kinds: Vec<Vec<u8>> = kinds.into_iter().map(String::into_bytes).collect();
    let sql = "SELECT DISTINCT ON (kind) kind, version FROM versions_seen WHERE tenant = $1 AND kind = ANY($2)
               ORDER BY kind, id DESC";
    let rows = look.rows(sql, &[&tenant, &kinds]).await?;
    rows.iter().map(|row| Ok::<(String, Label), BoxError>((owned(row, 0)?, label(row, 1)?))).collect()
}
