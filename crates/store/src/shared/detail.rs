//! One run with all its details.

use std::collections::BTreeSet;

use redrive_core::ids::OrderKey;
use redrive_core::ledger::versions_changed;
use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{HistoryEntry, QueueSettings, RawJson, ReviewView, RunBody, RunDetail, RunSummary, Versions};

use super::attempts::{EndedAttempt, ended_attempts, under_way};
use super::columns::{Columns, json, number, owned, packed_json_or_none, parsed_or_none, text, time};
use super::history::history_of;
use super::lookup::run_number;
use super::pages::{Before, BodyPage, Next, sized};
use super::payloads::{changed_attempts, last_body, last_verdict, payload_of};
use super::reader::{SqlReader, StoreReader};
use super::records::{FromRow as _, STEP_COLUMNS, STEP_VERSIONS, STEP_VERSIONS_MAX, recorded_versions};
use super::runs::summary;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::ledger::steps::{StepRow, views};
use redrive_engine::model::{DetailCall, KeyMark, RunRef};
use redrive_engine::names::versions::KINDS_MAX;
use redrive_engine::runs::document::{ReviewDocument, RunDocument};
use redrive_engine::runs::payload::StoredPayload;

pub(crate) async fn run_detail(reader: &impl StoreReader, at: &RunRef, call: &DetailCall) -> Result<RunDetail> {
    let run = run_number(reader, at).await?;
    let summary = summary(reader, run).await?;
    let parts = read_parts(reader, run, at, &summary, &Before::of(call, at)?).await?;
    let body = body(&summary, parts)?;
    Ok(RunDetail { summary, body })
}

async fn read_parts(
    reader: &impl StoreReader,
    run: i64,
    at: &RunRef,
    summary: &RunSummary,
    before: &Before,
) -> Result<DetailParts> {
    let inner = reader.row(INNER, &[run.into()]).await?.read(InnerColumns::read)?;
    let inner = inner.ok_or(Error::NotFound("run"))?;
    let (attempts, ended) = ended_attempts(reader, run, before).await?;
    let (steps, entries) = steps_of(reader, run, before).await?;
    let (history, older) = history_of(reader, run, at, summary.received_at, before).await?;
    let recorded = recorded_of(reader, run).await?;
    let kinds: BTreeSet<&String> = recorded.iter().flat_map(Versions::keys).collect();
    let kinds: Vec<String> = kinds.into_iter().take(KINDS_MAX).cloned().collect();
    Ok(DetailParts {
        payload: payload_of(reader, run, summary.revision).await?,
        verdict: last_verdict(reader, run).await?,
        output: last_body(reader, run, Outcome::Succeeded).await?.and_then(|body| body.output),
        history,
        review: match inner.review(summary) {
            Some(review) => Some(review_view(reader, run, review).await?),
            None => None,
        },
        changed: changed_attempts(reader, run, ended.first().map_or(0, |first| first.number)).await?,
        newest: if kinds.is_empty() { Versions::new() } else { reader.newest_versions(inner.tenant, kinds).await? },
        inner,
        ended,
        entries,
        recorded,
        from_the_newest: before.from_the_newest,
        next: Next { attempts: attempts.next("attempts", at), steps: steps.next("steps", at), history: older },
    })
}

/// Whether a key has worked on the run.
pub(crate) async fn was_worked_on_by(reader: &impl StoreReader, at: &RunRef, key: KeyMark) -> Result<bool> {
    let run = run_number(reader, at).await?;
    let read = reader.row("SELECT life FROM runs WHERE id = $1", &[run.into()]).await?.read(|row| {
        let life: RunDocument = json(text(row, 0)?, "life")?;
        Ok(life.keys.contains(&key))
    });
    read?.ok_or(Error::NotFound("run").into())
}

/// A page of steps, in the order in which they began.
async fn steps_of<R: StoreReader>(reader: &R, run: i64, before: &Before) -> Result<(BodyPage, Vec<StepRow>)> {
    let values = [run.into(), before.step.into(), before.rows().into()];
    let page = BodyPage::fill(reader.rows(&R::step_sizes(), &values).await?.read(sized)?, before.limit);
    let sql = format!("SELECT {STEP_COLUMNS} FROM steps WHERE id = ANY($1)");
    let mut entries = reader.rows_any(&sql, &[page.numbers.as_slice().into()]).await?.read(StepRow::read)?;
    entries.sort_by_key(|entry| entry.id);
    Ok((page, entries))
}

