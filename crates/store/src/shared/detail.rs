//! Everything kept of one run, put together for its page.

use std::collections::BTreeSet;

use redrive_core::ids::OrderKey;
use redrive_core::ledger::versions_changed;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{HistoryEntry, QueueSettings, RawJson, ReviewView, RunBody, RunSummary, Versions};

use super::attempts::{EndedAttempt, under_way};
use super::pages::Next;
use crate::shared::columns::{Columns, json, number, owned, packed_json_or_none, parsed_or_none, text, time};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ledger::steps::{StepRow, views};
use redrive_engine::model::KeyMark;
use redrive_engine::runs::document::{ReviewDocument, RunDocument};
use redrive_engine::runs::payload::StoredPayload;

/// What the run's row holds beside its summary.
pub(crate) struct Inner {
    pub(crate) tenant: i64,
    order_key: Option<OrderKey>,
    life: RunDocument,
    settings: QueueSettings,
}

/// What [`Inner::read`] reads; a condition follows.
pub(crate) const INNER: &str = "SELECT runs.order_key, runs.life, queues.settings, runs.tenant \
     FROM runs JOIN queues ON queues.id = runs.queue";

/// Of what [`worked_on_by`] reads; a condition follows.
pub(crate) const LIFE: &str = "SELECT life FROM runs";

pub(crate) fn worked_on_by(row: &impl Columns, key: KeyMark) -> Result<bool> {
    let life: RunDocument = json(text(row, 0)?, "life")?;
    Ok(life.keys.contains(&key))
}

impl Inner {
    pub(crate) fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            tenant: number(row, 3)?,
            order_key: parsed_or_none(row, 0, "order_key")?,
            life: json(text(row, 1)?, "life")?,
            settings: json(text(row, 2)?, "queue settings")?,
        })
    }

    /// The review that the run is in.
    pub(crate) fn review(&self, summary: &RunSummary) -> Option<&ReviewDocument> {
        self.life.review.as_ref().filter(|_| summary.state == StateName::Review)
    }
}

/// What was found, table by table.
pub(crate) struct Pieces {
    pub(crate) inner: Inner,
    pub(crate) payload: StoredPayload,
    pub(crate) ended: Vec<EndedAttempt>,
    /// The newest of all, also where the page has older ones.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) output: Option<RawJson>,
    pub(crate) history: Vec<HistoryEntry>,
    pub(crate) review: Option<ReviewView>,
    /// Attempts that got another payload.
    pub(crate) changed: Vec<u32>,
    pub(crate) entries: Vec<StepRow>,
    /// Under which all that a replay would skip was recorded.
    pub(crate) recorded: Vec<Versions>,
    /// Of each kind that they name, the version that the tenant met last.
    pub(crate) newest: Versions,
    /// The attempt under way belongs to the page.
    pub(crate) from_the_newest: bool,
    pub(crate) next: Next,
}

/// The kinds of versions that work was recorded under.
pub(crate) fn kinds(recorded: &[Versions]) -> BTreeSet<String> {
    recorded.iter().flat_map(Versions::keys).cloned().collect()
}

pub(crate) fn body(summary: &RunSummary, pieces: Pieces) -> Result<RunBody> {
    let Pieces { inner, payload, ended, verdict, output, history, review, changed, entries, recorded, newest, .. } =
        pieces;
    let about = payload.about.clone();
    let (payload, payload_base64) = payload.into_wire()?;
    let mut attempts: Vec<_> = ended.into_iter().map(EndedAttempt::into_view).collect();
    attempts.extend(under_way(summary, &inner.life).filter(|_| pieces.from_the_newest));
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
        next_attempts_cursor: pieces.next.attempts,
        next_steps_cursor: pieces.next.steps,
        next_history_cursor: pieces.next.history,
        verdict,
        links: about.links,
        replayable: !inner.life.not_replayable,
        instructions: inner.settings.instructions,
        runbook: inner.settings.runbook,
        review,
    })
}

/// What a run's page shows of its review. `row`: when, by whom, and what was asked for; none where that is gone.
pub(crate) fn review_view(row: Option<&impl Columns>, review: &ReviewDocument) -> Result<ReviewView> {
    let (asked_at, asked_by, proposed): (Timestamp, String, Option<RawJson>) = match row {
        Some(row) => (time(row, 0)?, owned(row, 1)?, packed_json_or_none(row, 2, "request")?),
        None => (Timestamp::default(), String::new(), None),
    };
    let expires_at = Timestamp::from_millis(review.expires_at);
    Ok(ReviewView { proposed, plan_hash: review.plan_hash.clone(), expires_at, asked_by, asked_at })
}
