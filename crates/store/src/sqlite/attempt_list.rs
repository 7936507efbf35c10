//! A run's attempts, with their bodies.

use std::collections::BTreeMap;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{AttemptView, ErrorReport, HistoryEntry, RawJson, RunSummary};
use rusqlite::{Connection, Row, params};

use super::columns::{json, packed_json, packed_json_or_none, text, time};
use super::fingerprints::FingerprintKey;
use super::life::{Life, word};
use super::lookup::{NUMBER_BITS, span_of};
use crate::error::{Error, Result};
use crate::model::{AttemptBody, AttemptOrigin};

/// An attempt that has ended.
pub(super) struct EndedAttempt {
    pub(super) number: u32,
    pub(super) outcome: Outcome,
    /// Where the run went.
    pub(super) to: StateName,
    pub(super) recorded_at: Timestamp,
    pub(super) fingerprint: Option<FingerprintKey>,
    pub(super) origin: AttemptOrigin,
    pub(super) verdict: Option<Verdict>,
    pub(super) body: AttemptBody,
    /// The newest failure that came after the lease had ended.
    pub(super) late: Option<ErrorReport>,
}

/// All of them, the first first.
pub(super) fn ended_attempts(conn: &Connection, run: i64) -> Result<Vec<EndedAttempt>> {
    let (first, last) = span_of(run);
    let mut late = late_failures(conn, run)?;
    let mut find = conn.prepare_cached(
        "SELECT id, outcome, state, recorded_at, fp_version, fp_hash, origin, verdict, body \
         FROM attempts WHERE id BETWEEN ? AND ? ORDER BY id",
    )?;
    let found = find.query_and_then(params![first, last], ended_attempt)?;
    found
        .map(|attempt| {
            let mut attempt = attempt?;
            attempt.late = late.remove(&attempt.number);
            Ok(attempt)
        })
        .collect()
}

fn ended_attempt(row: &Row<'_>) -> Result<EndedAttempt> {
    let fingerprint = match (row.get(4)?, row.get(5)?) {
        (Some(version), Some(hash)) => Some(FingerprintKey { version, hash }),
        (None, _) | (_, None) => None,
    };
    Ok(EndedAttempt {
        number: number_of(row.get(0)?)?,
        outcome: word(Outcome::ALL, row.get(1)?, "outcome")?,
        to: word(StateName::ALL, row.get(2)?, "state")?,
        recorded_at: time(row, 3)?,
        fingerprint,
        origin: json(text(row, 6)?, "origin")?,
        verdict: packed_json_or_none(row, 7, "verdict")?,
        body: packed_json(row, 8, "attempt")?,
        late: None,
    })
}

fn number_of(id: i64) -> Result<u32> {
    u32::try_from(id & ((1 << NUMBER_BITS) - 1)).map_err(|_| Error::Unexpected(format!("attempt {id}")))
}

/// By attempt; of several the newest.
fn late_failures(conn: &Connection, run: i64) -> Result<BTreeMap<u32, ErrorReport>> {
    let (first, last) = span_of(run);
    let mut find =
        conn.prepare_cached("SELECT attempt, body FROM late_failures WHERE attempt BETWEEN ? AND ? ORDER BY id")?;
    let mut rows = find.query(params![first, last])?;
    let mut late = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let body: AttemptBody = packed_json(row, 1, "late failure")?;
        if let Some(error) = body.error {
            late.insert(number_of(row.get(0)?)?, error);
        }
    }
    Ok(late)
}

/// The attempt that somebody is at, where there is one.
pub(super) fn under_way(summary: &RunSummary, life: &Life) -> Option<AttemptView> {
    let lease = life.lease.as_ref().filter(|_| summary.state == StateName::Running)?;
    let began_at = Timestamp::from_millis(lease.b);
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
    // Of a success the run itself has it.
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
        late: None,
    }
}

impl EndedAttempt {
    pub(super) fn into_view(self) -> AttemptView {
        AttemptView {
            fingerprint: self.fingerprint.map(|f| f.to_string()),
            verdict: self.verdict,
            late: self.late,
            ..view(self.number, self.outcome.as_str(), self.recorded_at, self.origin, self.body)
        }
    }

    /// What the attempt is in the run's history.
    pub(super) fn to_entry(&self) -> HistoryEntry {
        HistoryEntry {
            at: self.recorded_at,
            actor: self
                .origin
                .worker
                .as_ref()
                .map_or_else(|| super::history_list::REPORTER.to_owned(), ToString::to_string),
            event: self.outcome.to_string(),
            from: self.origin.began_at.map(|_| StateName::Running),
            to: Some(self.to),
            note: self.verdict.as_ref().map(|verdict| Text::from(verdict.why.as_str())),
        }
    }

    pub(super) fn output(&self) -> Option<&RawJson> {
        self.body.output.as_ref().filter(|_| self.outcome == Outcome::Succeeded)
    }
}
