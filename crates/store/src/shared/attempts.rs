//! A run's attempts, with their bodies.

use std::collections::BTreeMap;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{AttemptView, ErrorReport, PayloadOmitted, RunSummary};

use super::columns::{Columns, json, number, packed_json, packed_json_or_none, text, time, whole};
use super::pages::{Before, BodyPage, sized};
use super::reader::{SqlParam, SqlReader};
use redrive_engine::error::PortResult as Result;
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::model::{AttemptBody, AttemptOrigin};
use redrive_engine::runs::document::{RunDocument, word};

/// An attempt that has ended.
pub(crate) struct EndedAttempt {
    pub(crate) number: u32,
    pub(crate) outcome: Outcome,
    pub(crate) recorded_at: Timestamp,
    pub(crate) fingerprint: Option<FingerprintKey>,
    pub(crate) origin: AttemptOrigin,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) body: AttemptBody,
    /// The newest failure report that came after the lease had ended.
    pub(crate) late: Option<LateFailure>,
}

pub(crate) struct LateFailure {
    error: ErrorReport,
    /// What was cut from its error, by field.
    truncated: BTreeMap<String, PayloadOmitted>,
}

impl LateFailure {
    fn of(body: AttemptBody) -> Option<Self> {
        let of_error = |(field, omitted): (String, PayloadOmitted)| {
            field.strip_prefix("error.").map(|field| (format!("late.{field}"), omitted))
        };
        Some(Self { error: body.error?, truncated: body.truncated.into_iter().filter_map(of_error).collect() })
    }
}

const SIZES: &str = "SELECT attempt, CAST(length(body) AS BIGINT), substr(body, 1, 5) FROM attempts
     WHERE run = $1 AND attempt < $2 ORDER BY attempt DESC LIMIT $3";
/// The columns of [`ended_attempt`].
const ENDED: &str = "SELECT attempt, outcome, recorded_at, fp_version, fp_hash, origin, verdict, body FROM attempts
     WHERE run = $1 AND attempt BETWEEN $2 AND $3 ORDER BY attempt";

/// A page of attempts that have ended, the oldest first.
pub(crate) async fn ended_attempts<R: SqlReader>(
    reader: &R,
    run: i64,
    before: &Before,
) -> Result<(BodyPage, Vec<EndedAttempt>)> {
    let values = [run.into(), before.attempt.into(), before.rows().into()];
    let page = BodyPage::fill(reader.rows(SIZES, &values).await?.read(sized)?, before.limit);
    let Some((first, last)) = page.span() else { return Ok((page, Vec::new())) };
    let span = [run.into(), first.into(), last.into()];
    let mut attempts = reader.rows(ENDED, &span).await?.read(ended_attempt)?;
    // The newest failure of each attempt that came after its lease had ended.
    let newest = "SELECT max(id) FROM late_failures WHERE run = $1 AND attempt BETWEEN $2 AND $3 GROUP BY attempt";
    let sql = format!(
        "SELECT id, CAST(length(body) AS BIGINT), substr(body, 1, 5) FROM late_failures WHERE {} ORDER BY id DESC",
        R::in_subquery("id", newest)
    );
    let late = BodyPage::fill(reader.rows(&sql, &span).await?.read(sized)?, before.limit);
    let sql = "SELECT attempt, body FROM late_failures WHERE id = ANY($1)";
    let read = reader
        .rows_any(sql, &[SqlParam::Numbers(late.numbers)])
        .await?
        .read(|row| Ok((whole(row, 0, "attempt")?, packed_json(row, 1, "late failure")?)));
    with_late(&mut attempts, read?);
    Ok((page, attempts))
}

fn ended_attempt(row: &impl Columns) -> Result<EndedAttempt> {
    let fingerprint = match (row.number_or_none(3)?, row.number_or_none(4)?) {
        (Some(_), Some(hash)) => Some(FingerprintKey { version: whole(row, 3, "fingerprint version")?, hash }),
        (None, _) | (_, None) => None,
    };
    Ok(EndedAttempt {
        number: whole(row, 0, "attempt")?,
        outcome: word(Outcome::ALL, number(row, 1)?, "outcome")?,
        recorded_at: time(row, 2)?,
        fingerprint,
        origin: json(text(row, 5)?, "origin")?,
        verdict: packed_json_or_none(row, 6, "verdict")?,
        body: packed_json(row, 7, "attempt")?,
        late: None,
    })
}

fn with_late(attempts: &mut [EndedAttempt], late: Vec<(u32, AttemptBody)>) {
    let mut newest: BTreeMap<u32, LateFailure> = BTreeMap::new();
    newest.extend(late.into_iter().filter_map(|(number, body)| Some((number, LateFailure::of(body)?))));
    for attempt in attempts {
        attempt.late = newest.remove(&attempt.number);
    }
}

/// The attempt that runs now.
pub(crate) fn under_way(summary: &RunSummary, life: &RunDocument) -> Option<AttemptView> {
    let lease = life.lease.as_ref().filter(|_| summary.state == StateName::Running)?;
    let began_at = Timestamp::from_millis(lease.began_at);
    let origin = AttemptOrigin {
        began_at: Some(began_at),
        worker: life.worker.clone(),
        revision: summary.revision,
        replay: life.replay,
        versions: life.versions.clone(),
        breaker: None,
    };
    Some(view(summary.attempt, "running", began_at, origin, AttemptBody::default()))
}

fn view(attempt: u32, outcome: &str, recorded_at: Timestamp, origin: AttemptOrigin, body: AttemptBody) -> AttemptView {
    // The run has the output of its success.
    let output = body.output.filter(|_| body.error.is_some());
    AttemptView {
        attempt,
        outcome: outcome.to_owned(),
        recorded_at,
        began_at: origin.began_at,
        started_at: body.started_at,
        ended_at: body.ended_at,
        worker: origin.worker,
        revision: origin.revision,
        replay: origin.replay,
        changed: false,
        error: body.error,
        response: body.response,
        partial_output: body.partial_output,
        finish_reason: body.finish_reason,
        usage: body.usage,
        model: body.model,
        provider: body.provider,
        tool: body.tool,
        step: body.step,
        versions: if body.versions.is_empty() { origin.versions } else { body.versions },
        fingerprint: None,
        verdict: None,
        output,
        truncated: body.truncated,
        late: None,
    }
}

impl EndedAttempt {
    pub(crate) fn into_view(self) -> AttemptView {
        let mut view = AttemptView {
            fingerprint: self.fingerprint.map(|f| f.to_string()),
            verdict: self.verdict,
            ..view(self.number, self.outcome.as_str(), self.recorded_at, self.origin, self.body)
        };
        if let Some(LateFailure { error, truncated }) = self.late {
            view.late = Some(error);
            view.truncated.extend(truncated);
        }
        view
    }
}
