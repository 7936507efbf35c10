//! A run's attempts, with their bodies, as people see them.

use std::collections::BTreeMap;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{AttemptView, ErrorReport, HistoryEntry, RawJson, RunSummary};

use super::columns::{Columns, json, number, packed_json, packed_json_or_none, text, time, whole};
use crate::commands::fingerprints::FingerprintKey;
use crate::commands::life::{Life, word};
use crate::error::Result;
use crate::model::{AttemptBody, AttemptOrigin};

/// An attempt that has ended.
pub(crate) struct EndedAttempt {
    pub(crate) number: u32,
    pub(crate) outcome: Outcome,
    /// Where the run went.
    pub(crate) to: StateName,
    pub(crate) recorded_at: Timestamp,
    pub(crate) fingerprint: Option<FingerprintKey>,
    pub(crate) origin: AttemptOrigin,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) body: AttemptBody,
    /// The newest failure that came after the lease had ended.
    pub(crate) late: Option<ErrorReport>,
}

/// Of what [`ended_attempt`] reads; a condition follows.
pub(crate) const ENDED: &str =
    "SELECT attempt, outcome, state, recorded_at, fp_version, fp_hash, origin, verdict, body FROM attempts";

pub(crate) fn ended_attempt(row: &impl Columns) -> Result<EndedAttempt> {
    let fingerprint = match (row.number_or_none(4)?, row.number_or_none(5)?) {
        (Some(_), Some(hash)) => Some(FingerprintKey { version: whole(row, 4, "fingerprint version")?, hash }),
        (None, _) | (_, None) => None,
    };
    Ok(EndedAttempt {
        number: whole(row, 0, "attempt")?,
        outcome: word(Outcome::ALL, number(row, 1)?, "outcome")?,
        to: word(StateName::ALL, number(row, 2)?, "state")?,
        recorded_at: time(row, 3)?,
        fingerprint,
        origin: json(text(row, 6)?, "origin")?,
        verdict: packed_json_or_none(row, 7, "verdict")?,
        body: packed_json(row, 8, "attempt")?,
        late: None,
    })
}

/// Gives each attempt the newest failure that came late, of `late` in their order.
pub(crate) fn with_late(attempts: &mut [EndedAttempt], late: impl IntoIterator<Item = (u32, AttemptBody)>) {
    let mut newest: BTreeMap<u32, ErrorReport> = BTreeMap::new();
    newest.extend(late.into_iter().filter_map(|(number, body)| Some((number, body.error?))));
    for attempt in attempts {
        attempt.late = newest.remove(&attempt.number);
    }
}

/// The attempt that somebody is at, where there is one.
pub(crate) fn under_way(summary: &RunSummary, life: &Life) -> Option<AttemptView> {
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
        truncated: body.truncated,
        late: None,
    }
}

impl EndedAttempt {
    pub(crate) fn into_view(self) -> AttemptView {
        AttemptView {
            fingerprint: self.fingerprint.map(|f| f.to_string()),
            verdict: self.verdict,
            late: self.late,
            ..view(self.number, self.outcome.as_str(), self.recorded_at, self.origin, self.body)
        }
    }

    /// What the attempt is in the run's history.
    pub(crate) fn to_entry(&self) -> HistoryEntry {
        HistoryEntry {
            at: self.recorded_at,
            actor: self.origin.worker.as_ref().map_or_else(|| super::history::REPORTER.to_owned(), ToString::to_string),
            event: self.outcome.to_string(),
            from: self.origin.began_at.map(|_| StateName::Running),
            to: Some(self.to),
            note: self.verdict.as_ref().map(|verdict| Text::from(verdict.why.as_str())),
        }
    }

    pub(crate) fn output(&self) -> Option<&RawJson> {
        self.body.output.as_ref().filter(|_| self.outcome == Outcome::Succeeded)
    }
}