/// The versions under which steps were recorded that a replay would skip.
async fn recorded_of(reader: &impl SqlReader, run: i64) -> Result<Vec<Versions>> {
    let sql = format!("{STEP_VERSIONS} WHERE run = $1 AND versions IS NOT NULL LIMIT $2");
    let found = reader.rows(&sql, &[run.into(), STEP_VERSIONS_MAX.into()]).await?.read(recorded_versions)?;
    Ok(found.into_iter().flatten().collect())
}

/// Columns of the run and its queue that the summary does not have.
struct InnerColumns {
    tenant: i64,
    order_key: Option<OrderKey>,
    life: RunDocument,
    settings: QueueSettings,
}

const INNER: &str = "SELECT runs.order_key, runs.life, queues.settings, runs.tenant \
     FROM runs JOIN queues ON queues.id = runs.queue WHERE runs.id = $1";

impl InnerColumns {
    fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            tenant: number(row, 3)?,
            order_key: parsed_or_none(row, 0, "order_key")?,
            life: json(text(row, 1)?, "life")?,
            settings: json(text(row, 2)?, "queue settings")?,
        })
    }

    /// The review that the run waits for.
    fn review(&self, summary: &RunSummary) -> Option<&ReviewDocument> {
        self.life.review.as_ref().filter(|_| summary.state == StateName::Review)
    }
}

/// What was read, table by table.
struct DetailParts {
    inner: InnerColumns,
    payload: StoredPayload,
    ended: Vec<EndedAttempt>,
    /// The newest, also on a page of older attempts.
    verdict: Option<Verdict>,
    output: Option<RawJson>,
    history: Vec<HistoryEntry>,
    review: Option<ReviewView>,
    /// Attempts that were sent a changed payload.
    changed: Vec<u32>,
    entries: Vec<StepRow>,
    /// The versions under which steps were recorded that a replay would skip.
    recorded: Vec<Versions>,
    /// The version of each kind that the tenant met last.
    newest: Versions,
    /// The running attempt belongs to the page.
    from_the_newest: bool,
    next: Next,
}

fn body(summary: &RunSummary, parts: DetailParts) -> Result<RunBody> {
    let DetailParts {
        inner, payload, ended, verdict, output, history, review, changed, entries, recorded, newest, ..
    } = parts;
    let about = payload.about.clone();
    let (payload, payload_base64) = payload.into_wire()?;
    let mut attempts: Vec<_> = ended.into_iter().map(EndedAttempt::into_view).collect();
    attempts.extend(under_way(summary, &inner.life).filter(|_| parts.from_the_newest));
    for attempt in &mut attempts {
        attempt.changed = changed.contains(&attempt.attempt);
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
        steps: views(&entries)?,
        // Where a replay would skip what was recorded under other versions.
        versions_changed: versions_changed(&recorded, &newest),
        history,
        next_attempts_cursor: parts.next.attempts,
        next_steps_cursor: parts.next.steps,
        next_history_cursor: parts.next.history,
        verdict,
        links: about.links,
        replayable: !inner.life.not_replayable,
        instructions: inner.settings.instructions,
        runbook: inner.settings.runbook,
        review,
    })
}

/// The request for the review, as the run shows it. The request may be gone.
async fn review_view(reader: &impl SqlReader, run: i64, review: &ReviewDocument) -> Result<ReviewView> {
    let sql = "SELECT at, actor, request FROM reviews WHERE run = $1";
    let asked = reader
        .row(sql, &[run.into()])
        .await?
        .read(|row| Ok((time(row, 0)?, owned(row, 1)?, packed_json_or_none(row, 2, "request")?)))?;
    let (asked_at, asked_by, proposed): (Timestamp, String, Option<RawJson>) = asked.unwrap_or_default();
    let expires_at = Timestamp::from_millis(review.expires_at);
    Ok(ReviewView { proposed, plan_hash: review.plan_hash.clone(), expires_at, asked_by, asked_at })
}
